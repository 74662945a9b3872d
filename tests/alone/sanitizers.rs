//! Faults that `make test-sanitize` expects its sanitizers to report. A sanitizer without effect
//! would pass all other tests.

use std::hint::black_box;

/// An address that several threads get.
#[derive(Clone, Copy)]
struct Address(*mut u64);

// SAFETY: it is not safe: both threads write there at the same time, which is the fault.
unsafe impl Send for Address {}

#[test]
#[ignore = "a race, for the thread sanitizer"]
fn two_threads_write_one_number() {
    let mut number = 0;
    let address = Address(&raw mut number);
    let write = move || {
        let Address(at) = { address };
        // SAFETY: within `number`, which outlives the threads; the race is the fault.
        (0..1000).for_each(|i| unsafe { at.write_volatile(i) });
    };
    std::thread::scope(|scope| [scope.spawn(write), scope.spawn(write)].map(|t| t.join().unwrap()));
    black_box(number);
}

#[test]
#[ignore = "an access past the end, for the address sanitizer"]
fn a_number_past_the_end_is_read() {
    let numbers = black_box(vec![1u64; 4]);
    // SAFETY: it is not safe: the vector has 4 numbers, which is the fault.
    black_box(unsafe { numbers.as_ptr().add(4).read_volatile() });
}
