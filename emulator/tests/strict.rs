//! Strict mode: for each kind of fault a small kernel that commits it, which is reported at the right instruction whatever
//! the seed, and a repaired one, which is clean under 200 seeds. docs/emulator.md shows the reports.

mod machine;
mod watched;

use et_emulator::labels::{Command, Extent, Labels};
use et_emulator::{LaunchError, ViolationKind};
use machine::CODE;
use watched::*;

#[test]
fn a_store_that_is_not_published_is_missed() {
    let with = |publish: fn(&mut Kernel)| {
        let write = move |k: &mut Kernel| {
            k.store("store", DATA);
            publish(k);
            k.give(B);
        };
        kernel().hart(A, write).hart(B, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::StaleRead, "load", Some("store"));
    // Flushed, but not waited for.
    wrong(
        1,
        with(|k| {
            k.fence().evict("evict", DATA, 1);
        }),
        ViolationKind::StaleRead,
        "load",
        Some("store"),
    );
    clean(
        1,
        with(|k| {
            k.publish(DATA, 1);
        }),
    );
}

#[test]
fn another_shire_needs_what_is_in_memory() {
    let with = |level: u64| {
        let write = move |k: &mut Kernel| {
            k.store("store", DATA).publish(DATA, level).give(FAR);
        };
        kernel().hart(A, write).hart(FAR, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(2, with(1), ViolationKind::StaleRead, "load", Some("store"));
    clean(2, with(2));
}

#[test]
fn an_old_copy_is_read_again() {
    let with = |refresh: fn(&mut Kernel)| {
        let read = move |k: &mut Kernel| {
            k.load("first", DATA).give(A).take();
            refresh(k);
            k.load("again", DATA);
        };
        let write = |k: &mut Kernel| {
            k.take().store("store", DATA).publish(DATA, 2).give(B);
        };
        kernel().hart(A, write).hart(B, read)
    };
    wrong(1, with(|_| ()), ViolationKind::StaleRead, "again", Some("store"));
    wrong(
        1,
        with(|k| {
            k.evict("refresh", DATA, 2);
        }),
        ViolationKind::StaleRead,
        "again",
        Some("store"),
    );
    clean(
        1,
        with(|k| {
            k.refresh(DATA);
        }),
    );
}

#[test]
fn a_refresh_by_another_hart_needs_an_order() {
    // B and C read through one L2, which has an old copy that B evicts.
    const C: u32 = 4;
    let with = |give: fn(&mut Kernel), refresh: fn(&mut Kernel)| {
        let write = |k: &mut Kernel| {
            k.take().store("store", DATA).publish(DATA, 2).give(B).give(C);
        };
        let first = move |k: &mut Kernel| {
            k.load("early", DATA).give(FAR).take().refresh(DATA);
            give(k);
            k.load("fresh", DATA);
        };
        let second = move |k: &mut Kernel| {
            k.take();
            refresh(k);
            k.load("load", DATA);
        };
        kernel().hart(FAR, write).hart(B, first).hart(C, second)
    };
    wrong(2, with(|_| (), |_| ()), ViolationKind::StaleRead, "load", None);
    clean(2, with(|_| (), |k| _ = k.refresh(DATA)));
    clean(2, with(|k| _ = k.give(C), |k| _ = k.take()));
    // The tensor unit reads L2.
    let load = |refresh: fn(&mut Kernel)| {
        let write = |k: &mut Kernel| {
            k.take().store_line("store", DATA).publish(DATA, 2).give(B).give(C);
        };
        let first = |k: &mut Kernel| {
            k.load("early", DATA).give(FAR).take().refresh(DATA);
        };
        let second = move |k: &mut Kernel| {
            k.take();
            refresh(k);
            k.load_line("load", DATA, 0, 0).wait(0).load_line("other", DATA + 64, 1, 0).wait(0);
            k.product("product", true).wait(7).store_c("keep", DATA + 128).wait(8);
        };
        kernel().hart(FAR, write).hart(B, first).hart(C, second)
    };
    wrong(2, load(|_| ()), ViolationKind::StaleRead, "load", None);
    clean(2, load(|k| _ = k.refresh(DATA)));
}

#[test]
fn the_tensor_unit_does_not_see_l1() {
    let with = |publish: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.store_line("store", DATA);
            publish(k);
            k.load_line("load", DATA, 0, 0).wait(0).load_line("other", DATA + 64, 1, 0).wait(0);
            k.product("product", true).wait(7).store_c("keep", DATA + 128).wait(8);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::StaleRead, "load", Some("store"));
    clean(
        1,
        with(|k| {
            k.publish(DATA, 1);
        }),
    );
}

#[test]
fn the_harts_of_a_minion_have_caches_of_their_own() {
    let with = |publish: fn(&mut Kernel)| {
        let write = move |k: &mut Kernel| {
            k.store("store", DATA);
            publish(k);
            k.give(TWIN);
        };
        kernel().hart(A, write).hart(TWIN, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::StaleRead, "load", Some("store"));
    clean(
        1,
        with(|k| {
            k.publish(DATA, 1);
        }),
    );
}

#[test]
fn reads_and_writes_need_an_order() {
    let with = |take: fn(&mut Kernel)| {
        let read = move |k: &mut Kernel| {
            take(k);
            k.load("load", DATA);
        };
        let write = |k: &mut Kernel| {
            k.store("store", DATA).publish(DATA, 2).give(B);
        };
        kernel().hart(A, write).hart(B, read)
    };
    let unordered = with(|_| ());
    // Either side may come first; the credit is left over in any case.
    let (machine, unordered) = (strict(1), unordered.finish());
    for _ in 0..WRONG {
        let found = violations(run(&machine, &unordered, None).unwrap_err());
        assert!(found.iter().any(|v| v.kind == ViolationKind::Race), "{found:#?}");
    }
    clean(
        1,
        with(|k| {
            k.take();
        }),
    );
}

#[test]
fn a_global_store_is_complete_after_a_fence() {
    let with = |fence: fn(&mut Kernel)| {
        let write = move |k: &mut Kernel| {
            k.global_store("store", DATA);
            fence(k);
            k.give_at_once("give", B, 0);
        };
        kernel().hart(A, write).hart(B, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::Race, "load", Some("store"));
    clean(
        1,
        with(|k| {
            k.fence();
        }),
    );
}

#[test]
fn a_global_store_goes_another_way_than_a_read() {
    let with = |fence: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.global_store("store", DATA);
            fence(k);
            k.load("load", DATA);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::MissingFence, "load", Some("store"));
    clean(
        1,
        with(|k| {
            k.fence();
        }),
    );
}

#[test]
fn a_store_needs_a_fence_before_its_line_is_evicted() {
    let with = |fence: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.store("store", DATA);
            fence(k);
            k.evict("evict", DATA, 2).wait(6);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::MissingFence, "evict", Some("store"));
    clean(
        1,
        with(|k| {
            k.fence();
        }),
    );
}

#[test]
fn a_line_has_one_writer() {
    let two = |address: u64| {
        let write = |name: &'static str, address: u64| {
            move |k: &mut Kernel| {
                k.store(name, address).publish(address & !63, 2);
            }
        };
        kernel().hart(A, write("one", DATA)).hart(B, write("two", address))
    };
    let (machine, shared) = (strict(1), two(DATA + 8).finish());
    for _ in 0..WRONG {
        let found = violations(run(&machine, &shared, None).unwrap_err());
        assert!(found.iter().any(|v| v.kind == ViolationKind::SharedLine), "{found:#?}");
    }
    clean(1, two(DATA + 64));
}

#[test]
fn halves_of_a_word_may_be_stored_globally() {
    let write = |name: &'static str, address: u64| {
        move |k: &mut Kernel| {
            k.li(VALUE, 5).global_store(name, address).give(FAR);
        }
    };
    let sum = |k: &mut Kernel| {
        k.take().take().load("load", DATA);
    };
    clean(2, kernel().hart(A, write("one", DATA)).hart(B, write("two", DATA + 2)).hart(FAR, sum));
}

#[test]
fn an_old_copy_must_not_be_written_back() {
    // B reads the line, A changes its first word, B changes the second in its old copy.
    let with = |refresh: fn(&mut Kernel)| {
        let late = move |k: &mut Kernel| {
            k.load("early", DATA + 16).give(A).take();
            refresh(k);
            k.store("late", DATA + 8).publish(DATA, 2);
        };
        let write = |k: &mut Kernel| {
            k.take().store("store", DATA).publish(DATA, 2).give(B);
        };
        kernel().hart(A, write).hart(B, late)
    };
    wrong(1, with(|_| ()), ViolationKind::LostWrite, "late", Some("store"));
    clean(
        1,
        with(|k| {
            k.refresh(DATA);
        }),
    );
}

#[test]
fn what_nobody_wrote_is_not_a_value() {
    let vector = |from: u64| {
        kernel().hart(A, move |k| {
            k.move_vector("load", from, DATA).publish(DATA, 2);
        })
    };
    wrong(1, vector(NOTHING), ViolationKind::NeverWritten, "load", None);
    clean(1, vector(DATA + 64));
    // Loading it is no fault as long as nothing depends on it.
    clean(
        1,
        kernel().hart(A, |k| {
            k.li(ADDR, NOTHING);
            k.program.flq2(1, ADDR, 0);
        }),
    );
    let branch = |from: u64| {
        kernel().hart(A, move |k| {
            k.load("load", from).program.branch(0, VALUE, ZERO, 1);
        })
    };
    wrong(1, branch(NOTHING), ViolationKind::NeverWritten, "load", None);
    clean(1, branch(DATA));
    let moved = |from: u64| {
        kernel().hart(A, move |k| {
            k.load("load", from).program.word(0xF000_0053 | 1 << 7 | VALUE << 15); // fmv.w.x f1, VALUE
            k.li(ADDR, DATA);
            k.program.flq2(2, ADDR, 0).word(0x7B | 2 << 7 | 1 << 15 | 2 << 20); // fadd.ps f2, f1, f2
            k.li(ADDR, DATA + 64).program.fsq2(2, ADDR, 0);
            k.publish(DATA + 64, 2);
        })
    };
    wrong(1, moved(NOTHING), ViolationKind::NeverWritten, "load", None);
    clean(1, moved(DATA));
    let stack = |store: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.program.addi(SP, SP, -64);
            store(k);
            k.name("load").program.ld(VALUE, SP, 8);
            k.program.branch(0, VALUE, ZERO, 1);
        })
    };
    wrong(1, stack(|_| ()), ViolationKind::NeverWritten, "load", None);
    clean(
        1,
        stack(|k| {
            k.program.sd(ZERO, SP, 8);
        }),
    );
}

#[test]
fn sums_start_at_something() {
    let with = |first: bool| {
        kernel().hart(A, move |k| {
            k.command(1).load_line("a", DATA, 0, 0).load_line("b", DATA + 64, 1, 1).wait(0).wait(1);
            k.product("product", first).wait(7).store_c("store", DATA + 128).wait(8).command(0);
        })
    };
    wrong(1, with(false), ViolationKind::NeverWritten, "product", None);
    clean(1, with(true));
    // A register that an earlier command left.
    let sum = |clear: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.command(1);
            clear(k);
            k.li(ADDR, DATA);
            k.program.flq2(3, ADDR, 0);
            // fadd.ps f1, f1, f3
            k.name("add").program.word(0x7B | 1 << 7 | 1 << 15 | 3 << 20);
            k.li(ADDR, DATA + 64);
            k.program.fsq2(1, ADDR, 0);
            k.publish(DATA + 64, 2).command(0);
        })
    };
    wrong(1, sum(|_| ()), ViolationKind::NeverWritten, "add", None);
    clean(
        1,
        sum(|k| {
            k.program.word(0x5F | 1 << 7); // fbci.pi f1, 0
        }),
    );
}

#[test]
fn scratchpad_holds_nothing_across_commands() {
    const SCRATCH: u64 = 0xBF80_0000;
    let with = |second: u32| {
        kernel().hart(A, move |k| {
            k.command(1).program.word(0x5F | 2 << 7); // fbci.pi f2, 0
            k.store_line("store", SCRATCH).publish(SCRATCH, 1).command(second);
            k.move_vector("load", SCRATCH, DATA).publish(DATA, 2).command(0);
        })
    };
    wrong(1, with(2), ViolationKind::NeverWritten, "load", Some("store"));
    clean(1, with(1));
}

#[test]
fn buffers_have_ends() {
    let extent = |address, bytes, name: &str| Extent { address, bytes, name: name.into() };
    let labels = Labels {
        commands: vec![Command {
            kernel: "copy".into(),
            op: "CPY".into(),
            also: 0,
            operands: vec![extent(DATA, 64, "row")],
        }],
        buffers: vec![extent(CODE, 4096, "image"), extent(DATA, 256, "buffer")],
        timestamps: None,
    };
    let store = |address| {
        kernel().hart(A, move |k| {
            k.command(1).store("store", address).publish(address, 2).command(0);
        })
    };
    let machine = strict(1);
    let beyond = store(DATA + 256).finish();
    let found = violations(run(&machine, &beyond, Some(&labels)).unwrap_err());
    assert_eq!((found[0].kind, found[0].address), (ViolationKind::OutsideBuffers, Some(DATA + 256)));
    assert_eq!(found[0].command, "copy (command 0, tensor 'row')");
    let inside = store(DATA + 248).finish();
    run(&machine, &inside, Some(&labels)).unwrap();
    let read = |address| {
        kernel().hart(A, move |k| {
            k.load("load", address);
        })
    };
    run(&machine, &read(DATA + 256).finish(), Some(&labels)).expect("one line past the end may be read");
    let far = violations(run(&machine, &read(DATA + 320).finish(), Some(&labels)).unwrap_err());
    assert_eq!(far[0].kind, ViolationKind::OutsideBuffers);
}

#[test]
fn commands_write_their_results_only() {
    let row = |name: &str, number: u64| Extent { address: DATA + 64 * number, bytes: 64, name: name.into() };
    let command =
        |name, number: u64| Command { kernel: name, op: "CPY".into(), also: 0, operands: vec![row("row", number)] };
    let labels = Labels {
        commands: vec![command("first".into(), 0), command("second".into(), 1)],
        buffers: vec![
            Extent { address: CODE, bytes: 4096, name: "image".into() },
            Extent { address: DATA, bytes: 4096, name: "buffer".into() },
        ],
        timestamps: None,
    };
    let store = |address| {
        kernel().hart(A, move |k| {
            k.command(1).store("store", address).publish(address, 2).command(0);
        })
    };
    let machine = strict(1);
    let found = violations(run(&machine, &store(DATA + 64).finish(), Some(&labels)).unwrap_err());
    assert_eq!((found[0].kind, found[0].address), (ViolationKind::BeyondResult, Some(DATA + 64)));
    run(&machine, &store(DATA + 56).finish(), Some(&labels)).unwrap();
    run(&machine, &store(DATA + 128).finish(), Some(&labels)).expect("nobody's");
}

#[test]
fn results_are_whole() {
    let result = Extent { address: DATA, bytes: 128, name: "rows".into() };
    let labels = |op: &str| Labels {
        commands: vec![Command { kernel: "copy".into(), op: op.into(), also: 0, operands: vec![result.clone()] }],
        ..Labels::default()
    };
    let store = |lines: u64| {
        kernel().hart(A, move |k| {
            k.command(1);
            for addr in (0..lines).map(|line| DATA + 64 * line) {
                k.program.word(0x5F | 2 << 7); // fbci.pi f2, 0
                k.store_line("store", addr).publish(addr, 2);
            }
            k.command(0);
        })
    };
    let machine = strict(1);
    let found = violations(run(&machine, &store(1).finish(), Some(&labels("CONT"))).unwrap_err());
    assert_eq!((found[0].kind, found[0].address), (ViolationKind::ResultMissing, Some(DATA + 64)));
    let machine = strict(1);
    run(&machine, &store(1).finish(), Some(&labels("CPY"))).expect("a copy into a part of something");
    run(&machine, &store(2).finish(), Some(&labels("CONT"))).unwrap();
}

#[test]
fn the_tensor_unit_is_waited_for() {
    let product = |steps: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.load_line("a", DATA, 0, 0).load_line("b", DATA + 64, 1, 1);
            steps(k);
        })
    };
    // Used before it is loaded.
    let early = product(|k| {
        k.wait(0).product("product", true).wait(7).wait(1);
    });
    wrong(1, early, ViolationKind::TensorHazard, "product", Some("b"));
    // Overwritten while it is used.
    let late = product(|k| {
        k.wait(0).wait(1).product("product", true).load_line("next", DATA + 128, 1, 0).wait(0).wait(7);
    });
    wrong(1, late, ViolationKind::TensorHazard, "next", Some("product"));
    // Two loads to one line.
    let twice = product(|k| {
        k.wait(0).load_line("again", DATA + 128, 1, 0).wait(0).wait(1);
    });
    wrong(1, twice, ViolationKind::TensorHazard, "again", Some("b"));
    // Read back before the store is complete.
    let read = product(|k| {
        k.wait(0).wait(1).product("product", true).store_c("store", DATA + 192);
        k.load("load", DATA + 192).wait(8);
    });
    wrong(1, read, ViolationKind::TensorHazard, "load", Some("store"));
    // The source changes under a load.
    let source = product(|k| {
        k.store("store", DATA).wait(0).wait(1);
    });
    wrong(1, source, ViolationKind::TensorHazard, "store", Some("a"));
    // Never waited for.
    wrong(1, product(|k| _ = k.wait(0)), ViolationKind::NotWaited, "b", None);
    clean(
        1,
        product(|k| {
            k.wait(0).wait(1).product("product", true).wait(7).load_line("next", DATA + 128, 1, 0).wait(0);
            k.product("product", false).store_c("store", DATA + 192).wait(8).load("load", DATA + 192);
        }),
    );
}

#[test]
fn a_tensor_store_is_handed_over_by_its_wait() {
    let with = |wait: fn(&mut Kernel)| {
        let write = move |k: &mut Kernel| {
            k.store_c("store", DATA);
            wait(k);
            k.give(B).wait(8);
        };
        kernel().hart(A, write).hart(B, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(1, with(|_| ()), ViolationKind::Race, "load", Some("store"));
    clean(1, with(|k| _ = k.wait(8)));
}

#[test]
fn parts_of_lines_linger() {
    // 32 bytes, and the rest of the line.
    let with = |rest: fn(&mut Kernel)| {
        let write = move |k: &mut Kernel| {
            k.csr("store", 0x87F, 1 << 55 | DATA, 64).wait(8);
            rest(k);
            k.give(FAR);
        };
        kernel().hart(A, write).hart(FAR, |k| {
            k.take().load("load", DATA);
        })
    };
    wrong(2, with(|_| ()), ViolationKind::StaleRead, "load", Some("store"));
    clean(2, with(|k| _ = k.csr("rest", 0x87F, 1 << 55 | (DATA + 32), 64).wait(8)));
    clean(2, with(|k| _ = k.evict("evict", DATA, 2).wait(6)));
}

#[test]
fn commands_leave_nothing_behind() {
    let dirty = |publish: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.command(1).store("store", DATA);
            publish(k);
            k.command(0);
        })
    };
    wrong(1, dirty(|_| ()), ViolationKind::LeftDirty, "store", None);
    wrong(1, dirty(|k| _ = k.publish(DATA, 1)), ViolationKind::LeftDirty, "store", None);
    clean(1, dirty(|k| _ = k.publish(DATA, 1).evict("further", DATA, 2).wait(6)));
    clean(1, dirty(|k| _ = k.publish(DATA, 2)));
    let fetched = |end: fn(&mut Kernel)| {
        let write = |k: &mut Kernel| {
            k.store("store", DATA).publish(DATA, 2).give(B);
        };
        kernel().hart(A, write).hart(B, move |k| {
            k.command(1).take().csr("prefetch", 0x81F, DATA, 64);
            end(k);
            k.command(0);
        })
    };
    wrong(1, fetched(|_| ()), ViolationKind::NotWaited, "prefetch", None);
    clean(1, fetched(|k| _ = k.wait(4)));
    clean(1, fetched(|k| _ = k.load("load", DATA)));
    let mask = |restore: fn(&mut Kernel)| {
        kernel().hart(A, move |k| {
            k.name("mask").program.word(0x5600_707B | 1 << 20); // mov.m.x m0, x0, 15
            restore(k);
        })
    };
    wrong(1, mask(|k| _ = k.store("store", DATA)), ViolationKind::FpState, "mask", None);
    clean(1, mask(|k| _ = k.program.word(0x57F0_707B))); // mov.m.x m0, x0, 0xff
    let mode = |last: u32| {
        kernel().hart(A, move |k| {
            k.program.csrwi(0x002, 1);
            k.name("mode").program.csrwi(0x002, last);
            k.store("store", DATA);
        })
    };
    wrong(1, mode(2), ViolationKind::FpState, "mode", None);
    clean(1, mode(0));
}

#[test]
fn credits_and_barriers_balance() {
    let with = |takes: usize| {
        kernel()
            .hart(A, |k| {
                k.give_at_once("give", B, 0);
            })
            .hart(B, move |k| {
                for _ in 0..takes {
                    k.take();
                }
            })
    };
    wrong(1, with(0), ViolationKind::Credits, "give", None);
    clean(1, with(1));
    let meet = |second: fn(&mut Kernel)| {
        kernel()
            .hart(A, |k| {
                k.arrive("first", 3, 1);
            })
            .hart(B, second)
    };
    wrong(1, meet(|_| ()), ViolationKind::Credits, "first", None);
    clean(1, meet(|k| _ = k.arrive("second", 3, 1)));
    let (machine, limits) = (strict(1), meet(|k| _ = k.arrive("second", 3, 2)).finish());
    for _ in 0..WRONG {
        let found = violations(run(&machine, &limits, None).unwrap_err());
        assert!(found.iter().any(|v| v.kind == ViolationKind::SharedBarrier), "{found:#?}");
    }
}

#[test]
fn groups_have_barriers_of_their_own() {
    // Two pairs of harts, one barrier or two.
    let with = |other: u64| {
        let arrive = |name: &'static str, barrier| move |k: &mut Kernel| _ = k.arrive(name, barrier, 1);
        let first = kernel().hart(A, arrive("a", 1)).hart(TWIN, arrive("b", 1));
        first.hart(B, arrive("c", other)).hart(B + 1, arrive("d", other))
    };
    let (machine, shared) = (strict(1), with(1).finish());
    for _ in 0..WRONG {
        let found = violations(run(&machine, &shared, None).unwrap_err());
        assert!(found.iter().any(|v| v.kind == ViolationKind::SharedBarrier), "{found:#?}");
    }
    clean(1, with(2));
}

#[test]
fn stacks_have_4_kib() {
    let with = |depth: i32| {
        kernel().hart(A, move |k| {
            k.li(TEMP, depth as u64);
            k.program.word(0x4000_0033 | TEMP << 20 | SP << 15 | SP << 7); // sub sp, sp, x9
            k.name("push").program.sd(ZERO, SP, 0);
        })
    };
    wrong(1, with(4080), ViolationKind::Stack, "push", None);
    clean(1, with(4000));
    let foreign = kernel().hart(B, |k| {
        k.name("peek").program.ld(VALUE, SP, 4160);
    });
    wrong(1, foreign, ViolationKind::Stack, "peek", None);
}

#[test]
fn atomics_order_and_do_not_race() {
    // Both add; whoever polls the sum may read what the other wrote before.
    let write = |k: &mut Kernel| {
        k.store("store", DATA + 64).publish(DATA + 64, 2).fence().atomic_add(DATA);
    };
    let read = |k: &mut Kernel| {
        k.atomic_add(DATA);
        k.li(ADDR, DATA).li(TEMP, 2);
        // amoorg.w x7, x0, (x8); until it is 2
        k.program.word(0x4200_203B | ADDR << 15 | VALUE << 7).branch(1, VALUE, TEMP, -1);
        k.load("load", DATA + 64);
    };
    clean(1, kernel().hart(A, write).hart(B, read));
}

#[test]
fn deadlocks_and_traps_stay_what_they_are() {
    let machine = strict(1);
    let alone = kernel().hart(A, |k| _ = k.take()).finish();
    let error = run(&machine, &alone, None).unwrap_err();
    assert!(matches!(&error, LaunchError::Deadlock(waiting) if waiting[0].hart == 0), "{error}");
    let illegal = kernel().hart(A, |k| _ = k.program.word(u32::MAX)).finish();
    let error = run(&machine, &illegal, None).unwrap_err();
    assert!(matches!(&error, LaunchError::Faults(faults) if faults[0].hart == 0), "{error}");
}

#[test]
fn a_seed_runs_the_same_way_again() {
    let race = || {
        let add = |k: &mut Kernel| _ = k.atomic_add(DATA).store("store", DATA + 64);
        kernel().hart(A, add).hart(B, add).hart(TWIN, add).finish()
    };
    let reports = || {
        let machine = strict(1);
        (0..20).map(|_| run(&machine, &race(), None).unwrap_err().to_string()).collect::<Vec<_>>()
    };
    let first = reports();
    assert_eq!(first, reports());
    assert!(first.iter().any(|report| *report != first[0]), "seeds differ in the order of harts");
}
