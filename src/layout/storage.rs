//! How the caller's shards are stored, and which matrix the solver sees in that memory.
//!
//! The solver works on B, column-major, with n/P whole columns a rank. The layouts alone determine
//! which matrix B is, and whether data must move:
//!
//! | sharded by | memory of a shard | as B's `(row, local column)` | B | to do |
//! |---|---|---|---|---|
//! | rows, row-major | `(n/P,n):(n,1)` | transposed: `(n,n/P):(1,n)` | A^T | nothing |
//! | columns, row-major | `(n,n/P):(n/P,1)` | `(n,n/P):(n/P,1)` | A | transpose in memory |
//! | columns, column-major | `(n,n/P):(1,n)` | `(n,n/P):(1,n)` | A | nothing |

use super::Layout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `P('x', None)` in JAX's own order.
    Rows,
    /// `P(None, 'x')` in JAX's own order.
    Columns,
    /// `P(None, 'x')` with `Format(Layout((1, 0)))`.
    ColumnMajor,
}

impl Storage {
    pub const ALL: [(&str, Storage); 3] = [
        ("rows", Storage::Rows),
        ("columns", Storage::Columns),
        ("column-major", Storage::ColumnMajor),
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, storage)| storage)
    }

    /// The caller's shard: `(i, j)` of the part of A that one of `ranks` devices holds.
    pub fn shard(self, n: usize, ranks: usize) -> Layout {
        let local = n / ranks;
        match self {
            Storage::Rows => Layout::right([local, n]),
            Storage::Columns => Layout::right([n, local]),
            Storage::ColumnMajor => Layout::left([n, local]),
        }
    }

    /// Whether B is A^T. The sharded axis must be the columns of B.
    pub fn is_transpose(self) -> bool {
        self == Storage::Rows
    }

    /// The same memory, indexed by B's row and local column.
    pub fn as_columns(self, n: usize, ranks: usize) -> Layout {
        let shard = self.shard(n, ranks);
        if self.is_transpose() { shard.transposed() } else { shard }
    }

    /// The layout that the solver needs: whole columns, one after the other.
    pub fn column_major(n: usize, ranks: usize) -> Layout {
        Layout::left([n, n / ranks])
    }

    /// Whether the shard must be transposed in memory before it is a shard of B.
    pub fn moves(self, n: usize, ranks: usize) -> bool {
        self.as_columns(n, ranks).coalesce() != Self::column_major(n, ranks).coalesce()
    }

    /// Whether a triangle of A is the upper one of B, which no panel owns.
    pub fn mirrors(self, lower: bool) -> bool {
        lower == self.is_transpose()
    }
}
