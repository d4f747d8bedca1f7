//! How many random cases are tested, and which.

use proptest::test_runner::{Config, RngSeed};

/// `few` cases, or `many` under scripts/test-full, or what PROPTEST_CASES says. The seed is fixed unless PROPTEST_RNG_SEED
/// sets one.
pub fn config(few: u32, many: u32) -> Config {
    let set = |name| std::env::var_os(name).is_some();
    let default = Config::default();
    let cases = match () {
        () if set("PROPTEST_CASES") => default.cases,
        () if set("GGML_ET_TEST_FULL") => many,
        () => few,
    };
    let rng_seed = if set("PROPTEST_RNG_SEED") { default.rng_seed } else { RngSeed::Fixed(1) };
    Config { cases, rng_seed, failure_persistence: None, ..default }
}
