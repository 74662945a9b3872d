//! Products of all sizes around a unit against sums by definition, with the kernel of this processor
//! and with kernels of both shapes on emulated registers.

use std::cmp::Ordering;

use faer::{Mat, MatMut, MatRef};
use meshsolve::device::Op;
use meshsolve::device::cpu::product::dots::Dots;
use meshsolve::device::cpu::product::pack::unpack;
use meshsolve::device::cpu::product::reflectors::Apply;
use meshsolve::device::cpu::product::right::Adjoint;
use meshsolve::device::cpu::product::solve::Solve;
use meshsolve::device::cpu::product::tile::{AVX2, AVX512, Product, Shape, Work, dispatch};
use meshsolve::device::cpu::product::{
    Blocks, Coefficients, Packed, Reflectors, Units, gemm, multiply, multiply_adjoint,
    multiply_columns,
};
use meshsolve::device::cpu::vectors::with_vectors;
use meshsolve::scalar::{DType, Scalar};
use pulp::{Scalar256b, Scalar512b, Simd};

/// Small whole numbers, so that sums are exact in every order. Im differs from Re.
fn matrix<T: Scalar>(rows: usize, cols: usize, seed: usize) -> Mat<T> {
    let part = |i: usize, j: usize, p: usize| ((i * 7 + j * p + seed) % 11) as f64 - 5.0;
    Mat::from_fn(rows, cols, |i, j| T::of_parts(part(i, j, 3), part(i, j, 5)))
}

fn product<T: Scalar>(a: &Mat<T>, b: &Mat<T>, i: usize, j: usize) -> T {
    (0..a.ncols()).fold(T::ZERO, |sum, p| sum + a[(i, p)] * b[(p, j)])
}

/// What `run` makes of rows `first..` of C, in a matrix with a frame that must stay as it is.
fn check<T: Scalar>(
    (rows, cols, depth): (usize, usize, usize),
    first: usize,
    negated: bool,
    units: Units,
    run: impl Fn(MatMut<T>, &Packed<T>, &Packed<T>, MatRef<T>),
) {
    const FRAME: usize = 3;
    let (a, b) = (matrix::<T>(rows, depth, 1), matrix::<T>(depth, cols, 2));
    let before = matrix::<T>(rows + 2 * FRAME, cols + 2 * FRAME, 3);
    let memory = |unit, lines| vec![T::NAN; Packed::<T>::elements(unit, lines, depth)];
    let (mut left, mut right) = (memory(units.rows, rows), memory(units.cols, cols));
    let left = Packed::new(a.as_ref(), false, units.rows, &mut left);
    let right = Packed::new(b.transpose(), false, units.cols, &mut right);
    let mut after = before.clone();
    run(
        after.as_mut().submatrix_mut(FRAME + first, FRAME, rows - first, cols),
        &left,
        &right,
        b.as_ref(),
    );
    for j in 0..after.ncols() {
        for i in 0..after.nrows() {
            let inside = (FRAME + first..FRAME + rows).contains(&i);
            let change = match (i, j) {
                _ if !inside || !(FRAME..FRAME + cols).contains(&j) => T::ZERO,
                _ => product(&a, &b, i - FRAME, j - FRAME),
            };
            let expected = before[(i, j)] + if negated { -change } else { change };
            let case = format!("{rows} x {cols} x {depth} from row {first}, at ({i}, {j})");
            assert_eq!(after[(i, j)], expected, "{:?} {case}", T::DTYPE);
        }
    }
}

/// All numbers of rows and columns up to two units and some, from all first rows of the first unit.
fn check_all<T: Scalar>(
    units: Units,
    run: impl Fn(MatMut<T>, bool, &Packed<T>, usize, &Packed<T>),
) {
    let one = |rows, cols, depth, first, negated| {
        check::<T>((rows, cols, depth), first, negated, units, |c, left, right, _| {
            run(c, negated, left, first, right);
        });
    };
    for rows in 1..=2 * units.rows + 1 {
        for cols in 1..=2 * units.cols + 1 {
            one(
                rows,
                cols,
                1 + (rows + cols) % 9,
                (rows / 3 + cols) % rows,
                (rows + cols) % 2 == 0,
            );
        }
    }
    for first in 0..=units.rows + 1 {
        one(3 * units.rows, units.cols, 5, first, false);
    }
    for depth in 0..10 {
        one(units.rows + 1, units.cols + 1, depth, 0, true);
    }
}

fn check_kernel<T: Scalar>() {
    match Units::of::<T>() {
        Some(units) => check_all::<T>(units, multiply),
        None => assert!(!cfg!(target_arch = "x86_64") || !is_avx2_there()),
    }
}

/// The same with columns of the right factor that are not packed, as this processor and as kernels of
/// both shapes do it.
fn check_columns<T: Scalar>() {
    fn all<T: Scalar>(units: Units, run: impl Fn(MatMut<T>, bool, &Packed<T>, MatRef<T>)) {
        for rows in (1..=2 * units.rows + 1).chain([6 * units.rows]) {
            for depth in 0..10 {
                let (cols, negated) = (units.cols * (1 + depth % 3), rows % 2 == 0);
                check::<T>((rows, cols, depth), 0, negated, units, |c, left, _, b| {
                    run(c, negated, left, b);
                });
            }
        }
    }
    all::<T>(units_of::<T>(AVX2), |c, negated, left, b| {
        let product = Product::new(c, negated, left, 0, b);
        product.run::<_, { AVX2.vectors }, { AVX2.columns }>(Scalar256b);
    });
    all::<T>(units_of::<T>(AVX512), |c, negated, left, b| {
        let product = Product::new(c, negated, left, 0, b);
        product.run::<_, { AVX512.vectors }, { AVX512.columns }>(Scalar512b);
    });
    let Some(units) = Units::of::<T>() else { return };
    for cols in 1..=3 * units.cols {
        let negated = cols % 2 == 0;
        check::<T>((units.rows + 5, cols, 9), 0, negated, units, |c, left, _, b| {
            let mut memory = vec![T::NAN; units.cols * 9];
            multiply_columns(c, negated, left, b, units.cols, &mut memory);
        });
    }
}

#[test]
fn columns_that_are_not_packed_are_multiplied() {
    crate::common::every_scalar!(check_columns);
}

/// The same with the adjoint of a packed right factor.
fn check_adjoints<T: Scalar>() {
    fn all<T: Scalar>(units: Units, run: impl Fn(MatMut<T>, &Packed<T>, &Packed<T>)) {
        for rows in (1..=2 * units.rows + 1).chain([6 * units.rows]) {
            for depth in 0..3 * units.cols {
                let cols = units.cols * (1 + depth % 3);
                check::<T>((rows, cols, depth), 0, false, units, |c, left, _, b| {
                    let mut memory = vec![T::NAN; Packed::<T>::elements(units.cols, depth, cols)];
                    run(c, left, &Packed::new(b, true, units.cols, &mut memory));
                });
            }
        }
    }
    all::<T>(units_of::<T>(AVX2), |c, left, right| {
        let product = Product::new(c, false, left, 0, Adjoint(right));
        product.run::<_, { AVX2.vectors }, { AVX2.columns }>(Scalar256b);
    });
    all::<T>(units_of::<T>(AVX512), |c, left, right| {
        let product = Product::new(c, false, left, 0, Adjoint(right));
        product.run::<_, { AVX512.vectors }, { AVX512.columns }>(Scalar512b);
    });
    let Some(units) = Units::of::<T>() else { return };
    all::<T>(units, multiply_adjoint);
}

#[test]
fn adjoints_of_packed_factors_are_multiplied() {
    crate::common::every_scalar!(check_adjoints);
}

/// Reflectors, up to a unit of them, on a unit of rows.
fn check_reflectors<T: Scalar>() {
    fn all<T: Scalar>(units: Units, run: impl Fn(&Reflectors<T>, &mut [T])) {
        for count in 1..=units.cols {
            for rows in 0..3 * units.cols {
                let (c, v) = (matrix::<T>(units.rows, rows, 1), matrix::<T>(rows, count, 2));
                let (any, none) = (matrix::<T>(count, count, 3), T::ZERO);
                let upper = |i, j| if i <= j { any[(i, j)] } else { none };
                let t = Mat::from_fn(count, count, upper);
                let conjugate = Mat::from_fn(rows, count, |i, j| T::conj_impl(&v[(i, j)]));
                let w = Mat::from_fn(units.rows, count, |i, j| product(&c, &conjugate, i, j));
                let at = |i, j| (0..count).fold(none, |sum, l| sum + w[(i, l)] * t[(j, l)]);
                let by = Mat::from_fn(units.rows, count, at);
                let mut packed = vec![none; units.cols * (rows + units.cols)];
                let (lines, minus_t) = packed.split_at_mut(units.cols * rows);
                Packed::new(v.transpose(), false, units.cols, lines);
                for (l, line) in minus_t.chunks_exact_mut(units.cols).enumerate().take(count) {
                    (0..count).for_each(|j| line[j] = -t[(j, l)]);
                }
                let mut found: Vec<T> = (0..rows).flat_map(|j| c.col(j).iter().copied()).collect();
                run(&Reflectors::of(&packed, units, count, rows), &mut found);
                for (k, found) in found.into_iter().enumerate() {
                    let (i, j) = (k % units.rows, k / units.rows);
                    let change = (0..count).fold(none, |sum, l| sum + by[(i, l)] * v[(j, l)]);
                    let case = format!("{count} reflectors of {rows} rows, at ({i}, {j})");
                    assert_eq!(found, c[(i, j)] + -change, "{:?} {case}", T::DTYPE);
                }
            }
        }
    }
    all::<T>(units_of::<T>(AVX2), |reflectors, c| {
        Apply { reflectors, c }.run::<_, { AVX2.vectors }, { AVX2.columns }>(Scalar256b);
    });
    all::<T>(units_of::<T>(AVX512), |reflectors, c| {
        Apply { reflectors, c }.run::<_, { AVX512.vectors }, { AVX512.columns }>(Scalar512b);
    });
    let Some(units) = Units::of::<T>() else { return };
    all::<T>(units, |reflectors, c| reflectors.apply(c));
}

#[test]
fn few_reflectors_are_applied() {
    crate::common::every_scalar!(check_reflectors);
}

#[cfg(target_arch = "x86_64")]
fn is_avx2_there() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_avx2_there() -> bool {
    false
}

#[test]
fn the_kernel_of_this_processor_multiplies() {
    crate::common::every_scalar!(check_kernel);
}

/// A kernel of AVX2 on a processor with AVX-512, and each of them as plain code.
fn check_emulated<T: Scalar>() {
    fn narrow<T: Scalar>(simd: impl Simd) {
        let units = units_of::<T>(AVX2);
        check_all::<T>(units, |c, negated, left, first, right| {
            let product = Product::new(c, negated, left, first, right);
            product.run::<_, { AVX2.vectors }, { AVX2.columns }>(simd);
        });
    }
    narrow::<T>(Scalar256b);
    let units = units_of::<T>(AVX512);
    check_all::<T>(units, |c, negated, left, first, right| {
        let product = Product::new(c, negated, left, first, right);
        product.run::<_, { AVX512.vectors }, { AVX512.columns }>(Scalar512b);
    });
}

fn units_of<T: Scalar>(shape: Shape) -> Units {
    Units::of_shape::<T>(shape)
}

#[test]
fn kernels_of_both_shapes_multiply() {
    crate::common::every_scalar!(check_emulated);
}

#[test]
fn units_fill_the_registers() {
    let units = |rows, cols| Units { rows, cols };
    let of = |shape| {
        [
            units_of::<f32>(shape),
            units_of::<f64>(shape),
            units_of::<faer::c32>(shape),
            units_of::<faer::c64>(shape),
        ]
    };
    assert_eq!(of(AVX512), [units(48, 8), units(24, 8), units(24, 4), units(12, 4)]);
    assert_eq!(of(AVX2), [units(16, 6), units(8, 6), units(8, 3), units(4, 3)]);
}

/// Products by rows and by columns, in pieces of a few units.
fn check_gemm<T: Scalar>() {
    let Some(units) = Units::of::<T>() else { return };
    for (rows, cols, depth) in [(64, 512, 16), (520, 67, 50), (81, 410, 300)] {
        for op in [Op::None, Op::Conjugate, Op::Transpose, Op::Adjoint] {
            for by_rows in [false, true] {
                let stored = match op.transposes() {
                    true => matrix::<T>(depth, rows, 1),
                    false => matrix::<T>(rows, depth, 1),
                };
                let b = matrix::<T>(depth, cols, 2);
                let a = Mat::from_fn(rows, depth, |i, p| {
                    let x = if op.transposes() { stored[(p, i)] } else { stored[(i, p)] };
                    if op.conjugates() { T::conj_impl(&x) } else { x }
                });
                let mut memory =
                    [2 * units.rows * 40, 2 * units.cols * 40].map(|n| vec![T::NAN; n]);
                let [left, right] = &mut memory;
                let mut c =
                    if by_rows { matrix::<T>(cols, rows, 3) } else { matrix(rows, cols, 3) };
                let before = c.clone();
                let view = if by_rows { c.transpose_mut() } else { c.as_mut() };
                let negated = by_rows != op.conjugates();
                let sign = if negated { -T::ONE } else { T::ONE };
                let blocks = Blocks::new(&view, sign, depth, units, [left.len(), right.len()]);
                let blocks = blocks.expect("a product that pays");
                gemm(view, negated, stored.as_ref(), op, b.as_ref(), blocks, [left, right]);
                for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                    let at = if by_rows { (j, i) } else { (i, j) };
                    let change = sign * product(&a, &b, i, j);
                    assert_eq!(c[at], before[at] + change, "{op:?} ({i}, {j})");
                }
            }
        }
    }
}

#[test]
fn products_by_rows_and_by_columns() {
    crate::common::every_scalar!(check_gemm);
}

#[test]
fn small_products_and_other_factors_are_left_to_faer() {
    let Some(units) = Units::of::<f64>() else { return };
    let mut c = Mat::<f64>::zeros(512, 64);
    let memory = [64 * 64, 64 * 64];
    assert!(Blocks::new(&c.as_mut(), 1.0, 64, units, memory).is_some());
    assert!(Blocks::new(&c.as_mut(), 0.5, 64, units, memory).is_none());
    assert!(Blocks::new(&c.as_mut(), 1.0, 4, units, memory).is_none());
    assert!(Blocks::new(&c.as_mut().subcols_mut(0, 32), 1.0, 64, units, memory).is_none());
    assert!(Blocks::new(&c.as_mut(), 1.0, 64, units, [units.rows, 64 * 64]).is_none());
}

#[test]
#[should_panic(expected = "shape of a product")]
fn a_result_of_another_shape_is_refused() {
    check::<f64>((8, 6, 4), 0, false, units_of::<f64>(AVX2), |c, left, right, _| {
        Product::new(c.subrows_mut(0, 7), false, left, 0, right);
    });
}

/// Solves for lines of whole numbers, with a dominant diagonal.
fn check_solve<T: Scalar>(units: Units, run: impl Fn(Solve<T>)) {
    for depth in [units.cols, units.cols + 1, 3 * units.cols + 2, 40] {
        for (count, has_ones, conjugated) in [(units.rows, false, false), (50, true, true)] {
            let m = matrix::<T>(depth, depth, 5);
            // The other triangle is not read.
            let m = Mat::from_fn(depth, depth, |p, q| match p.cmp(&q) {
                Ordering::Less => T::NAN,
                Ordering::Equal if has_ones => T::NAN,
                Ordering::Equal => T::of_parts(8.0, 4.0),
                Ordering::Greater => m[(p, q)] * T::of_parts(1.0 / 16.0, 0.0),
            });
            let coefficient = |p: usize, q: usize| {
                let m = if p == q && has_ones { T::ONE } else { m[(p, q)] };
                if conjugated { T::conj_impl(&m) } else { m }
            };
            let x = matrix::<T>(count, depth, 7);
            let b = Mat::from_fn(count, depth, |line, p| {
                (0..=p).fold(T::ZERO, |sum, q| sum + coefficient(p, q) * x[(line, q)])
            });
            let memory = |unit, lines| vec![T::NAN; Packed::<T>::elements(unit, lines, depth)];
            let (mut of_m, mut of_b) = (memory(units.cols, depth), memory(units.rows, count));
            let (unit, ones) = (units.cols, has_ones);
            let rows = Coefficients::pack(m.as_ref(), conjugated, ones, unit, &mut of_m);
            Packed::new(b.as_ref(), false, units.rows, &mut of_b);
            run(Solve { rows: &rows.expect("normal reciprocals"), has_ones, lines: &mut of_b });
            let mut got = Mat::<T>::zeros(count, depth);
            unpack(&of_b, units.rows, got.as_mut());
            for (line, p) in (0..count).flat_map(|i| (0..depth).map(move |p| (i, p))) {
                let error = (got[(line, p)] + -x[(line, p)]).magnitude();
                let bound = if T::DTYPE.real() == DType::F32 { 2e-4 } else { 1e-12 };
                assert!(error < bound, "{:?} {depth} ({line}, {p}): {error}", T::DTYPE);
            }
        }
    }
}

fn check_solves<T: Scalar>() {
    if let Some(units) = Units::of::<T>() {
        check_solve::<T>(units, |solve| dispatch(solve));
    }
    check_solve::<T>(units_of::<T>(AVX2), |solve| {
        solve.run::<_, { AVX2.vectors }, { AVX2.columns }>(Scalar256b);
    });
    check_solve::<T>(units_of::<T>(AVX512), |solve| {
        solve.run::<_, { AVX512.vectors }, { AVX512.columns }>(Scalar512b);
    });
}

#[test]
fn kernels_of_both_shapes_solve() {
    crate::common::every_scalar!(check_solves);
}

#[test]
fn a_diagonal_without_reciprocals_is_left_to_faer() {
    let Some(units) = Units::of::<f64>() else { return };
    let mut memory = vec![0.0; 1000];
    let mut made = |at: usize, value: f64, lines: usize| {
        let mut m = Mat::<f64>::identity(20, 20);
        m[(at, at)] = value;
        Coefficients::new(m.as_ref(), false, false, lines, units, &mut memory).is_some()
    };
    assert!(made(3, 2.0, 100) && !made(3, 0.0, 100) && !made(19, 1e-310, 100));
    assert!(!made(3, f64::INFINITY, 100) && !made(3, f64::NAN, 100));
    assert!(!made(3, 2.0, 1), "a single line");
}

/// Ones on the diagonal are not multiplied by: 1 times an infinite complex number is NaN.
#[test]
fn ones_leave_infinite_numbers() {
    let units = units_of::<faer::c64>(AVX2);
    let (infinite, depth) = (faer::c64::new(f64::INFINITY, 1.0), units.cols);
    let m = Mat::<faer::c64>::identity(depth, depth);
    let mut memory = vec![faer::c64::ZERO; Packed::<faer::c64>::elements(units.cols, depth, depth)];
    let rows = Coefficients::pack(m.as_ref(), false, true, units.cols, &mut memory).unwrap();
    let mut lines = vec![faer::c64::ZERO; units.rows * depth];
    // The last element of the first line, on which no other one depends.
    lines[(depth - 1) * units.rows] = infinite;
    let solve = Solve { rows: &rows, has_ones: true, lines: &mut lines };
    solve.run::<_, { AVX2.vectors }, { AVX2.columns }>(Scalar256b);
    assert_eq!(lines[(depth - 1) * units.rows], infinite);
}

/// Dot products of the columns of A and B for all numbers of columns around those at a time, as this
/// processor and as vectors of both lengths do them, within a frame that must stay as it is.
fn check_dots<T: Scalar>() {
    fn all<T: Scalar>(run: impl Fn(Dots<T>)) {
        for (rows, cols) in (1..=9).flat_map(|rows| (1..=9).map(move |cols| (rows, cols))) {
            for depth in [0, 1, 3, 4, 7, 8, 16, 17, 31, 33] {
                let (a, b) = (matrix::<T>(depth + 2, rows, 1), matrix::<T>(depth + 2, cols, 2));
                let [a, b] = [&a, &b].map(|x| x.as_ref().subrows(1, depth));
                let before = matrix::<T>(rows + 2, cols + 2, 3);
                let mut after = before.clone();
                run(Dots::new(after.as_mut().submatrix_mut(1, 1, rows, cols), a, b));
                for (i, j) in (0..rows + 2).flat_map(|i| (0..cols + 2).map(move |j| (i, j))) {
                    let is_inside = (1..=rows).contains(&i) && (1..=cols).contains(&j);
                    let dot = |i: usize, j: usize| {
                        (0..depth)
                            .fold(T::ZERO, |sum, p| sum + T::conj_impl(&a[(p, i)]) * b[(p, j)])
                    };
                    let change = if is_inside { dot(i - 1, j - 1) } else { T::ZERO };
                    let case = format!("{rows} x {cols} x {depth}, at ({i}, {j})");
                    assert_eq!(after[(i, j)], before[(i, j)] + change, "{:?} {case}", T::DTYPE);
                }
            }
        }
    }
    all::<T>(|dots| dots.run::<_, 2>(Scalar256b));
    all::<T>(|dots| dots.run::<_, 4>(Scalar512b));
    if Units::of::<T>().is_some() {
        all::<T>(|dots| assert!(with_vectors(dots).is_ok()));
    }
}

#[test]
fn few_columns_are_multiplied_by_dot_products() {
    crate::common::every_scalar!(check_dots);
}
