//! Eigenpairs of the children that are eigenpairs of their parent, up to rounding.

use super::leaf::{LEAST, modulus};

/// In which rows of the node a column of Q is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
    Both,
}

/// Columns `zeroed` and `kept` of Q become c x + s y and c y - s x.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    pub zeroed: usize,
    pub kept: usize,
    pub cosine: f64,
    pub sine: f64,
    /// In which rows the columns are not zero.
    pub side: Side,
}

/// What is left of `D + rho z z^T`: the poles, which ascend by more than rounding.
#[derive(Debug, Default)]
pub struct Deflated {
    pub poles: Vec<f64>,
    pub z: Vec<f64>,
    /// Which column of Q has a pole.
    pub columns: Vec<usize>,
    pub sides: Vec<Side>,
    /// To apply to Q in this order.
    pub rotations: Vec<Rotation>,
}

/// Deflates `D + rho z z^T`, `|z|` = 1. `values` are D, and then the eigenvalues of deflated columns.
/// `order` has the columns by ascending values. Columns from `middle` on are those of the right child.
pub fn deflate(
    values: &mut [f64],
    mut z: Vec<f64>,
    rho: f64,
    order: &[usize],
    middle: usize,
    unit_roundoff: f64,
) -> Deflated {
    let size = values.iter().fold(rho, |most, x| f64::max(most, x.abs()));
    // That of LAPACK's dlaed2 (Gu and Eisenstat, 1995). With the least size, no sum overflows.
    let tolerance = 8.0 * unit_roundoff * size.max(LEAST);
    let mut deflated = Deflated::default();
    let mut side: Vec<_> =
        (0..z.len()).map(|j| if j < middle { Side::Left } else { Side::Right }).collect();
    // The pole that the next one may be close to.
    let mut before: Option<usize> = None;
    for &kept in order {
        if rho * z[kept].abs() <= tolerance {
            continue;
        }
        if let Some(zeroed) = before {
            let length = modulus(z[zeroed], z[kept]);
            let (cosine, sine) = (z[kept] / length, -z[zeroed] / length);
            let gap = values[kept] - values[zeroed];
            if (gap * cosine * sine).abs() <= tolerance {
                z[kept] = length;
                let moved = gap * sine * sine;
                // c^2 a + s^2 b and s^2 a + c^2 b, for a <= b.
                values[zeroed] += moved;
                values[kept] -= moved;
                if side[zeroed] != side[kept] {
                    side[kept] = Side::Both;
                }
                let side = side[kept];
                deflated.rotations.push(Rotation { zeroed, kept, cosine, sine, side });
            } else {
                deflated.push(zeroed, values, &z, &side);
            }
        }
        before = Some(kept);
    }
    if let Some(last) = before {
        deflated.push(last, values, &z, &side);
    }
    deflated
}

impl Deflated {
    fn push(&mut self, column: usize, values: &[f64], z: &[f64], sides: &[Side]) {
        self.columns.push(column);
        self.poles.push(values[column]);
        self.z.push(z[column]);
        self.sides.push(sides[column]);
    }

    /// The indices of the poles whose columns of Q are not zero in the rows of a child. The other
    /// child has side `other`.
    pub fn poles_without(&self, other: Side) -> Vec<usize> {
        (0..self.sides.len()).filter(|&i| self.sides[i] != other).collect()
    }
}
