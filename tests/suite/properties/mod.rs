//! Properties for random cases: layouts, distributions of columns, attributes and buffers of calls.

mod attributes;
mod buffers;
mod columns;
mod layouts;

use std::hash::{BuildHasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};

/// Checks a property of the strategy's random cases. A failure reports the smallest failing case
/// and the seed. With the seed in the environment, the same cases are drawn again.
fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    const SEED: &str = "PROPTEST_RNG_SEED";
    let seed = match std::env::var(SEED) {
        Ok(text) => text.parse().expect("a seed of 64 bits"),
        Err(_) => RandomState::new().hash_one(SEED),
    };
    let rng_seed = RngSeed::Fixed(seed);
    let cases = if cfg!(miri) { cases.div_ceil(100) } else { cases };
    let config = Config { cases, rng_seed, failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, property) {
        panic!("{SEED}={seed}: {error}");
    }
}

#[test]
fn a_failure_names_its_seed_and_the_smallest_case() {
    let failure = std::panic::catch_unwind(|| {
        check(1000, &(0..1_000_000), |x| {
            proptest::prop_assert!(x < 1000);
            Ok(())
        })
    });
    let message = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("PROPTEST_RNG_SEED="), "{message}");
    assert!(message.ends_with("minimal failing input: 1000"), "{message}");
}
