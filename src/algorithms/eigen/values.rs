//! The eigenvalues of a real symmetric tridiagonal matrix by the QL iteration without square roots
//! of Pal, Walker and Kahan (Parlett, The Symmetric Eigenvalue Problem, 1980, section 8.15), with
//! Wilkinson's shifts. It takes the diagonal and the squares next to it.

/// Iterations before it gives up, for each eigenvalue. Two are usual.
const MOST: usize = 30;

/// Squares of entries that are not larger do not count, where the largest entry is about 1.
const LEAST_SQUARE: f64 = f64::MIN_POSITIVE;

/// Replaces the diagonal by the eigenvalues, ascending. `below` are the moduli of the entries below
/// it, one fewer. It gives the number of entries that did not become negligible: 0 unless it gave up,
/// and all where a number is not finite.
pub fn eigenvalues(diagonal: &mut [f64], below: &mut [f64]) -> usize {
    let n = diagonal.len();
    if diagonal.iter().chain(&*below).any(|x| !x.is_finite()) {
        return n;
    }
    let largest = diagonal.iter().chain(&*below).fold(0.0, |most, x| f64::max(most, x.abs()));
    if largest == 0.0 {
        return 0;
    }
    // In steps, because a power of two may be too large.
    let exponent = largest.log2().floor() as i32;
    let steps = [exponent / 2, exponent - exponent / 2].map(|half| 2f64.powi(half));
    for x in diagonal.iter_mut().chain(below.iter_mut()) {
        *x = *x / steps[0] / steps[1];
    }
    below.iter_mut().for_each(|x| *x *= *x);
    let mut iterations = MOST * n;
    let mut first = 0;
    while first < n {
        let last = end_of_block(diagonal, below, first);
        converge(&mut diagonal[first..=last], &mut below[first..last], &mut iterations);
        first = last + 1;
    }
    let left = below.iter().filter(|&&square| square != 0.0).count();
    diagonal.iter_mut().for_each(|x| *x = *x * steps[0] * steps[1]);
    diagonal.sort_by(f64::total_cmp);
    left
}

/// Whether the entry between two of the diagonal changes no eigenvalue by more than rounding does.
fn is_negligible(diagonal: &[f64], squares: &[f64], i: usize) -> bool {
    let product = (diagonal[i] * diagonal[i + 1]).abs();
    squares[i] <= f64::EPSILON * f64::EPSILON / 4.0 * product + LEAST_SQUARE
}

/// The last row of the block from `first` on. The entry after it is negligible, and becomes zero.
fn end_of_block(diagonal: &[f64], squares: &mut [f64], first: usize) -> usize {
    match (first..squares.len()).find(|&i| is_negligible(diagonal, squares, i)) {
        Some(last) => {
            squares[last] = 0.0;
            last
        }
        None => squares.len(),
    }
}

/// Makes the entries next to the diagonal negligible, from the first to the last.
fn converge(diagonal: &mut [f64], squares: &mut [f64], iterations: &mut usize) {
    // Eigenvalues of small size are found first, where a graded matrix has them.
    if diagonal[squares.len()].abs() < diagonal[0].abs() {
        diagonal.reverse();
        squares.reverse();
    }
    let mut first = 0;
    while first < diagonal.len() {
        let last = end_of_block(diagonal, squares, first);
        if last == first {
            first += 1;
        } else if last == first + 1 {
            let pair = of_two(diagonal[first], diagonal[last], squares[first]);
            [diagonal[first], diagonal[last]] = pair;
            squares[first] = 0.0;
            first += 2;
        } else if *iterations == 0 {
            return;
        } else {
            *iterations -= 1;
            iterate(&mut diagonal[first..=last], &mut squares[first..last]);
        }
    }
}

/// The eigenvalues of a symmetric matrix of order 2, whose other entry has this square.
fn of_two(a: f64, b: f64, square: f64) -> [f64; 2] {
    let root = ((a - b) * (a - b) + 4.0 * square).sqrt();
    let sum = a + b;
    if sum == 0.0 {
        return [root / 2.0, -root / 2.0];
    }
    let large = (sum + root.copysign(sum)) / 2.0;
    // The other one is the determinant by the large one, in parts without cancellation.
    let (more, less) = if a.abs() > b.abs() { (a, b) } else { (b, a) };
    [large, more / large * less - square / large]
}

/// One QL step with the shift for the first eigenvalue, from the last row to the first.
///
/// With T - shift = Q L, row i of it has the cosine c and the sine s, of which only the squares
/// occur. `gamma` is what the diagonal of L is before its last rotation, times a cosine, and
/// `p` = gamma^2 / c^2.
fn iterate(diagonal: &mut [f64], squares: &mut [f64]) {
    let entry = squares[0].sqrt();
    let half = (diagonal[1] - diagonal[0]) / (2.0 * entry);
    let shift = diagonal[0] - entry / (half + (1.0 + half * half).sqrt().copysign(half));
    let last = squares.len();
    let (mut cosine, mut sine) = (1.0, 0.0);
    let mut gamma = diagonal[last] - shift;
    let mut p = gamma * gamma;
    for i in (0..last).rev() {
        let square = squares[i];
        let r = p + square;
        if i + 1 < last {
            squares[i + 1] = sine * r;
        }
        let (old_cosine, old_gamma) = (cosine, gamma);
        // With the other quotients, so that no division waits for another.
        let inverse = r / p;
        cosine = p / r;
        sine = square / r;
        gamma = cosine * (diagonal[i] - shift) - sine * old_gamma;
        diagonal[i + 1] = old_gamma + (diagonal[i] - gamma);
        p = if inverse.is_finite() { gamma * gamma * inverse } else { old_cosine * square };
    }
    squares[0] = sine * p;
    diagonal[0] = shift + gamma;
}
