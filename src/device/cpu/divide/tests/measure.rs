//! Seconds of parts, and of faer.

use std::time::Instant;

use super::super::Part;
use super::matrices::{Matrix, normal, toeplitz};
use super::run;
use crate::device::cpu::product::Units;

/// Seconds of faer's divide and conquer.
fn faer_seconds(t: &Matrix) -> f64 {
    use faer::dyn_stack::{MemBuffer, MemStack};
    use faer::linalg::evd;
    let n = t.diagonal.len();
    let (diagonal, mut below) = (t.diagonal.clone(), t.below.clone());
    below.push(0.0);
    let (mut values, mut z) = (vec![0.0; n], faer::Mat::<f64>::zeros(n, n));
    let par = faer::Par::rayon(2);
    let vectors = evd::ComputeEigenvectors::Yes;
    let scratch = evd::self_adjoint_evd_scratch::<f64>(n, vectors, par, Default::default());
    let mut buffer = MemBuffer::new(scratch);
    let start = Instant::now();
    let result = evd::tridiagonal_self_adjoint_evd(
        faer::diag::DiagRef::from_slice(&diagonal),
        faer::diag::DiagRef::from_slice(&below),
        faer::diag::DiagMut::from_slice_mut(&mut values),
        Some(z.as_mut()),
        par,
        MemStack::new(&mut buffer),
        Default::default(),
    );
    assert!(result.is_ok(), "eigenvalues");
    start.elapsed().as_secs_f64()
}

/// Prints seconds: `cargo test --release ... -- divide::tests::measure --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn seconds() {
    let orders = std::env::var("ORDERS").unwrap_or("1024 2048 4096".into());
    for n in orders.split(' ').map(|n| n.parse().expect("an order")) {
        for t in [normal(n, 1), toeplitz(n)] {
            for workers in [2, 1] {
                let found = run::<f64>(&t, workers, Units::of::<f64>());
                let all: f64 = found.seconds.iter().sum();
                print!("{n} {} f64, {workers} workers: {:.3} s; ", t.name, found.elapsed);
                print!("of the first on its processor {all:.3}:");
                use Part::*;
                for part in [Leaves, Deflation, Roots, Weights, Scales, Update, Wait] {
                    print!(" {part:?} {:.4}", found.seconds[part as usize]);
                }
                println!();
            }
            let found = run::<f32>(&t, 2, Units::of::<f32>());
            println!("{n} {} f32, 2 workers: {:.3} s", t.name, found.elapsed);
            println!("{n} {} f64, faer with 2 threads: {:.3} s", t.name, faer_seconds(&t));
        }
    }
}
