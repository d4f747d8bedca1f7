//! Sampled encodings through decoder, disassembler and the GNU assembler and back.
//!
//! The seed is fixed; PROPTEST_RNG_SEED sets another one, PROPTEST_CASES the number of batches, and scripts/test-full
//! takes many.

mod gas;

use et_isa::{encode, Insn, TABLE};
use gas::{assemble, words};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Words in a batch, which is one run of the assembler.
const BATCH: usize = 4000;

/// Any instruction with any bits where it has operands or does not look, now and then any word at all.
fn word() -> impl Strategy<Value = u32> {
    let row = (0..TABLE.len(), any::<u32>()).prop_map(|(row, bits)| TABLE[row].matches | bits & !TABLE[row].mask);
    prop_oneof![9 => row, 1 => any::<u32>().prop_map(|word| word | 3)]
}

fn config() -> ProptestConfig {
    let full = std::env::var_os("GGML_ET_TEST_FULL").is_some();
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() {
            default.cases
        } else if full {
            200
        } else {
            4
        },
        rng_seed: if std::env::var_os("PROPTEST_RNG_SEED").is_some() { default.rng_seed } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        // What fails is named; smaller batches tell no more.
        max_shrink_iters: 0,
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn text_assembles_to_the_same_word(batch in prop::collection::vec(word(), BATCH)) {
        let insns: Vec<Insn> = batch.into_iter().filter_map(Insn::decode).collect();
        prop_assert!(insns.len() > BATCH * 4 / 5, "{} of {BATCH} are defined", insns.len());
        let source: String = insns.iter().map(|insn| format!("{insn}\n")).collect();
        let assembled = words(&assemble("sampled", "rv64imf_zifencei", &source));
        prop_assert_eq!(assembled.len(), insns.len());
        for (insn, word) in insns.iter().zip(assembled) {
            prop_assert_eq!(insn.word, word, "{} is assembled to {:08x}", insn, word);
        }
        let mnemonics = insns.iter().filter(|insn| !insn.to_string().starts_with(".4byte")).count();
        prop_assert!(mnemonics > insns.len() / 2, "{mnemonics} of {} have text", insns.len());
    }

    #[test]
    fn operands_survive(batch in prop::collection::vec(word(), BATCH)) {
        for insn in batch.into_iter().filter_map(Insn::decode) {
            let word = encode(insn.op, &insn.operands()).expect("operands come from a word");
            let again = Insn::decode(word).expect("an encoded instruction");
            prop_assert_eq!((again.op, again.operands()), (insn.op, insn.operands()));
            // Nothing is lost but what the instruction does not look at.
            prop_assert_eq!((word ^ insn.word) & insn.op.row().mask, 0);
        }
    }
}
