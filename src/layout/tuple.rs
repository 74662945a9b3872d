//! Nested tuples of integers: the shapes, strides and coordinates of layouts.

use std::fmt;

/// An integer, or a tuple of nested tuples. Rust tuples, arrays and vectors convert into it:
///
/// ```
/// use meshsolve::layout::Tuple;
/// let shape = Tuple::from(((2, 2), 2));
/// assert_eq!(shape.to_string(), "((2,2),2)");
/// assert_eq!((shape.product(), shape.rank(), shape.depth()), (8, 2, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tuple {
    Int(usize),
    Tuple(Vec<Tuple>),
}

impl Tuple {
    /// The product of all integers (1 for the empty tuple).
    pub fn product(&self) -> usize {
        match self {
            Tuple::Int(i) => *i,
            Tuple::Tuple(modes) => modes.iter().map(Tuple::product).product(),
        }
    }

    /// Number of top-level modes. An integer is one mode.
    pub fn rank(&self) -> usize {
        self.modes().len()
    }

    /// The depth of the nesting, 0 for an integer.
    pub fn depth(&self) -> usize {
        match self {
            Tuple::Int(_) => 0,
            Tuple::Tuple(modes) => 1 + modes.iter().map(Tuple::depth).max().unwrap_or(0),
        }
    }

    /// The top-level modes. An integer is its own only mode.
    pub fn modes(&self) -> &[Tuple] {
        match self {
            Tuple::Int(_) => std::slice::from_ref(self),
            Tuple::Tuple(modes) => modes,
        }
    }

    /// Whether both nest in the same way, whatever their integers.
    pub fn congruent(&self, other: &Tuple) -> bool {
        match (self, other) {
            (Tuple::Int(_), Tuple::Int(_)) => true,
            (Tuple::Tuple(a), Tuple::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.congruent(b))
            }
            _ => false,
        }
    }

    /// The integers from left to right, without the nesting.
    pub fn flat(&self) -> Vec<usize> {
        match self {
            Tuple::Int(i) => vec![*i],
            Tuple::Tuple(modes) => modes.iter().flat_map(Tuple::flat).collect(),
        }
    }

    /// The same nesting with every integer replaced, from left to right.
    pub(super) fn map(&self, f: &mut impl FnMut(usize) -> usize) -> Tuple {
        match self {
            Tuple::Int(i) => Tuple::Int(f(*i)),
            Tuple::Tuple(modes) => Tuple::Tuple(modes.iter().map(|m| m.map(f)).collect()),
        }
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tuple::Int(i) => write!(f, "{i}"),
            Tuple::Tuple(modes) => {
                f.write_str("(")?;
                for (i, mode) in modes.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    write!(f, "{mode}")?;
                }
                f.write_str(")")
            }
        }
    }
}

impl From<usize> for Tuple {
    fn from(i: usize) -> Self {
        Tuple::Int(i)
    }
}

impl From<&Tuple> for Tuple {
    fn from(tuple: &Tuple) -> Self {
        tuple.clone()
    }
}

impl<T: Into<Tuple>> From<Vec<T>> for Tuple {
    fn from(modes: Vec<T>) -> Self {
        Tuple::Tuple(modes.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Tuple>, const N: usize> From<[T; N]> for Tuple {
    fn from(modes: [T; N]) -> Self {
        Tuple::Tuple(modes.into_iter().map(Into::into).collect())
    }
}

macro_rules! from_rust_tuple {
    ($($mode:ident),+) => {
        impl<$($mode: Into<Tuple>),+> From<($($mode,)+)> for Tuple {
            #[allow(non_snake_case)]
            fn from(($($mode,)+): ($($mode,)+)) -> Self {
                Tuple::Tuple(vec![$($mode.into()),+])
            }
        }
    };
}

from_rust_tuple!(A);
from_rust_tuple!(A, B);
from_rust_tuple!(A, B, C);
from_rust_tuple!(A, B, C, D);
