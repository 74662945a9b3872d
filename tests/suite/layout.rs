//! Every column has one place; the two mappings have equal capacities; widths of tiles differ
//! by at most one.

use meshsolve::layout::{Column, GlobalColumn, LocalColumn, Mapping, Partition};

fn all_sizes() -> impl Iterator<Item = (usize, usize, usize)> {
    (1..=8).flat_map(|ranks| {
        (0..=12).flat_map(move |m| [1, 2, 3, 5, 64].into_iter().map(move |t| (m * ranks, ranks, t)))
    })
}

#[test]
fn tiles_cover_all_columns_once_in_order() {
    for (n, ranks, tile) in all_sizes() {
        for mapping in [Mapping::Block, Mapping::BlockCyclic] {
            let columns = Partition::<Column>::new(n, ranks, tile, mapping);
            let mut next = GlobalColumn::new(0);
            let mut filled = vec![LocalColumn::new(0); ranks];
            for t in columns.each() {
                let tile_t = columns.tile(t);
                assert_eq!(tile_t.global, next, "tiles are in global order");
                assert_eq!(tile_t.local, filled[tile_t.rank], "a shard fills from its start");
                assert!((1..=tile).contains(&tile_t.width));
                next += tile_t.width;
                filled[tile_t.rank] += tile_t.width;
            }
            assert_eq!(next.get(), n);
            assert!(filled.iter().all(|f| f.get() == n / ranks), "equal capacities");
        }
    }
}

#[test]
fn widths_differ_by_at_most_one() {
    for (n, ranks, tile) in all_sizes().filter(|&(n, ..)| n > 0) {
        let columns = Partition::<Column>::new(n, ranks, tile, Mapping::BlockCyclic);
        let widths: Vec<_> = columns.each().map(|t| columns.tile(t).width).collect();
        assert!(widths.iter().max().unwrap() - widths.iter().min().unwrap() <= 1);
        assert_eq!(
            columns.count(),
            ranks * (n / ranks).div_ceil(tile),
            "as few as the width allows"
        );
    }
}

#[test]
fn source_is_a_permutation_and_trivial_in_the_block_mapping() {
    for (n, ranks, tile) in all_sizes() {
        let identity: Vec<_> = (0..n).collect();
        assert_eq!(Partition::<Column>::new(n, ranks, tile, Mapping::Block).source(), identity);
        let mut source = Partition::<Column>::new(n, ranks, tile, Mapping::BlockCyclic).source();
        source.sort_unstable();
        assert_eq!(source, identity);
    }
}

#[test]
fn the_worked_example_of_the_module() {
    let place = |order| {
        let c = Partition::<Column>::new(12, 2, 2, order);
        let tiles = c.each().map(|t| c.tile(t));
        tiles.map(|t| (t.global.get(), t.rank, t.local.get())).collect::<Vec<_>>()
    };
    let natural = [(0, 0, 0), (2, 0, 2), (4, 0, 4), (6, 1, 0), (8, 1, 2), (10, 1, 4)];
    let cyclic = [(0, 0, 0), (2, 1, 0), (4, 0, 2), (6, 1, 2), (8, 0, 4), (10, 1, 4)];
    assert_eq!(place(Mapping::Block), natural);
    assert_eq!(place(Mapping::BlockCyclic), cyclic);
}

#[test]
fn pieces_may_begin_at_multiples_of_a_unit() {
    for per_rank in 1..200 {
        for tile in [16, 32, 48, 96] {
            let columns = Partition::<Column>::in_units(2 * per_rank, 2, tile, 16, Mapping::Block);
            let plain = Partition::<Column>::new(2 * per_rank, 2, tile, Mapping::Block);
            assert_eq!(columns.count(), plain.count(), "as few pieces");
            for t in columns.each() {
                let tile_of = columns.tile(t);
                assert!((1..=tile).contains(&tile_of.width), "{per_rank} {tile}: {tile_of:?}");
                assert_eq!(tile_of.local.get() % 16, 0, "{per_rank} {tile}: {tile_of:?}");
            }
        }
    }
    // A tile that is none keeps pieces of equal width.
    let plain = Partition::<Column>::new(100, 1, 30, Mapping::Block);
    assert_eq!(Partition::<Column>::in_units(100, 1, 30, 16, Mapping::Block), plain);
}
