//! Widths of tiles on CUDA devices, and the model's times.

use meshsolve::routines::solver::Family;
use meshsolve::routines::solver::widths::{DEVICES, Shape, cuda_tile_width, is_factored_whole};
use meshsolve::scalar::DType;

fn shape(n: usize, ranks: usize, dtype: DType, family: Family) -> Shape {
    Shape { n, ranks, dtype, family }
}

#[test]
fn widths_by_device_order_and_family() {
    assert!(DEVICES.is_sorted_by_key(|one| one.since));
    use DType::{C128, F32, F64};
    use Family::{Cholesky, Lu};
    for (architecture, n, ranks, dtype, family, width) in [
        ("sm_75", 100, 1, F64, Cholesky, 64),
        ("sm_90", 1000, 4, F64, Lu, 64),
        ("sm_90", 16384, 1, F64, Lu, 512),
        ("sm_90", 32768, 1, F64, Lu, 1024),
        ("sm_90", 32768, 1, F64, Cholesky, 1024),
        ("sm_90", 32768, 8, F64, Lu, 256),
        ("sm_90", 131072, 8, F64, Cholesky, 1024),
        ("sm_80", 32768, 4, C128, Lu, 1024),
        ("sm_89", 16384, 1, F64, Lu, 512),
        ("sm_120", 16384, 1, F32, Cholesky, 1024),
    ] {
        let shape = shape(n, ranks, dtype, family);
        assert_eq!(cuda_tile_width(architecture, shape), width, "{architecture} {shape:?}");
    }
}

#[test]
fn one_rank_may_factor_the_whole_matrix() {
    let on = &[Family::Lu];
    assert!(is_factored_whole(shape(32768, 1, DType::F64, Family::Lu), on));
    assert!(!is_factored_whole(shape(32768, 2, DType::F64, Family::Lu), on));
    assert!(!is_factored_whole(shape(32768, 1, DType::F64, Family::Cholesky), on));
}

#[test]
fn the_model_is_in_proportion() {
    let h200 = &DEVICES[2];
    // At least as long as the products at their peak, and not much longer where they are many.
    for (family, flops) in [(Family::Cholesky, 1.0 / 3.0), (Family::Lu, 2.0 / 3.0)] {
        let ideal = |n: f64| flops * n * n * n / h200.double;
        let found = |n| h200.seconds(shape(n, 1, DType::F64, family), 512);
        assert!(found(32768) > ideal(32768.0), "{family:?}");
        assert!(found(131072) < 1.4 * ideal(131072.0), "{family:?}");
        // Small matrices take the time of their panels.
        assert!(found(2048) > 5.0 * ideal(2048.0), "{family:?}");
        // More devices are faster for large matrices.
        let eight = h200.seconds(shape(131072, 8, DType::F64, family), 512);
        assert!(eight < found(131072) / 6.0, "{family:?}");
    }
    // Complex numbers take four times as many multiplications.
    let [real, complex] = [DType::F64, DType::C128]
        .map(|dtype| h200.seconds(shape(65536, 1, dtype, Family::Lu), 512));
    assert!((3.5..4.5).contains(&(complex / real)), "{}", complex / real);
}

#[test]
fn the_model_is_near_the_times_of_an_h200() {
    use Family::{Cholesky, Lu};
    for (family, n, width, seconds) in [
        (Lu, 8192, 256, 0.0442),
        (Lu, 8192, 512, 0.0414),
        (Lu, 16384, 256, 0.1490),
        (Lu, 16384, 512, 0.1358),
        (Lu, 16384, 1024, 0.1366),
        (Lu, 32768, 512, 0.7183),
        (Lu, 32768, 1024, 0.6797),
        (Cholesky, 8192, 512, 0.0121),
        (Cholesky, 16384, 512, 0.0466),
        (Cholesky, 16384, 1024, 0.0442),
        (Cholesky, 32768, 512, 0.2930),
        (Cholesky, 32768, 1024, 0.2697),
    ] {
        let found = DEVICES[2].seconds(shape(n, 1, DType::F64, family), width);
        let ratio = found / seconds;
        assert!((0.85..1.15).contains(&ratio), "{family:?} n = {n}, width {width}: {ratio:.3}");
    }
}
