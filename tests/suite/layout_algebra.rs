//! The layout algebra against brute force on all small shapes.

use std::panic::{UnwindSafe, catch_unwind};

use meshsolve::layout::{Layout, Tuple};

use crate::common::layouts::{count, map, translates, with};

/// All shapes of rank 1 to 3 with integers 0..=3, flat and nested.
fn shapes() -> Vec<Tuple> {
    let mut all = Vec::new();
    for a in 0..4 {
        all.push(a.into());
        all.push([a].into());
        for b in 0..4 {
            all.push((a, b).into());
            for c in 0..4 {
                all.push((a, b, c).into());
                all.push(((a, b), c).into());
                all.push((a, (b, c)).into());
                all.push(((a,), ((b,), c)).into());
            }
        }
    }
    all
}

/// Compact, padded, broadcast, overlapping and permuted layouts of every small shape.
fn layouts() -> Vec<Layout> {
    let mut all = Vec::new();
    for shape in shapes() {
        all.extend([Layout::left(&shape), Layout::right(&shape)]);
        for strides in [[0, 0, 0], [1, 0, 3], [5, 1, 2], [2, 2, 4], [1, 3, 9], [3, 1, 6]] {
            all.push(with(&shape, &strides));
        }
    }
    all
}

fn panics<T: std::fmt::Debug>(f: impl FnOnce() -> T + UnwindSafe) -> String {
    let cause = catch_unwind(f).expect_err("no panic");
    cause.downcast_ref::<String>().cloned().expect("a message")
}

#[test]
fn coordinates() {
    for layout in layouts() {
        let indices = map(&layout);
        let flat = count(&layout.shape().flat());
        assert_eq!((layout.size(), flat.len()), (indices.len(), indices.len()), "{layout}");
        assert_eq!(layout.cosize(), indices.iter().max().map_or(0, |i| i + 1), "{layout}");
        for (l, &index) in indices.iter().enumerate() {
            let natural = layout.coordinate(l);
            assert_eq!(natural.flat(), flat[l], "{layout}");
            assert!(natural.congruent(layout.shape()));
            assert_eq!((layout.at(&natural), layout.index(l)), (index, index), "{layout}");
            assert_eq!(Layout::left(layout.shape()).at(&natural), l, "{layout}");
            // One integer for each top-level mode.
            let one = |(c, s): (&Tuple, &Tuple)| Layout::left(s).at(c);
            let by_mode: Vec<_> =
                natural.modes().iter().zip(layout.shape().modes()).map(one).collect();
            if layout.shape().depth() > 0 {
                assert_eq!(layout.at(by_mode), index, "{layout}");
            }
        }
    }
}

#[test]
fn strides_of_left_and_right() {
    for shape in shapes() {
        let indices: Vec<_> = (0..shape.product()).collect();
        assert_eq!(map(&Layout::left(&shape)), indices);
        let last_first: Vec<_> = shape.flat().into_iter().rev().collect();
        let row_major = Layout::right(&shape);
        for (l, mut c) in count(&last_first).into_iter().enumerate() {
            c.reverse();
            let index: usize = c.iter().zip(row_major.stride().flat()).map(|(c, d)| c * d).sum();
            assert_eq!(index, l, "{row_major}");
        }
    }
}

#[test]
fn coalescing() {
    for layout in layouts() {
        let short = layout.coalesce();
        assert_eq!(map(&short), map(&layout), "{layout}");
        assert!(short.shape().depth() <= 1, "{layout}");
        assert_eq!(short.coalesce(), short, "{layout}");
        let (s, d) = (short.shape().flat(), short.stride().flat());
        assert!((1..s.len()).all(|i| d[i] != s[i - 1] * d[i - 1]), "{layout} > {short}");
        assert!(s.len() == 1 || s.iter().all(|&s| s > 1), "{layout} > {short}");

        let by_mode = layout.coalesce_by_mode();
        assert_eq!((by_mode.rank(), map(&by_mode)), (layout.rank(), map(&layout)), "{layout}");
        for i in 0..layout.rank() {
            assert_eq!(by_mode.mode(i), layout.mode(i).coalesce(), "{layout}");
        }
    }
}

#[test]
fn density() {
    for layout in layouts() {
        let mut indices = map(&layout);
        indices.sort();
        assert_eq!(layout.is_dense(), indices.iter().enumerate().all(|(l, &i)| l == i), "{layout}");
    }
}

#[test]
fn products() {
    let tilers: Vec<_> = layouts().into_iter().step_by(43).collect();
    for tile in layouts().into_iter().filter(Layout::is_dense).step_by(7) {
        for tiler in &tilers {
            let product = tile.logical_product(tiler);
            assert_eq!((product.rank(), product.mode(0)), (2, tile.clone()));
            assert_eq!(product.size(), tile.size() * tiler.size());
            for y in 0..tiler.size() {
                for x in 0..tile.size() {
                    let index = tile.index(x) + tile.size() * tiler.index(y);
                    assert_eq!(product.at((x, y)), index, "{tile} * {tiler}");
                }
            }
            if tile.rank() == tiler.rank() {
                blocked_product(&tile, tiler);
            }
        }
    }
}

fn blocked_product(tile: &Layout, tiler: &Layout) {
    let product = tile.blocked_product(tiler);
    assert_eq!(product.rank(), tile.rank());
    let sizes = |of: &Layout| (0..of.rank()).map(|i| of.mode(i).size()).collect::<Vec<_>>();
    let at = |of: &Layout, c: &[usize]| match of.shape() {
        Tuple::Int(_) => of.index(c[0]),
        Tuple::Tuple(_) => of.at(c.to_vec()),
    };
    let width = sizes(tile);
    for y in count(&sizes(tiler)) {
        for x in count(&width) {
            let both: Vec<_> = (0..x.len()).map(|i| x[i] + width[i] * y[i]).collect();
            let index = at(tile, &x) + tile.size() * at(tiler, &y);
            assert_eq!(product.at(both), index, "{tile} * {tiler}");
        }
    }
}

#[test]
fn ragged_products() {
    let tile = Layout::new(((2, 3), 2), ((2, 4), 1));
    let tiler = Layout::new((2, (2, (1, 3))), (6, (3, (0, 1))));
    let product = tile.blocked_product(&tiler);
    let text = "(((2,3),2),(2,(2,(1,3)))):(((2,4),72),(1,(36,(0,12))))";
    assert_eq!(product.to_string(), text);
    blocked_product(&tile, &tiler);
    assert_eq!(product.size(), product.cosize());
    assert!(product.is_dense());
    let text = "(((2,3),2),(2,(2,(1,3)))):(((2,4),1),(72,(36,(0,12))))";
    assert_eq!(tile.logical_product(&tiler).to_string(), text);
}

fn pairs(m: usize, n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..m).flat_map(move |i| (0..n).map(move |j| (i, j)))
}

#[test]
fn tiles_index_directly() {
    for layout in layouts().into_iter().filter(|l| l.rank() == 2 && l.size() > 0) {
        let (m, n) = (layout.mode(0).size(), layout.mode(1).size());
        for (tm, tn) in (1..=m).flat_map(|tm| (1..=n).map(move |tn| (tm, tn))) {
            // Pieces of nested modes may not be translates of each other: then the piece has no
            // layout.
            if !translates(&layout.mode(0), tm) || !translates(&layout.mode(1), tn) {
                continue;
            }
            for (ti, tj) in pairs(m / tm, n / tn) {
                let (tile, start) = layout.local_tile((tm, tn), (ti, tj));
                assert_eq!((tile.mode(0).size(), tile.mode(1).size()), (tm, tn));
                for (i, j) in pairs(tm, tn) {
                    let direct = layout.at((ti * tm + i, tj * tn + j));
                    assert_eq!(start + tile.at((i, j)), direct, "{layout} ({tm},{tn})");
                }
            }
        }
    }
}

#[test]
fn tiles_of_nested_modes() {
    let whole = Layout::new(((2, 4), 6), ((1, 12), 2));
    assert_eq!(whole.local_tile((4, 3), (1, 1)), (Layout::new(((2, 2), 3), ((1, 12), 2)), 30));
    assert_eq!(whole.local_tile(((2, 2), 3), ((0, 1), 1)).1, 30);
    assert_eq!(whole.local_tile((1, 6), (3, 0)), (Layout::new((1, 6), (1, 2)), 13));
    // A piece over one and a half inner modes is a layout only where they coalesce.
    let whole = Layout::new(((4, 3), 2), ((1, 4), 12));
    assert_eq!(whole.local_tile((6, 2), (1, 0)), (Layout::new((6, 2), (1, 12)), 6));
    let message = panics(|| Layout::new(((4, 3), 2), ((1, 8), 4)).local_tile((6, 2), (1, 0)));
    assert_eq!(message, "no tile (1,0) of shape (6,2) in ((4,3),2):((1,8),4)");
}

#[test]
fn empty_modes() {
    let empty = Layout::left((0, 4));
    assert_eq!((empty.size(), empty.cosize()), (0, 0));
    assert_eq!(empty.coalesce(), Layout::new(0, 1));
    assert_eq!(empty.transposed(), Layout::new((4, 0), (0, 1)));
    assert_eq!(empty.local_tile((0, 2), (0, 1)).0.size(), 0);
    assert_eq!(Layout::new((2, (0, 4)), (1, (2, 2))).local_tile((2, 0), (0, 0)).0.size(), 0);
    assert_eq!(Layout::left((3, 0)).blocked_product(&Layout::right((2, 2))).size(), 0);
    assert_eq!(Layout::new(2, 1).logical_product(&Layout::new((2, 0), (0, 1))).cosize(), 0);
    let none = Layout::new(Tuple::Tuple(vec![]), Tuple::Tuple(vec![]));
    assert_eq!((none.size(), none.cosize(), none.index(0), none.rank()), (1, 1, 0, 0));
    assert_eq!(none.coalesce(), Layout::new(1, 0));
}

#[test]
fn misuse_panics_by_name() {
    let message = panics(|| Layout::new(((2, 2), 2), (4, 1)));
    assert_eq!(message, "shape ((2,2),2) and stride (4,1) nest differently");
    let outside = |c: Tuple| panics(move || Layout::left((2, 3)).at(c));
    assert_eq!(outside((2, 0).into()), "coordinate (2,0) does not fit (2,3):(1,2)");
    assert_eq!(outside(6.into()), "coordinate 6 does not fit (2,3):(1,2)");
    assert_eq!(outside((0, (0, 0)).into()), "coordinate (0,(0,0)) does not fit (2,3):(1,2)");
    assert_eq!(outside((0, 0, 0).into()), "coordinate (0,0,0) does not fit (2,3):(1,2)");
    let message = panics(|| Layout::new(2, 2).logical_product(&Layout::new(3, 1)));
    assert_eq!(message, "copies of the tile 2:2 would overlap or leave holes");
    let message = panics(|| Layout::left((2, 2)).blocked_product(&Layout::new(3, 1)));
    assert_eq!(message, "(2,2):(1,2) and 3:1 differ in rank");
    assert_eq!(panics(|| Layout::new(3, 1).transposed()), "3:1 is not a matrix");
    assert_eq!(panics(|| Layout::new(3, 1).mode(1)), "no mode 1 in 3:1");
    let message = panics(|| Layout::left((4, 4)).local_tile((3, 4), (0, 0)));
    assert_eq!(message, "no tile (0,0) of shape (3,4) in (4,4):(1,4)");
    let message = panics(|| Layout::left((4, 4)).local_tile((2, 4), (2, 0)));
    assert_eq!(message, "no tile (2,0) of shape (2,4) in (4,4):(1,4)");
}
