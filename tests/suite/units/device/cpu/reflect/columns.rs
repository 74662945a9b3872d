//! Passes over columns, with vectors and without.

use faer::Mat;
use meshsolve::device::cpu::reflect::columns::{AddMultiples, Columns, Dots, MOST, Pass, run};
use meshsolve::scalar::Scalar;

/// With vectors and without them, on all tails.
fn passes<T: Scalar>() {
    for (rows, count) in (0..40).flat_map(|rows| (1..=MOST).map(move |count| (rows, count))) {
        let entry = |i: usize, j: usize| {
            T::of_parts((7 * i + 3 * j) as f64 % 11.0 - 5.0, (5 * i + j) as f64 % 7.0 - 3.0)
        };
        let c = Mat::from_fn(rows + 2, count, entry);
        let by: [T; MOST] = std::array::from_fn(|i| T::of_parts(i as f64 - 3.0, 2.0));
        let j = rows % count;
        let [mut x, mut y] = [c.clone(), c.clone()];
        let part = |c: &mut Mat<T>| Columns::new(c.as_mut().subrows_mut(1, rows));
        let dots =
            [run(Dots { columns: part(&mut x), j }), Dots { columns: part(&mut y), j }.plain()];
        assert!(dots[0] == dots[1], "{} {rows} {count}: {dots:?}", T::DTYPE.name());
        run(AddMultiples { columns: part(&mut x), by: &by });
        AddMultiples { columns: part(&mut y), by: &by }.plain();
        assert!(x == y, "{} {rows} {count}", T::DTYPE.name());
    }
}

#[test]
fn passes_with_vectors_are_the_plain_ones() {
    crate::common::every_scalar!(passes);
}
