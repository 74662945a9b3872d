//! Layouts made from layouts: coalescing, products of a tile and a tiler, tiles of a layout.

use super::{Layout, Tuple};

impl Layout {
    /// The same map from 1-D coordinates with as few modes as possible, all integers.
    ///
    /// Modes of size 1 vanish, and `(s0,s1):(d,s0*d)` becomes `s0*s1:d`. A single coordinate gives
    /// `1:0`, and none `0:1`.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// assert_eq!(Layout::new((2, (1, 6)), (1, (6, 2))).coalesce(), Layout::new(12, 1));
    /// ```
    pub fn coalesce(&self) -> Layout {
        if self.size() == 0 {
            return Layout::new(0, 1);
        }
        let mut modes: Vec<(usize, usize)> = Vec::new();
        for (s, d) in self.flat().filter(|&(s, _)| s != 1) {
            match modes.last_mut() {
                Some((s0, d0)) if d == *s0 * *d0 => *s0 *= s,
                _ => modes.push((s, d)),
            }
        }
        from_flat(&modes)
    }

    /// Coalesces every top-level mode by itself, so the rank stays.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// let a = Layout::new(((2, 3), 4, 5), ((1, 2), 6, 24));
    /// assert_eq!(a.coalesce_by_mode(), Layout::new((6, 4, 5), (1, 6, 24)));
    /// ```
    pub fn coalesce_by_mode(&self) -> Layout {
        match self.shape() {
            Tuple::Int(_) => self.coalesce(),
            Tuple::Tuple(_) => Layout::join(self.modes().map(|mode| mode.coalesce())),
        }
    }

    /// Whether every index below the size has exactly one coordinate.
    pub fn is_dense(&self) -> bool {
        let mut modes: Vec<_> = self.flat().filter(|&(s, _)| s != 1).collect();
        modes.sort_by_key(|&(_, d)| d);
        let mut next = 1;
        let follows = |&(s, d): &(usize, usize)| {
            let here = next;
            next *= s;
            d == here
        };
        self.size() == 0 || modes.iter().all(follows)
    }

    /// Copies of this tile, one after the other in the order of `tiler`. Mode 0 runs within a copy,
    /// mode 1 over the copies. The index is `tile(x) + size(tile) * tiler(y)`.
    ///
    /// Panics unless the tile is dense, because copies at distance `size(tile)` would overlap.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// // Tiles of w columns, k on each of P ranks in turn: column (1-D) to its position.
    /// let (w, ranks, k) = (2, 2, 3);
    /// let tile = Layout::new(w, 1);
    /// let cyclic = tile.logical_product(&Layout::new((ranks, k), (k, 1)));
    /// assert_eq!(cyclic, Layout::new((w, (ranks, k)), (1, (k * w, w))));
    /// // The natural order of the same tiles moves nothing.
    /// let natural = tile.logical_product(&Layout::new((k, ranks), (1, k)));
    /// assert_eq!(natural.coalesce(), Layout::new(w * k * ranks, 1));
    /// ```
    pub fn logical_product(&self, tiler: &Layout) -> Layout {
        Layout::join([self.clone(), self.copies(tiler)])
    }

    /// The logical product regrouped by mode: mode m of the tile next to mode m of the tiler. The
    /// coordinates are those of the tile, over a wider range.
    ///
    /// Panics unless the tile is dense and both have the same rank.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// let a = Layout::left((2, 2)).blocked_product(&Layout::right((2, 3)));
    /// assert_eq!(a.to_string(), "((2,2),(2,3)):((1,12),(2,4))");
    /// assert_eq!(a.at((2, 3)), 18);
    /// assert_eq!(a.coalesce_by_mode().to_string(), "((2,2),6):((1,12),2)");
    /// ```
    pub fn blocked_product(&self, tiler: &Layout) -> Layout {
        assert!(self.rank() == tiler.rank(), "{self} and {tiler} differ in rank");
        let tiler = self.copies(tiler);
        Layout::join(self.modes().zip(tiler.modes()).map(|(a, b)| Layout::join([a, b])))
    }

    /// Cuts this layout into tiles of shape `tile`; returns tile `coordinate` and the index at
    /// which it starts. Element x has that index + tile(x).
    ///
    /// Each integer of `tile` cuts the mode in its place, an integer or a nested one, along its 1-D
    /// coordinate. The integer in the same place of `coordinate` counts the pieces.
    ///
    /// Panics when a cut leaves a remainder, or when there is no such piece. Also panics when
    /// pieces of a nested mode are not translates of one another. A mode of size 0 has pieces of
    /// size 0 only.
    ///
    /// ```
    /// # use meshsolve::layout::Layout;
    /// // The rows of rank 1 of P = 3, as a part of the row-major 6 x 6 matrix.
    /// let (rows, offset) = Layout::right((6, 6)).local_tile((2, 6), (1, 0));
    /// assert_eq!((rows, offset), (Layout::right((2, 6)), 12));
    /// // Columns 2 and 3 of a column-major shard, and one column. The leading dimension stays.
    /// let shard = Layout::left((6, 4));
    /// assert_eq!(shard.local_tile((6, 2), (0, 1)), (Layout::left((6, 2)), 12));
    /// assert_eq!(shard.local_tile((6, 1), (0, 3)), (Layout::new((6, 1), (1, 6)), 18));
    /// ```
    pub fn local_tile(
        &self,
        tile: impl Into<Tuple>,
        coordinate: impl Into<Tuple>,
    ) -> (Layout, usize) {
        let (tile, coordinate) = (tile.into(), coordinate.into());
        cut(self, &tile, &coordinate)
            .unwrap_or_else(|| panic!("no tile {coordinate} of shape {tile} in {self}"))
    }

    /// The tiler with its strides counted in whole tiles.
    fn copies(&self, tiler: &Layout) -> Layout {
        assert!(self.is_dense(), "copies of the tile {self} would overlap or leave holes");
        let size = self.size();
        Layout::new(tiler.shape(), tiler.stride().map(&mut |d| d * size))
    }
}

fn from_flat(modes: &[(usize, usize)]) -> Layout {
    match *modes {
        [] => Layout::new(1, 0),
        [(s, d)] => Layout::new(s, d),
        _ => {
            let (shape, stride): (Vec<_>, Vec<_>) = modes.iter().copied().unzip();
            Layout::new(shape, stride)
        }
    }
}

fn cut(layout: &Layout, tile: &Tuple, coordinate: &Tuple) -> Option<(Layout, usize)> {
    match (tile, coordinate) {
        (&Tuple::Int(t), &Tuple::Int(c)) => {
            let size = layout.size();
            let start = match size.checked_div(t) {
                None if size == 0 => 0,
                Some(pieces) if pieces * t == size && c < pieces => layout.index(c * t),
                _ => return None,
            };
            Some((first(layout, t)?, start))
        }
        (Tuple::Tuple(t), Tuple::Tuple(c)) if t.len() == c.len() && t.len() == layout.rank() => {
            let pieces = layout.modes().zip(t).zip(c).map(|((mode, t), c)| cut(&mode, t, c));
            let (pieces, offsets): (Vec<_>, Vec<_>) =
                pieces.collect::<Option<Vec<_>>>()?.into_iter().unzip();
            Some((Layout::join(pieces), offsets.iter().sum()))
        }
        _ => None,
    }
}

/// The first `t` 1-D coordinates, if every later run of `t` has the same layout.
fn first(layout: &Layout, t: usize) -> Option<Layout> {
    // Coalescing would lose the stride of a mode of size 1, which is a leading dimension.
    if let Tuple::Int(_) = layout.shape() {
        return Some(Layout::new(t, layout.stride()));
    }
    let mut rest = t;
    let mut modes = Vec::new();
    for (s, d) in layout.coalesce().flat() {
        if s.is_multiple_of(rest) {
            modes.push((rest, d));
            return Some(from_flat(&modes));
        }
        if !rest.is_multiple_of(s) {
            return None;
        }
        modes.push((s, d));
        rest /= s;
    }
    None
}
