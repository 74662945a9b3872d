//! How the caller's shards are stored, and which matrix the solver sees in that memory.
//!
//! The solver works on B, column-major, and mostly with whole columns on each rank. The layouts alone
//! determine which matrix B is, and whether data must move. For an m x n matrix A:
//!
//! | sharded by | memory of a shard | as B's `(row, local column)` | B | to do |
//! |---|---|---|---|---|
//! | rows, row-major | `(m/P,n):(n,1)` | transposed: `(n,m/P):(1,n)` | A^T | nothing |
//! | columns, row-major | `(m,n/P):(n/P,1)` | `(m,n/P):(n/P,1)` | A | transpose in memory |
//! | columns, column-major | `(m,n/P):(1,m)` | `(m,n/P):(1,m)` | A | nothing |

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

    /// The caller's shard: `(i, j)` of the part of A that a device holds. B's shard has that many
    /// rows and columns.
    pub fn shard(self, (rows, columns): (usize, usize)) -> Layout {
        match self {
            Storage::Rows => Layout::right([columns, rows]),
            Storage::Columns => Layout::right([rows, columns]),
            Storage::ColumnMajor => Layout::left([rows, columns]),
        }
    }

    /// Whether B is A^T. The sharded axis must be the columns of B.
    pub fn is_transpose(self) -> bool {
        self == Storage::Rows
    }

    /// The same memory, indexed by B's row and local column.
    pub fn as_columns(self, shape: (usize, usize)) -> Layout {
        let shard = self.shard(shape);
        if self.is_transpose() { shard.transposed() } else { shard }
    }

    /// The layout that the solver needs: whole columns, one after the other.
    pub fn column_major((rows, columns): (usize, usize)) -> Layout {
        Layout::left([rows, columns])
    }

    /// Whether the shard must be transposed in memory before it is a shard of B.
    pub fn moves(self, shape: (usize, usize)) -> bool {
        self.as_columns(shape).coalesce() != Self::column_major(shape).coalesce()
    }

    /// Whether a triangle of A is the upper one of B, which no panel owns.
    pub fn mirrors(self, lower: bool) -> bool {
        lower == self.is_transpose()
    }
}
