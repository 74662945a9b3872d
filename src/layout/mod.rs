//! Index maths of the distributed layout. Pure integers: no data, no devices.
//!
//! A [`Layout`] `shape:stride` maps coordinates to indices, in the manner of CuTe. Shards, tiles,
//! panels, both orientations of a matrix and the mapping of its columns to ranks are values of it.
//! A [`Distribution`] adds what a layout cannot express: tiles of different widths, as an explicit
//! list, of rows and of columns.
//!
//! # Every kind of index
//!
//! P ranks hold the columns of an n x n matrix in k tiles of w columns each, so n = P*k*w. Rank d
//! holds its n/P = k*w columns as a column-major shard. A global column is a 1-D coordinate. Its
//! natural coordinate names column c of piece i on rank d. The order in which these three count
//! makes the mapping. (c,(i,d)) assigns whole shards, the *block* mapping; (c,(d,i)) assigns tile by
//! tile, the *block-cyclic* one. With the shape fixed, each kind of index is one
//! choice of strides:
//!
//! * the rank counts d alone, the local column (within the shard) c and i;
//! * the position (shards one after the other in rank order) is rank * n/P + local column;
//! * the address (within the shard, in elements) of row r is r + n * local column.
//!
//! The position is the logical product of the tile `w:1` and a tiler. The tiler gives distances, in
//! tiles: `(k,P):(1,k)` in the block mapping, `(P,k):(k,1)` in the block-cyclic one. For
//! n = 12, P = 2, w = 2, k = 3, that is `2:1` with `(3,2):(1,3)` or `(2,3):(3,1)`:
//!
//! | global column j                                            | 0         | 2         | 5         | 6         | 9         | 11        |
//! |------------------------------------------------------------|-----------|-----------|-----------|-----------|-----------|-----------|
//! | 1-D coordinate of element (4,j) `(12,12):(1,12)`           | 4         | 28        | 64        | 76        | 112       | 136       |
//! | block: coordinate (c,(i,d))                              | (0,(0,0)) | (0,(1,0)) | (1,(2,0)) | (0,(0,1)) | (1,(1,1)) | (1,(2,1)) |
//! | block: rank `(2,(3,2)):(0,(0,1))`                        | 0         | 0         | 0         | 1         | 1         | 1         |
//! | block: local column `(2,(3,2)):(1,(2,0))`                | 0         | 2         | 5         | 0         | 3         | 5         |
//! | block: position `(2,(3,2)):(1,(2,6))`                    | 0         | 2         | 5         | 6         | 9         | 11        |
//! | block: address of (4,j) `(12,(2,(3,2))):(1,(12,(24,0)))` | 4         | 28        | 64        | 4         | 40        | 64        |
//! | block-cyclic: coordinate (c,(d,i))                               | (0,(0,0)) | (0,(1,0)) | (1,(0,1)) | (0,(1,1)) | (1,(0,2)) | (1,(1,2)) |
//! | block-cyclic: rank `(2,(2,3)):(0,(1,0))`                         | 0         | 1         | 0         | 1         | 0         | 1         |
//! | block-cyclic: local column `(2,(2,3)):(1,(0,2))`                 | 0         | 0         | 3         | 2         | 5         | 5         |
//! | block-cyclic: position `(2,(2,3)):(1,(6,2))`                     | 0         | 6         | 3         | 8         | 5         | 11        |
//! | block-cyclic: address of (4,j) `(12,(2,(2,3))):(1,(12,(0,24)))`  | 4         | 4         | 40        | 28        | 64        | 64        |
//!
//! The inverse map takes a position to its global column. It counts (c,(i,d)), as positions run
//! through the shards, with strides in global columns. In the block-cyclic mapping it is
//! `(w,(k,P)):(1,(P*w,w))`.
//!
//! Rows-sharded, row-major A needs no other table. Its shard `(n/P,n):(n,1)` is the same memory as
//! the column-major `(n,n/P):(1,n)` of the transpose B ([`Layout::transposed`]). The columns above
//! are those of B. A columns-sharded, row-major shard `(n,n/P):(n/P,1)` becomes `(n,n/P):(1,n)` by
//! a transposition in memory.
//!
//! ```
//! use meshsolve::layout::Layout;
//! let (n, ranks, w, k) = (12, 2, 2, 3);
//! let tile = Layout::new(w, 1);
//! let position = tile.logical_product(&Layout::new((ranks, k), (k, 1)));
//! assert_eq!(position.to_string(), "(2,(2,3)):(1,(6,2))");
//! assert_eq!(position.coordinate(9), (1, (0, 2)).into());
//! assert_eq!(position.index(9), 5);
//! let global = Layout::new((w, (k, ranks)), (1, (ranks * w, w)));
//! assert_eq!(global.index(5), 9);
//! assert_eq!(Layout::right((n / ranks, n)).transposed(), Layout::left((n, n / ranks)));
//! ```

mod algebra;
mod distribution;
mod index;
mod partition;
mod storage;
mod tiling;
mod tuple;

pub use algebra::Layout;
pub use distribution::{Distribution, Grid};
pub use index::{
    Column, GlobalColumn, GlobalRow, Index, LocalColumn, LocalRow, Row, TileColumn, TileRow,
};
pub use partition::{Mapping, Partition, Tile};
pub use storage::Storage;
pub use tuple::Tuple;
