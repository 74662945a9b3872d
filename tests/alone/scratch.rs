//! The scratch that a call leaves to the next one of the process.

use crate::alone;
use meshsolve::device::cpu::Scratch;
use meshsolve::device::cpu::scratch::{KEPT_BYTES, kept};

fn address(scratch: &Scratch) -> *mut f64 {
    scratch.cells(0, 0).as_ptr()
}

// One test, because tests would share the kept pages.
#[test]
fn the_last_scratch_is_left_to_the_next_call() {
    alone(|| {
        let large = Scratch::new(KEPT_BYTES).unwrap();
        let first = address(&large);
        drop(large);
        let [next, extra] = [8000, 8000].map(|bytes| Scratch::new(bytes).unwrap());
        assert_eq!((address(&next), next.bytes()), (first, 8000));
        assert_ne!(address(&extra), first, "two calls at a time");
        drop(next);
        drop(extra);
        assert_eq!(kept().as_ref().map(|pages| pages.len()), Some(KEPT_BYTES), "the longer one");
        drop(Scratch::new(KEPT_BYTES + 1).unwrap());
        assert!(kept().is_none(), "too small for that call, which leaves nothing");
        let Err(error) = Scratch::new(usize::MAX) else { panic!("no such memory") };
        let text = error.to_string();
        assert!(text.contains("bytes of scratch cannot be had"), "{text}");
        views_stay_inside();
    });
}

fn views_stay_inside() {
    let scratch = Scratch::new(100).unwrap();
    let rows = |at, count| {
        let view = std::panic::AssertUnwindSafe(|| scratch.cells::<f64>(at, count).rows());
        std::panic::catch_unwind(view).ok()
    };
    assert_eq!([rows(0, 12), rows(96, 0), rows(16, 10)], [Some(12), Some(0), Some(10)]);
    assert_eq!([rows(0, 13), rows(24, 10), rows(104, 0)], [None; 3]);
    assert_eq!(rows(4, 1), None, "not aligned");
    assert_eq!(rows(0, usize::MAX / 4), None, "more bytes than there are");
}
