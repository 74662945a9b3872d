//! The index maps of the paper for an m x n row-major view, as plain integers.
//!
//! Let c = gcd(m, n), a = m/c and b = n/c. C2R gathers in three steps: columns by r_j (eq. 23),
//! rows by the inverse of d'_i (eq. 31), columns by s'_j (eq. 26). R2C gathers by the inverses in
//! reverse order: s'_j^-1, d'_i (eq. 24), r_j^-1 (eq. 36).
//!
//! Take a row as c x b before the shuffle, column l*b + h, and as b x c after it, column v*c + r.
//! Then the shuffle is a transposition with rotated rows and permuted columns. With R = (i + l) mod
//! m, eq. 24 reads r = R mod c and v = (R/c + h*a) mod b. As l < c, i + l passes at most one
//! multiple of c. So a row has two stretches of l, and within each R/c is constant. [`Row`] uses
//! this to avoid divisions within a row.

use super::divide::Divider;

/// The maps of one view. Exact as long as m*n fits in 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maps {
    pub m: usize,
    pub n: usize,
    pub a: usize,
    pub b: usize,
    pub c: usize,
    /// a^-1 mod b.
    pub a_inverse: usize,
    by_a: Divider,
    by_b: Divider,
    by_m: Divider,
}

impl Maps {
    /// Panics unless both sides are positive.
    pub fn new(m: usize, n: usize) -> Self {
        assert!(m > 0 && n > 0, "an empty array has no index maps");
        let c = gcd(m, n);
        let (a, b) = (m / c, n / c);
        let (by_a, by_b, by_m) = (Divider::new(a), Divider::new(b), Divider::new(m));
        Maps { m, n, a, b, c, a_inverse: inverse(a, b), by_a, by_b, by_m }
    }

    /// The first rotation of column `j`: floor(j/b) in eq. 23. Less than c.
    #[inline(always)]
    pub fn rotation(&self, j: usize) -> usize {
        self.by_b.quotient(j)
    }

    /// s'_j(i), eq. 26: the row from which row `i` of column `j` is gathered in the end.
    #[inline(always)]
    pub fn source_row(&self, i: usize, j: usize) -> usize {
        self.by_m.remainder(j + i * self.n - self.by_a.quotient(i))
    }

    /// d'_i(j), eq. 24: the place of element `j` of row `i` after the shuffle.
    pub fn shuffled(&self, i: usize, j: usize) -> usize {
        let (l, h) = (j / self.b, j % self.b);
        let row = (i + l) % self.m;
        let v = (row / self.c + multiply(h, self.a, self.b)) % self.b;
        v * self.c + row % self.c
    }

    /// The inverse of d'_i, eq. 31: the place from which element `j` of row `i` comes.
    pub fn unshuffled(&self, i: usize, j: usize) -> usize {
        let (v, r) = (j / self.c, j % self.c);
        let l = (r + self.c - i % self.c) % self.c;
        let turn = (i + l) % self.m / self.c % self.b;
        l * self.b + multiply(v + self.b - turn, self.a_inverse, self.b)
    }

    pub fn row(&self, i: usize) -> Row {
        Row { maps: *self, shift: i % self.c, block: i / self.c }
    }
}

/// Row `i` = block*c + shift while rows are visited in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    maps: Maps,
    pub shift: usize,
    block: usize,
}

/// Elements l in `first..first + count` of a row, all with the same R/c; r = l + shift, less c in
/// the second stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub first: usize,
    pub count: usize,
    /// r of the first element.
    pub target: usize,
    /// (R/c) mod b: the v of h = 0.
    pub v: usize,
}

impl Row {
    pub fn stretches(&self) -> [Stretch; 2] {
        let Maps { a, b, c, .. } = self.maps;
        let next = if self.block + 1 == a { 0 } else { self.block + 1 };
        let count = c - self.shift;
        [
            Stretch { first: 0, count, target: self.shift, v: self.block % b },
            Stretch { first: count, count: self.shift, target: 0, v: next % b },
        ]
    }

    pub fn advance(&mut self) {
        self.shift += 1;
        if self.shift == self.maps.c {
            self.shift = 0;
            self.block += 1;
        }
    }
}

pub fn gcd(x: usize, y: usize) -> usize {
    if y == 0 { x } else { gcd(y, x % y) }
}

/// x*y mod modulus without overflow.
pub fn multiply(x: usize, y: usize, modulus: usize) -> usize {
    match x.checked_mul(y) {
        Some(product) => product % modulus,
        None => (x as u128 * y as u128 % modulus as u128) as usize,
    }
}

/// x^-1 mod modulus for coprime numbers; 0 for modulus 1.
pub(super) fn inverse(x: usize, modulus: usize) -> usize {
    let (mut r, mut next_r) = (modulus as i128, (x % modulus) as i128);
    let (mut t, mut next_t) = (0i128, 1i128);
    while next_r != 0 {
        let q = r / next_r;
        (r, next_r) = (next_r, r - q * next_r);
        (t, next_t) = (next_t, t - q * next_t);
    }
    t.rem_euclid(modulus as i128) as usize
}
