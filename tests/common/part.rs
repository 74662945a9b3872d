//! A part of the cases of long loops, as of those of Python tests (`tests/conftest.py`).

use std::num::NonZeroU64;

/// One of `TESTS_EVERY` parts, which `TESTS_PART` chooses, a hexadecimal number as that of a commit;
/// all cases without these variables. A part mixes options that alternate from case to case.
pub fn part<T>(cases: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let variable = |name, default: &str| std::env::var(name).unwrap_or(default.into());
    let every: NonZeroU64 = variable("TESTS_EVERY", "1").parse().expect("TESTS_EVERY: a number");
    let digits = variable("TESTS_PART", "0");
    let number = digits.chars().filter_map(|digit| digit.to_digit(16)).map(u64::from);
    let chosen = number.fold(0, |part, digit| (16 * part + digit) % every);
    // Multiples of the golden ratio, whose upper bits have no period.
    let drawn = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (0..).zip(cases).filter(move |(i, _)| drawn(*i) % every == chosen).map(|(_, case)| case)
}
