//! Launches: what a kernel finds, how errors come out, how harts are run.

mod machine;

use et_emulator::sync::WaitFor;
use et_emulator::trap::{Cause, Trap};
use et_emulator::{Launch, LaunchError, LineTable, Machine};
use machine::{launch, machine, Program, CODE};
use std::time::{Duration, Instant};

const DATA: u64 = 0x80_0800_0000;
const BNE: u32 = 1;
const BEQ: u32 = 0;

fn words(machine: &Machine, addr: u64, count: usize) -> Vec<u64> {
    let mut bytes = vec![0; 8 * count];
    machine.read(addr, &mut bytes).unwrap();
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Runs `work` on one hart; the others return at once.
fn on_hart(hart: u32, work: &Program) -> Program {
    let mut program = Program::default();
    program.csrr(5, 0xCD0).addi(6, 0, hart as i32).branch(BNE, 5, 6, work.0.len() as i32 + 1);
    program.0.extend(&work.0);
    program.exit(0);
    program
}

#[test]
fn entry_state() {
    let machine = machine(2, 2);
    // Stores a0, a1, sp and ra of each hart at DATA + 32 * hart.
    let mut program = Program::default();
    program.csrr(5, 0xCD0).slli(5, 5, 5).li(6, DATA).add(5, 5, 6);
    program.sd(10, 5, 0).sd(11, 5, 8).sd(2, 5, 16).sd(1, 5, 24).exit(0);
    machine.write(CODE, &program.bytes()).unwrap();
    let report = machine.launch(&Launch { args: &[1, 2, 3, 4, 5, 6, 7, 8], ..launch(CODE, 0b11) }).unwrap();
    assert_eq!(report.instructions, 128 * (program.0.len() as u64 - 1), "all but the final ecall retire");
    let mut stacks = Vec::new();
    for hart in 0..128 {
        let [a0, a1, sp, ra] = words(&machine, DATA + 32 * hart, 4)[..] else { unreachable!() };
        assert_eq!((a0, a1, ra), (words(&machine, DATA, 1)[0], words(&machine, DATA + 8, 1)[0], 0));
        stacks.push(sp);
    }
    assert!(stacks.windows(2).all(|pair| pair[0] - pair[1] == 4096 + 64), "4 KiB and a line each");

    // The blocks are read by a kernel: they lie in firmware's memory.
    let mut work = Program::default();
    work.li(6, DATA);
    for (block, offset) in [(10, 0), (11, 0), (11, 8), (11, 16)] {
        work.ld(7, block, offset).sd(7, 6, 0).addi(6, 6, 8);
    }
    machine.write(CODE, &on_hart(0, &work).bytes()).unwrap();
    machine.launch(&Launch { args: &[1, 2, 3, 4, 5, 6, 7, 8], ..launch(CODE, 0b11) }).unwrap();
    let [args, version, mask, frequency] = words(&machine, DATA, 4)[..] else { unreachable!() };
    assert_eq!(args, 0x0807_0605_0403_0201);
    assert_eq!((version as u32, mask, frequency as u32), (1, 0b11, 650));
}

struct Names;

impl LineTable for Names {
    fn locate(&self, pc: u64) -> Option<String> {
        (pc >= CODE).then(|| format!("word {}", (pc - CODE) / 4))
    }
}

/// The single fault of a program whose hart 3 does `work` while others never end.
fn fault(work: &Program) -> (u64, Trap, String) {
    let machine = machine(1, 2);
    let mut program = Program::default();
    program.csrr(5, 0xCD0).addi(6, 0, 3).branch(BEQ, 5, 6, 2);
    program.branch(BEQ, 0, 0, 0);
    program.0.extend(&work.0);
    machine.write(CODE, &program.bytes()).unwrap();
    let start = Instant::now();
    let error = machine.launch(&Launch { lines: Some(&Names), ..launch(CODE, 1) }).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20), "the others were not stopped");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    let LaunchError::Faults(faults) = error else { panic!("{text}") };
    assert_eq!((faults.len(), faults[0].hart), (1, 3), "{text}");
    (faults[0].pc.wrapping_sub(CODE) / 4, faults[0].trap, text)
}

#[test]
fn faults_name_hart_place_and_cause() {
    let mut load = Program::default();
    load.ld(7, 0, 16);
    let (word, trap, text) = fault(&load);
    assert_eq!((word, trap), (4, Trap { cause: Cause::LoadAccess, tval: 16 }));
    assert!(text.contains("hart 3 (shire 0, minion 1, thread 1)"), "{text}");
    assert!(text.contains("0x10") && text.contains("in word 4"), "{text}");

    let mut store = Program::default();
    store.li(6, 0x80_0000_1000).sd(7, 6, 0);
    assert_eq!(fault(&store).1, Trap { cause: Cause::StoreAccess, tval: 0x80_0000_1000 });

    let mut crossing = Program::default();
    crossing.li(6, 0x8027_FFFC).ld(7, 6, 0);
    assert_eq!(fault(&crossing).1, Trap { cause: Cause::BusError, tval: 0x8028_0000 });

    let mut absent = Program::default();
    absent.li(6, 0x8000_0000 | 1 << 23).ld(7, 6, 0);
    assert_eq!(fault(&absent).1.cause, Cause::BusError);

    let mut illegal = Program::default();
    illegal.word(0xFFFF_FFFF);
    assert_eq!(fault(&illegal).1, Trap { cause: Cause::IllegalInstruction, tval: 0xFFFF_FFFF });

    let mut product = Program::default();
    product.addi(7, 0, 2 << 1).csrrw(0, 0x801, 7);
    assert_eq!(fault(&product).1, Trap { cause: Cause::IllegalInstruction, tval: 0x8013_9073 });

    let mut jump = Program::default();
    jump.jr(0);
    assert_eq!(fault(&jump).1, Trap { cause: Cause::FetchAccess, tval: 0 });

    let mut cache = Program::default();
    cache.li(7, 2 << 58 | 0x8000_0000).csrrw(0, 0x8BF, 7);
    assert_eq!(fault(&cache).1, Trap { cause: Cause::BusError, tval: 0x8000_0000 });
}

#[test]
fn what_is_absent_is_a_bus_error_only_where_the_access_is_allowed() {
    // A register of shire 5, and scratchpad of shire 5, on a machine without it.
    const REGISTER: u64 = 0x1_0034_00C0 | 5 << 22;
    const SCRATCHPAD: u64 = 0x8000_0000 | 5 << 23;
    const AMOADDL_W: u32 = 0x0000_203B;
    let cause = |addr: u64, access: fn(&mut Program) -> &mut Program| {
        let mut program = Program::default();
        access(program.li(6, addr));
        fault(&program).1.cause
    };
    assert_eq!(cause(REGISTER, |p| p.ld(7, 6, 0)), Cause::BusError);
    assert_eq!(cause(REGISTER, |p| p.lw(7, 6, 0)), Cause::LoadAccess);
    assert_eq!(cause(REGISTER, |p| p.ld(7, 6, 4)), Cause::LoadAccess);
    assert_eq!(cause(REGISTER, |p| p.sw(7, 6, 0)), Cause::StoreAccess);
    assert_eq!(cause(REGISTER, |p| p.amoaddg_w(7, 7, 6)), Cause::StoreAccess);
    assert_eq!(cause(SCRATCHPAD, |p| p.lw(7, 6, 1)), Cause::BusError);
    assert_eq!(cause(SCRATCHPAD, |p| p.amoaddg_w(7, 7, 6)), Cause::BusError);
    assert_eq!(cause(SCRATCHPAD + 2, |p| p.amoaddg_w(7, 7, 6)), Cause::StoreAccess);
    assert_eq!(cause(SCRATCHPAD, |p| p.word(AMOADDL_W | 7 << 20 | 6 << 15 | 7 << 7)), Cause::StoreAccess);
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    // Minion 2 sends to minion 9, which does not receive; all other harts wait for a credit.
    let mut send = Program::default();
    send.li(7, 1 << 16 | 9 << 3).csrrw(0, 0x800, 7).csrwi(0x830, 9).exit(0);
    let wait = 3 + send.0.len() as u64 - 5;
    let mut program = Program::default();
    program.csrr(5, 0xCD0).addi(6, 0, 4).branch(BNE, 5, 6, send.0.len() as i32 + 1);
    program.0.append(&mut send.0);
    program.csrwi(0x821, 1).exit(0);
    for threads in [1, 2, 7] {
        let machine = machine(2, threads);
        machine.write(CODE, &program.bytes()).unwrap();
        let error = machine.launch(&launch(CODE, 0b11)).unwrap_err();
        let text = error.to_string();
        let LaunchError::Deadlock(waiting) = error else { panic!("{text}") };
        assert_eq!(waiting.len(), 128);
        let sender = waiting.iter().find(|hart| hart.hart == 4).unwrap();
        assert_eq!((sender.what, sender.pc), (WaitFor::Minion(9), CODE + 4 * wait));
        assert!(waiting.iter().filter(|hart| hart.what == WaitFor::Credit(1)).count() == 127);
        assert!(text.contains("and 126 more for a credit in FCC 1"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn a_deadlock_is_found_when_some_harts_have_returned() {
    let mut work = Program::default();
    work.csrwi(0x821, 0);
    for threads in [1, 2] {
        for hart in [0, 1, 2, 63] {
            let error = on_hart(hart, &work).run(&machine(1, threads), 1).unwrap_err();
            let LaunchError::Deadlock(waiting) = error else { panic!("{error}") };
            assert_eq!((waiting.len(), u32::from(waiting[0].hart)), (1, hart));
        }
    }
}

#[test]
fn the_deadline_ends_loops_and_waits() {
    let limit = Duration::from_millis(50);
    let mut forever = Program::default();
    forever.branch(BEQ, 0, 0, 0);
    let mut one = Program::default();
    one.csrr(5, 0xCD0).branch(BEQ, 5, 0, 2).csrwi(0x821, 0).branch(BEQ, 0, 0, 0);
    for program in [forever, one] {
        for threads in [1, 2] {
            let machine = machine(1, threads);
            machine.write(CODE, &program.bytes()).unwrap();
            let start = Instant::now();
            let error = machine.launch(&Launch { deadline: Some(limit), ..launch(CODE, 1) }).unwrap_err();
            assert!(matches!(error, LaunchError::Deadline(d) if d == limit), "{error}");
            assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(20));
        }
    }
}

#[test]
fn bad_returns_and_calls() {
    let machine = machine(1, 2);
    let mut negative = Program::default();
    negative.exit(-5);
    let error = on_hart(6, &negative).run(&machine, 1).unwrap_err();
    assert!(matches!(error, LaunchError::BadReturn { hart: 6, value: -5, kind: 0 }), "{error}");

    let mut kind = Program::default();
    kind.addi(10, 0, 8).addi(11, 0, 0).addi(12, 0, 1).ecall();
    let error = on_hart(6, &kind).run(&machine, 1).unwrap_err();
    assert!(matches!(error, LaunchError::BadReturn { hart: 6, value: 0, kind: 1 }), "{error}");

    let mut unknown = Program::default();
    unknown.addi(10, 0, 77).ecall();
    let error = on_hart(6, &unknown).run(&machine, 1).unwrap_err();
    assert!(matches!(&error, LaunchError::BadCall(call) if call.number == 77 && call.hart == 6), "{error}");

    // A positive value is no error, and cache calls are served.
    let mut fine = Program::default();
    for call in [1, 2, 6, 11, 302] {
        fine.addi(10, 0, call).ecall().branch(BNE, 10, 0, 100);
    }
    fine.exit(3);
    on_hart(6, &fine).run(&machine, 1).unwrap();
}

#[test]
fn launches_that_cannot_be() {
    let machine = machine(2, 1);
    for mask in [0, 0b100, 1 << 63] {
        let error = machine.launch(&launch(CODE, mask)).unwrap_err();
        assert!(matches!(error, LaunchError::Shires { shires: 2, .. }), "{error}");
    }
    let error = machine.launch(&Launch { args: &[0; Launch::MAX_ARGS + 1], ..launch(CODE, 1) }).unwrap_err();
    assert!(matches!(error, LaunchError::Args(_)), "{error}");
}

#[test]
fn the_host_reaches_its_memory_only() {
    let machine = machine(1, 1);
    let dram = machine.dram();
    machine.write(dram.end - 4, &[1, 2, 3, 4]).unwrap();
    machine.copy(dram.start, dram.end - 4, 4).unwrap();
    machine.fill(dram.start + 2, 1, 9).unwrap();
    let mut out = [0; 4];
    machine.read(dram.start, &mut out).unwrap();
    assert_eq!(out, [1, 2, 9, 4]);
    assert!(machine.write(dram.end - 3, &[0; 4]).is_err());
    assert!(machine.read(dram.start - 1, &mut out).is_err());
    assert!(machine.fill(u64::MAX, 2, 0).is_err());
    assert!(machine.copy(dram.start, dram.end, 1).is_err());
    assert_eq!(machine.read(dram.end, &mut []), Ok(()), "nothing is nowhere");
}

#[test]
fn code_runs_where_it_is_put_and_as_it_was_last_written() {
    let machine = machine(1, 2);
    for entry in [CODE, CODE + 0x123_4000] {
        // Loads its own first two words, relative to pc.
        let mut work = Program::default();
        work.auipc(6, 0).ld(7, 6, -12).li(8, DATA).sd(7, 8, 0);
        let program = on_hart(0, &work);
        machine.write(entry, &program.bytes()).unwrap();
        machine.fill(DATA, 8, 0).unwrap();
        machine.launch(&launch(entry, 1)).unwrap();
        assert_eq!(words(&machine, DATA, 1)[0], u64::from(program.0[1]) << 32 | u64::from(program.0[0]));
    }
    // New code at an old place.
    for value in [5, 6] {
        let mut work = Program::default();
        work.addi(7, 0, value).li(8, DATA).sd(7, 8, 0);
        on_hart(0, &work).run(&machine, 1).unwrap();
        assert_eq!(words(&machine, DATA, 1)[0], value as u64);
    }
}

/// Barriers over all harts of `shires` shires: each hart counts itself, waits for all, and must then see all.
fn barriers(shires: u32, rounds: u64) -> Program {
    const CREDITS: u64 = 0x1_0034_00C0;
    let harts = u64::from(shires) * 64;
    let mut last = Program::default();
    // The last hart of the last shire takes the shires' counter back and credits counter 0 of everybody.
    last.amoswapg_w(0, 0, 21)
        .li(25, 0xFFFF_FFFF)
        .li(26, CREDITS)
        .li(27, CREDITS + (u64::from(shires) << 22))
        .li(28, 1 << 22);
    last.sd(25, 26, 0).sd(25, 26, 16).add(26, 26, 28).branch(BNE, 26, 27, -3);

    let mut program = Program::default();
    program.li(20, DATA).li(21, DATA - 64).li(22, harts).li(23, DATA + 64 * rounds);
    program.addi(9, 0, 1).li(7, 63 << 5).addi(24, 0, shires as i32 - 1);
    let top = program.0.len() as i32;
    program.amoaddg_w(0, 9, 20);
    program.csrrw(6, 0x820, 7).branch(BEQ, 6, 0, last.0.len() as i32 + 3);
    program.amoaddg_w(8, 9, 21).branch(BNE, 8, 24, last.0.len() as i32 + 1);
    program.0.append(&mut last.0);
    program.csrwi(0x821, 0);
    program.amoaddg_w(6, 0, 20).branch(BEQ, 6, 22, 5);
    program.exit(-1);
    program.addi(20, 20, 64);
    let back = top - program.0.len() as i32;
    program.branch(BNE, 20, 23, back).exit(0);
    program
}

#[test]
fn chip_barriers_hold_for_any_number_of_shires() {
    for shires in [1, 2, 8, 31, 32] {
        for threads in [1, 2] {
            let machine = machine(shires, threads);
            let report = barriers(shires, 5).run(&machine, (1 << shires) - 1);
            let report = report.unwrap_or_else(|error| panic!("{shires} shires, {threads} threads: {error}"));
            assert!(report.cycles > 0 && report.instructions >= report.cycles);
            let counts: Vec<u64> = (0..5).map(|round| words(&machine, DATA + 64 * round, 1)[0]).collect();
            assert_eq!(counts, [u64::from(shires) * 64; 5]);
        }
    }
}

#[test]
fn a_subset_of_shires_runs() {
    let machine = machine(4, 2);
    let mut program = Program::default();
    program.addi(9, 0, 1).li(20, DATA).amoaddg_w(0, 9, 20).exit(0);
    program.run(&machine, 0b1010).unwrap();
    assert_eq!(words(&machine, DATA, 1)[0], 128);
}

#[test]
fn clocks_go_with_credits() {
    let machine = machine(1, 2);
    // Hart 2 counts to 1000 before it credits hart 0, whose counter must then be behind that.
    let mut work = Program::default();
    work.addi(6, 0, 500).addi(6, 6, -1).branch(BNE, 6, 0, -1).li(7, 0x1_3FF4_00C0).addi(8, 0, 1).sd(8, 7, 0);
    let mut program = Program::default();
    program.csrr(5, 0xCD0).addi(6, 0, 2).branch(BNE, 5, 6, work.0.len() as i32 + 1);
    program.0.append(&mut work.0);
    program.branch(BNE, 5, 0, 15).csrwi(0x821, 0).csrr(7, 0xC03).li(8, DATA).sd(7, 8, 0);
    program.exit(0);
    program.run(&machine, 1).unwrap();
    let clock = words(&machine, DATA, 1)[0];
    assert!((1000..1100).contains(&clock), "{clock}");
}

#[test]
fn concurrent_launches_take_turns() {
    let machine = machine(1, 2);
    let mut program = Program::default();
    program.addi(9, 0, 1).li(20, DATA).amoaddg_w(0, 9, 20).exit(0);
    machine.write(CODE, &program.bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert!(machine.launch(&launch(CODE, 1)).is_ok())));
        }
    });
    assert_eq!(words(&machine, DATA, 1)[0], 4 * 20 * 64);
}

#[test]
fn a_queue_behind_a_reduction_does_not_hold_its_hart() {
    // Minion 0 sends f0 to minion 1, which asks for it only when it gets a credit, which is sent after the send and a
    // store behind it were issued.
    let mut sender = Program::default();
    sender.li(6, DATA + 128).flq2(0, 6, 0).flq2(1, 6, 32);
    sender.li(7, 1 << 16 | 1 << 3).csrrw(0, 0x800, 7);
    sender.addi(31, 0, 64).li(7, 3 << 55 | DATA).csrrw(0, 0x87F, 7);
    sender.li(6, 0x1_3FF4_00C0).addi(8, 0, 2).sd(8, 6, 0).csrwi(0x830, 8).exit(0);
    let mut receiver = Program::default();
    receiver.csrwi(0x821, 0).li(7, 8 << 24 | 1 << 16 | 1).csrrw(0, 0x800, 7).csrwi(0x830, 9);
    receiver.li(6, DATA + 64).fsq2(0, 6, 0);

    let mut program = Program::default();
    program.csrr(5, 0xCD0).branch(BNE, 5, 0, sender.0.len() as i32 + 1);
    program.0.append(&mut sender.0);
    program.addi(6, 0, 2).branch(BNE, 5, 6, receiver.0.len() as i32 + 1);
    program.0.append(&mut receiver.0);
    program.exit(0);
    for threads in [1, 2] {
        let machine = machine(1, threads);
        let pattern: Vec<u8> = (1..=64).collect();
        machine.write(DATA + 128, &pattern).unwrap();
        program.run(&machine, 1).unwrap();
        let mut out = [0; 96];
        machine.read(DATA, &mut out).unwrap();
        assert_eq!(out[..64], pattern, "the store");
        assert_eq!(out[64..], pattern[..32], "what was received");
    }
}

#[test]
fn switching_the_scratchpad_on_clears_it() {
    let machine = machine(1, 1);
    machine.write(DATA + 64, &[0xAB; 64]).unwrap();
    let mut work = Program::default();
    work.addi(31, 0, 64).li(7, DATA + 64).csrrw(0, 0x83F, 7).csrwi(0x830, 0);
    // Off: a store from the scratchpad is refused. On again: its lines are zero.
    work.csrwi(0x810, 0).li(8, 1 << 48 | DATA).csrrw(0, 0x87F, 8).csrr(9, 0x808);
    work.csrwi(0x810, 2).csrrw(0, 0x87F, 8).csrwi(0x830, 8).li(6, DATA + 128).sd(9, 6, 0);
    machine.fill(DATA, 64, 0xCD).unwrap();
    on_hart(0, &work).run(&machine, 1).unwrap();
    assert_eq!(words(&machine, DATA, 8), [0; 8]);
    assert_eq!(words(&machine, DATA + 128, 1), [1 << 4], "tensor_error says that it was off");
}
