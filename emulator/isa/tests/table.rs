//! Properties of the table itself, and of the check that kernel builds make.

use et_isa::{check, decode, encode, Op, Operands, Status, TABLE};

#[test]
fn no_two_encodings_overlap() {
    for (i, a) in TABLE.iter().enumerate() {
        assert_eq!(a.matches & !a.mask, 0, "{} fixes bits outside its mask", a.mnemonic);
        for b in &TABLE[..i] {
            assert!((a.matches ^ b.matches) & a.mask & b.mask != 0, "{} and {} overlap", a.mnemonic, b.mnemonic);
        }
    }
}

#[test]
fn operands_and_fixed_bits_are_disjoint_and_cover_what_matters() {
    for row in TABLE {
        let ones = Operands { rd: 7, rs1: 7, rs2: 7, rs3: 7, rm: 7, csr: 0xFFF, imm: 2 };
        let bits = ones.insert(row.form).expect("small operands fit");
        assert_eq!(bits & row.mask, 0, "{} has an operand in its fixed bits", row.mnemonic);
    }
}

#[test]
fn the_decoder_finds_what_a_linear_search_finds() {
    let mut state = 1u32;
    for i in 0..200_000 {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        // Half of the words are near some row, so that most of the table is reached.
        let row = &TABLE[i % TABLE.len()];
        let word = if i & 1 == 0 { state.rotate_left(9) | 3 } else { state.rotate_left(9) & !row.mask | row.matches };
        let linear = TABLE.iter().find(|r| word & r.mask == r.matches).map(|r| r.op);
        assert_eq!(decode(word), linear, "{word:08x}");
    }
}

fn reasons(words: &[u32]) -> Vec<(usize, String)> {
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    check(&code).into_iter().map(|f| (f.offset, f.why)).collect()
}

#[test]
fn the_check_passes_what_works_and_finds_what_does_not() {
    for row in TABLE.iter().filter(|row| row.class != et_isa::Class::Csr) {
        let word = encode(row.op, &Operands::default()).expect("zero operands fit");
        assert_eq!(reasons(&[0x13, word, 0x13]).is_empty(), row.status == Status::Works, "{}", row.mnemonic);
    }
    let csr = |op, csr, rs1| encode(op, &Operands { csr, rs1, ..Default::default() }).expect("fits");
    assert_eq!(reasons(&[csr(Op::Csrrs, 0xC03, 0), csr(Op::Csrrw, 0x83F, 5), csr(Op::Csrrs, 0xCD0, 0)]), []);
    for bad in [
        csr(Op::Csrrs, 0xC00, 0),
        csr(Op::Csrrw, 0xCD0, 5),
        csr(Op::Csrrs, 0x300, 0),
        csr(Op::Csrrw, 0x807, 1),
        0x0000_3007, // fld
        0x0205_0053, // fadd.d
        0x100A_A52F, // lr.w
        0x0000_5053, // fadd.s with rounding mode 5
    ] {
        let found = reasons(&[0x13, bad]);
        assert_eq!(found.len(), 1, "{bad:08x}");
        assert_eq!(found[0].0, 4);
    }
}

#[test]
fn the_check_walks_both_lengths() {
    // c.nop; fdiv.s; c.fld; a half instruction at the end.
    let code = [0x01, 0x00, 0x53, 0x70, 0x10, 0x18, 0x00, 0x20, 0x13, 0x00];
    let found = check(&code);
    assert_eq!(found.iter().map(|f| f.offset).collect::<Vec<_>>(), [2, 6, 8]);
    assert!(found[0].why.contains("fdiv.s"), "{}", found[0]);
}
