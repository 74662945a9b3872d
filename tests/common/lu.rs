//! The textbook's LU as reference.

use faer::Mat;
use meshsolve::scalar::Scalar;

/// The textbook's algorithm with LAPACK's rules: LU in place, pivots, first zero pivot.
pub fn reference<T: Scalar>(a: &mut Mat<T>) -> (Vec<usize>, Option<usize>) {
    let (m, n) = (a.nrows(), a.ncols());
    let (mut pivots, mut zero) = (Vec::new(), None);
    for k in 0..n {
        let mut p = k;
        for i in k..m {
            if a[(i, k)].magnitude() > a[(p, k)].magnitude() {
                p = i;
            }
        }
        pivots.push(p);
        if a[(p, k)] == T::ZERO {
            zero = zero.or(Some(k));
            continue;
        }
        for j in 0..n {
            (a[(k, j)], a[(p, j)]) = (a[(p, j)], a[(k, j)]);
        }
        for i in k + 1..m {
            a[(i, k)] = a[(i, k)].divided_by(a[(k, k)]);
            for j in k + 1..n {
                let product = a[(i, k)] * a[(k, j)];
                a[(i, j)] += -product;
            }
        }
    }
    (pivots, zero)
}

/// L U with the rows of A, interchanged back.
pub fn rebuilt<T: Scalar>(lu: &Mat<T>, pivots: &[i32]) -> Mat<T> {
    let (m, n) = (lu.nrows(), lu.ncols());
    let l = Mat::<T>::from_fn(m, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => lu[(i, j)],
    });
    let u = Mat::<T>::from_fn(n, n, |i, j| if i <= j { lu[(i, j)] } else { T::ZERO });
    let mut a = l * u;
    for (i, &p) in pivots.iter().enumerate().rev() {
        for j in 0..n {
            (a[(i, j)], a[(p as usize, j)]) = (a[(p as usize, j)], a[(i, j)]);
        }
    }
    a
}
