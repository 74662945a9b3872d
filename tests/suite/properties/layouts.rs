//! The layout algebra on nested shapes with strides of any kind.

use std::panic::{AssertUnwindSafe, catch_unwind};

use meshsolve::layout::{Layout, Tuple};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq};

use super::check;
use crate::common::layouts::{map, translates, with};

/// Shapes of at most six integers, nested at most three deep.
fn shapes(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Tuple> {
    let integer = sizes.prop_map(Tuple::Int);
    integer
        .prop_recursive(3, 6, 3, |mode| vec(mode, 1..4).prop_map(Tuple::Tuple))
        .prop_filter("at most some thousand coordinates", |shape| {
            shape.flat().len() <= 6 && shape.product() <= 4096
        })
}

fn layouts() -> impl Strategy<Value = Layout> {
    let strides = |shape: Tuple| (vec(0..30usize, shape.flat().len()), Just(shape));
    let any_strides = shapes(0..7).prop_flat_map(strides).prop_map(|(d, shape)| with(&shape, &d));
    let compact = (shapes(0..7), any::<bool>())
        .prop_map(|(shape, left)| if left { Layout::left(shape) } else { Layout::right(shape) });
    proptest::prop_oneof![any_strides, compact, dense()]
}

/// Every index below the size once, modes in any order.
fn dense() -> impl Strategy<Value = Layout> {
    let order = |shape: Tuple| {
        let places: Vec<_> = (0..shape.flat().len()).collect();
        (Just(places).prop_shuffle(), Just(shape))
    };
    shapes(1..5).prop_flat_map(order).prop_map(|(order, shape)| {
        let sizes = shape.flat();
        let mut strides = vec![0; sizes.len()];
        order.iter().fold(1, |next, &i| {
            strides[i] = next;
            next * sizes[i]
        });
        with(&shape, &strides)
    })
}

#[test]
fn coordinates_and_indices() {
    check(300, &layouts(), |layout| {
        let indices = map(&layout);
        prop_assert_eq!(layout.size(), indices.len());
        prop_assert_eq!(layout.cosize(), indices.iter().max().map_or(0, |i| i + 1));
        for (l, &index) in indices.iter().enumerate() {
            let natural = layout.coordinate(l);
            prop_assert!(natural.congruent(layout.shape()));
            prop_assert_eq!((layout.at(&natural), layout.index(l)), (index, index));
        }
        Ok(())
    });
}

#[test]
fn coalescing_keeps_every_index() {
    check(500, &layouts(), |layout| {
        let short = layout.coalesce();
        prop_assert_eq!(map(&short), map(&layout));
        prop_assert!(short.shape().flat().len() <= layout.shape().flat().len().max(1));
        prop_assert_eq!(short.coalesce(), short);
        let by_mode = layout.coalesce_by_mode();
        prop_assert_eq!((by_mode.rank(), map(&by_mode)), (layout.rank(), map(&layout)));
        Ok(())
    });
}

#[test]
fn dense_is_a_permutation_of_the_indices() {
    check(500, &layouts(), |layout| {
        let mut indices = map(&layout);
        indices.sort_unstable();
        prop_assert_eq!(layout.is_dense(), indices.iter().enumerate().all(|(l, &i)| l == i));
        Ok(())
    });
}

#[test]
fn products_are_copies_of_the_tile() {
    check(300, &(dense(), layouts()), |(tile, tiler)| {
        let product = tile.logical_product(&tiler);
        let copies = map(&tiler).into_iter();
        let expected: Vec<_> = copies
            .flat_map(|y| map(&tile).into_iter().map(move |x| (x, y)))
            .map(|(x, y)| x + tile.size() * y)
            .collect();
        prop_assert_eq!(map(&product), expected);
        if tile.rank() == tiler.rank() {
            let mut blocked = map(&tile.blocked_product(&tiler));
            let mut product = map(&product);
            blocked.sort_unstable();
            product.sort_unstable();
            prop_assert_eq!(blocked, product, "the same elements, grouped by mode");
        }
        Ok(())
    });
}

#[test]
fn a_tile_is_there_exactly_where_pieces_are_translates() {
    let cut = |layout: Layout| {
        let divisors =
            |size: usize| (1..=size).filter(|&t| size.is_multiple_of(t)).collect::<Vec<_>>();
        let modes: Vec<_> = (0..layout.rank()).map(|i| divisors(layout.mode(i).size())).collect();
        let choices = modes.into_iter().map(proptest::sample::select).collect::<Vec<_>>();
        (choices, vec(any::<proptest::sample::Index>(), layout.rank()), Just(layout))
    };
    let matrices = layouts().prop_filter("a tuple that is not empty", |layout| {
        layout.shape().depth() > 0 && layout.size() > 0
    });
    check(500, &matrices.prop_flat_map(cut), |(tile, pieces, layout)| {
        let modes: Vec<_> = (0..layout.rank()).map(|i| layout.mode(i)).collect();
        let piece: Vec<_> =
            (0..tile.len()).map(|i| pieces[i].index(modes[i].size() / tile[i])).collect();
        let found =
            catch_unwind(AssertUnwindSafe(|| layout.local_tile(tile.clone(), piece.clone())));
        let expected = modes.iter().zip(&tile).all(|(mode, &t)| translates(mode, t));
        prop_assert_eq!(found.is_ok(), expected, "{} cut by {:?}", layout, tile);
        let Ok((found, start)) = found else { return Ok(()) };
        // Within the tile, and within the whole.
        for x in 0..found.size() {
            let mut rest = x;
            let within: Vec<_> = tile
                .iter()
                .map(|&t| {
                    let here = rest % t;
                    rest /= t;
                    here
                })
                .collect();
            let global: Vec<_> = (0..tile.len()).map(|i| piece[i] * tile[i] + within[i]).collect();
            prop_assert_eq!(start + found.at(within), layout.at(global), "{} {:?}", layout, tile);
        }
        Ok(())
    });
}
