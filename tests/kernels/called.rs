//! The functions of CUDA's libraries that a solve calls, their number and order, and its scratch.

use std::sync::Mutex;

use faer::Mat;
use meshsolve::sites::CudaSite;

use crate::common::{Map, positive_definite, posv_call, residual, row_shards};
use crate::kernels::gpu::{calls, devices, fail, stream};
use crate::kernels::solve::{run_alone, run_with};

/// A system of order n on some ranks by rows, solved on devices that reach each other or do not.
/// Returns the calls of each rank's thread.
fn calls_of(routine: &str, n: usize, ranks: usize, tile: i64, apart: bool) -> Vec<Vec<String>> {
    let a = positive_definite::<f64>(n, 4);
    let mut shards = row_shards(&a, ranks);
    let (mut xs, mut infos) = (vec![vec![1.0; n]; ranks], vec![-1; ranks]);
    let parts = shards.iter_mut().zip(&mut xs).zip(&mut infos).enumerate();
    let made: Vec<_> =
        parts.map(|(r, ((a, x), info))| posv_call(r, a, x, info, n, ranks, 1)).collect();
    let map = Map::routine(routine, ranks).text("rhs", "replicated").int("tile", tile);
    let (devices, site) = (devices().0, CudaSite::new(&map).unwrap());
    let streams: Vec<_> = (0..ranks).map(|rank| stream(rank as i32 % 3)).collect();
    let called = Mutex::new(vec![Vec::new(); ranks]);
    let before = |_| {
        if apart {
            fail("cuCtxEnablePeerAccess", 0, 217);
        }
        calls();
    };
    let after = |rank: usize| called.lock().unwrap()[rank] = calls();
    let outcomes = run_with(&site, &devices, &streams, made, before, |_| false, after);
    outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    let x = Mat::from_fn(n, 1, |i, _| xs[0][i]);
    assert!(residual(&a, &x, &Mat::from_fn(n, 1, |_, _| 1.0)) < 3.0);
    called.into_inner().unwrap()
}

/// Six tiles of 16 columns, four of which change places in one cycle. Each rank moves its share of
/// the 16 columns of all four at once, and has one more copy for the spare place.
#[test]
fn adjacent_columns_are_copied_together() {
    let copies = |apart| -> Vec<usize> {
        let is_copy =
            |name: &&String| ["cuMemcpy2DAsync_v2", "cuMemcpy3DPeerAsync"].contains(&name.as_str());
        // The moves of columns come first.
        let before = |called: &Vec<String>| {
            let first = called.iter().take_while(|name| *name != "cublasDgemm_v2_64");
            first.filter(is_copy).count()
        };
        calls_of("posv", 96, 3, 16, apart).iter().map(before).collect()
    };
    let (kernels, copies) = (copies(false), copies(true));
    for (kernels, copies) in kernels.iter().zip(&copies) {
        assert_eq!(copies - kernels, 5, "{kernels} {copies}");
    }
}

/// Enqueueing a panel may block the host, so the device gets its other work before.
#[test]
fn what_a_panel_does_not_need_is_given_first() {
    for (routine, factors, pieces) in [
        // Each of the other 22 tile columns, or eight of them at a time.
        ("posv", "cusolverDnXpotrf", 22),
        ("gesv", "cusolverDnXgetrf", 3),
    ] {
        let called = &calls_of(routine, 48, 1, 2, false)[0];
        let place = |name: &str| called.iter().position(|n| n == name).expect("it is called");
        let (first, next) = (place(factors), place(&format!("{factors} on the second stream")));
        let products = called[first..next].iter().filter(|n| *n == "cublasDgemm_v2_64").count();
        assert_eq!(products, pieces, "{routine}: {called:?}");
    }
}

/// Bytes of scratch of a system of order n, solved on one device.
pub fn scratch_of(routine: &str, n: usize, tile: usize) -> usize {
    let a = positive_definite::<f64>(n, 4);
    let mut shards = row_shards(&a, 1);
    let (mut x, mut info) = (vec![1.0; n], -1);
    let call = posv_call(0, &mut shards[0], &mut x, &mut info, n, 1, 1);
    let map = Map::routine(routine, 1).text("rhs", "replicated").int("tile", tile as i64);
    let bytes = run_alone(&map, call);
    let x = Mat::from_fn(n, 1, |i, _| x[i]);
    assert!(residual(&a, &x, &Mat::from_fn(n, 1, |_, _| 1.0)) < 3.0);
    bytes
}

/// One call factors a matrix of one tile, with scratch of a few of its columns.
#[test]
fn one_tile_needs_no_scratch_of_its_size() {
    let n = 96;
    for routine in ["posv", "gesv"] {
        let [whole, tiles] = [n, 16].map(|tile| scratch_of(routine, n, tile));
        assert!(whole < tiles + n * n * 8 / 4, "{routine}: {whole} and {tiles} bytes");
        let called = &calls_of(routine, n, 1, n as i64, false)[0];
        let factors = ["cusolverDnXpotrf", "cusolverDnXgetrf"];
        let factored = called.iter().filter(|name| factors.contains(&name.as_str())).count();
        let products = called.iter().filter(|name| *name == "cublasDgemm_v2_64").count();
        assert_eq!((factored, products), (1, 0), "{routine}: {called:?}");
    }
}
