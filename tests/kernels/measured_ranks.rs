//! The measurement of solves by several ranks on one device, on the emulated driver.

use crate::kernels::measure::ranks::{Request, measure};
use meshsolve::error::Kind;

use crate::kernels::gpu::{ALONE, contexts, devices, fail};

fn request(routine: &str, n: usize, ranks: usize) -> Request {
    Request { routine: routine.into(), n, ranks, width: Some(3), repeats: 2 }
}

#[test]
fn ranks_on_one_device() {
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    for (routine, ranks) in [("posv", 1), ("posv", 2), ("posv", 4), ("gesv", 1), ("gesv", 3)] {
        let found = measure(&devices, 1, &request(routine, 24, ranks)).unwrap();
        assert!(found.error < 1e-12, "{routine} {ranks}: {}", found.error);
        assert!(found.seconds.len() == 2 && found.seconds.iter().all(|s| *s > 0.0));
    }
    // Tiles that need more memory than the unit to which parts are rounded up.
    for routine in ["posv", "gesv"] {
        let wide = Request { width: Some(40), ..request(routine, 240, 3) };
        let found = measure(&devices, 1, &wide).unwrap();
        assert!(found.error < 1e-11, "{routine}: {}", found.error);
    }
    let found = measure(&devices, 2, &Request { width: None, ..request("gesv", 10, 2) }).unwrap();
    assert!(found.error < 1e-12, "{}", found.error);
    assert_eq!(contexts(), 0);
}

#[test]
fn orders_that_ranks_do_not_divide_and_failures() {
    let _alone = ALONE.lock();
    let (devices, _) = devices();
    let error = measure(&devices, 0, &request("posv", 10, 3)).unwrap_err();
    let expected = "meshsolve: ranks on one device: expected n to be a multiple of their number, got n = 10 \
                    and 3 ranks";
    assert_eq!((error.kind, &*error.message), (Kind::InvalidArgument, expected));
    fail("cuMemAlloc_v2", 3, 2);
    let error = measure(&devices, 0, &request("posv", 12, 3)).unwrap_err();
    assert!(error.message.contains("cuMemAlloc to succeed, got 2"), "{error}");
    assert!(measure(&devices, 0, &request("posv", 12, 3)).unwrap().error < 1e-12);
}
