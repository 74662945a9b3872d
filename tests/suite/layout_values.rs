//! Examples with known answers, and the solver's uses of layouts: both orientations of a matrix,
//! the distribution of columns, and the worked table of the module's docs.

use meshsolve::layout::{Column, GlobalColumn, Layout, Mapping, Partition, Tuple};

fn pairs(m: usize, n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..m).flat_map(move |i| (0..n).map(move |j| (i, j)))
}

#[test]
fn tuples() {
    let ragged = Tuple::from(((2, 2), 2));
    assert_eq!(ragged.to_string(), "((2,2),2)");
    assert_eq!((ragged.product(), ragged.rank(), ragged.depth()), (8, 2, 2));
    let int = Tuple::from(7);
    assert_eq!((int.to_string().as_str(), int.product(), int.rank(), int.depth()), ("7", 7, 1, 0));
    let none = Tuple::Tuple(vec![]);
    assert_eq!(
        (none.to_string().as_str(), none.product(), none.rank(), none.depth()),
        ("()", 1, 0, 1)
    );
    assert_eq!(Tuple::from([1, 2]), Tuple::from(vec![1, 2]));
    assert_eq!(Tuple::from((1, [2, 3])), Tuple::from((1, (2, 3))));
    assert!(ragged.congruent(&((0, 0), 9).into()) && !ragged.congruent(&(2, 2, 2).into()));
}

#[test]
fn examples_of_the_seed() {
    let row_major = Layout::right((4, 2));
    assert_eq!(row_major.to_string(), "(4,2):(2,1)");
    let nested = Layout::new(((2, 2), 2), ((4, 1), 2));
    assert_eq!(nested.to_string(), "((2,2),2):((4,1),2)");
    for m in 0..4 {
        for n in 0..2 {
            assert_eq!(row_major.at((m, n)), m * 2 + n);
            assert_eq!(row_major.index(m + n * 4), m * 2 + n);
            assert_eq!(nested.at((m, n)), m % 2 * 4 + m / 2 + n * 2);
            assert_eq!(nested.at(((m % 2, m / 2), n)), nested.at((m, n)));
        }
    }
    let (m, n, k, l) = (3, 4, 5, 6);
    assert_eq!(Layout::left((m, n, k)), Layout::new((m, n, k), (1, m, m * n)));
    assert_eq!(Layout::right((m, n, k)), Layout::new((m, n, k), (n * k, k, 1)));
    assert_eq!(Layout::new((m, n), (1, m)).coalesce(), Layout::new(m * n, 1));
    assert_eq!(Layout::new((m, 1), (7, 9)).coalesce(), Layout::new(m, 7));
    assert_eq!(Layout::new((1, n), (7, 9)).coalesce(), Layout::new(n, 9));
    let by_mode = Layout::new(((m, n), k, l), ((1, m), m * n, m * n * k)).coalesce_by_mode();
    assert_eq!(by_mode, Layout::new((m * n, k, l), (1, m * n, m * n * k)));

    for (m0, n0, m1, n1) in [(2, 2, 2, 3), (3, 2, 4, 5), (1, 4, 3, 2)] {
        let tile = Layout::left((m0, n0));
        let product = tile.blocked_product(&Layout::right((m1, n1)));
        let stride = ((1, n1 * m0 * n0), (m0, m0 * n0));
        assert_eq!(product, Layout::new(((m0, m1), (n0, n1)), stride));
        for i in 0..m1 {
            for j in 0..n1 {
                // The tiles of the product are the tile.
                let start = (n1 * i + j) * m0 * n0;
                let (part, first) = product.local_tile((m0, n0), (i, j));
                assert!((0..m0 * n0).all(|x| part.index(x) == tile.index(x)));
                assert_eq!(first, start);
            }
        }
    }
    let product = Layout::left((2, 2)).blocked_product(&Layout::right((2, 3)));
    assert_eq!((product.at(((0, 1), (1, 1))), product.at((2, 3))), (18, 18));
    let coalesced = Layout::new(((2, 2), 2 * 3), ((1, 3 * 2 * 2), 2));
    assert_eq!(product.coalesce_by_mode(), coalesced);
    assert_eq!(coalesced.local_tile((2, 2), (0, 2)), (Layout::left((2, 2)), 8));
}

#[test]
fn row_major_is_column_major_of_the_transpose() {
    for (m, n) in pairs(6, 6) {
        let (a, b) = (Layout::right((m, n)), Layout::left((n, m)));
        assert_eq!((a.transposed(), b.transposed()), (b.clone(), a.clone()));
        for (i, j) in pairs(m, n) {
            assert_eq!(a.at((i, j)), b.at((j, i)));
        }
    }
    let memory = [2, 3, 5, 7, 11, 13];
    let read = |l: Layout, rows, cols| -> Vec<Vec<i32>> {
        (0..rows).map(|i| (0..cols).map(|j| memory[l.at((i, j))]).collect()).collect()
    };
    assert_eq!(read(Layout::right((2, 3)), 2, 3), [[2, 3, 5], [7, 11, 13]]);
    assert_eq!(read(Layout::left((3, 2)), 3, 2), [[2, 7], [3, 11], [5, 13]]);
    assert_eq!(read(Layout::right((2, 3)).transposed(), 3, 2), [[2, 7], [3, 11], [5, 13]]);

    let n = 6;
    for ranks in [1, 2, 3, 6] {
        let own = n / ranks;
        for d in 0..ranks {
            // Rows-sharded A: the shard of rank d is contiguous memory and holds columns of A^T.
            let (rows, start) = Layout::right((n, n)).local_tile((own, n), (d, 0));
            assert_eq!((&rows, start), (&Layout::new((own, n), (n, 1)), d * own * n));
            assert_eq!(rows.transposed(), Layout::new((n, own), (1, n)));
            assert_eq!(rows.transposed(), Layout::left((n, n)).local_tile((n, own), (0, d)).0);
        }
        // Columns-sharded A needs a transposition in memory: the same shape, other strides.
        let (before, after) = (Layout::right((n, own)), Layout::left((n, own)));
        assert_eq!((before.stride(), after.stride()), (&(own, 1).into(), &(1, n).into()));
    }
}

/// The sum and the three products of a linear layer: row-major operands, column-major arithmetic.
#[test]
fn products_swap_their_operands() {
    type Matrix<'a> = (Layout, &'a [usize]);
    // The multiplication of a column-major library: it reads operands through their layouts.
    fn multiply((la, a): Matrix, (lb, b): Matrix) -> Vec<usize> {
        let (m, k, n) = (la.mode(0).size(), la.mode(1).size(), lb.mode(1).size());
        let c = Layout::left((m, n));
        let entry = |i, j| (0..k).map(|l| a[la.at((i, l))] * b[lb.at((l, j))]).sum();
        let at = |x| (c.index(x), entry(x % m, x / m));
        let mut out: Vec<_> = (0..c.size()).map(at).collect();
        out.sort();
        out.into_iter().map(|(_, v)| v).collect()
    }
    fn by_hand(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> usize) -> Vec<usize> {
        pairs(rows, cols).map(|(i, j)| entry(i, j)).collect()
    }
    let (batch, wide, out) = (2, 3, 4);
    let x = by_hand(batch, wide, |i, j| 1 + 5 * i + 3 * j * j);
    let w = by_hand(out, wide, |i, j| 2 + 7 * i * j + i);
    let dy = by_hand(batch, out, |i, j| 3 + i * i + 4 * j);
    // The view of a column-major library: X^T, W^T, dY^T. No data moves.
    let xt = || Layout::left((wide, batch));
    let wt = || Layout::left((wide, out));
    let dyt = || Layout::left((out, batch));
    // Y = X W^T, so Y^T = W X^T
    let y = by_hand(batch, out, |i, j| (0..wide).map(|l| x[i * wide + l] * w[j * wide + l]).sum());
    assert_eq!(multiply((wt().transposed(), &w), (xt(), &x)), y);
    // dX = dY W, so dX^T = W^T dY^T
    let dx = by_hand(batch, wide, |i, j| (0..out).map(|l| dy[i * out + l] * w[l * wide + j]).sum());
    assert_eq!(multiply((wt(), &w), (dyt(), &dy)), dx);
    // dW = dY^T X, so dW^T = X^T dY
    let dw = by_hand(out, wide, |i, j| (0..batch).map(|l| dy[l * out + i] * x[l * wide + j]).sum());
    assert_eq!(multiply((xt(), &x), (dyt().transposed(), &dy)), dw);
}

/// The statements of the module's docs on tiles of one width, in every small case.
#[test]
fn distributions() {
    for (w, (ranks, k)) in (1..5).flat_map(|w| pairs(5, 5).map(move |p| (w, p))) {
        let (ranks, k) = (ranks + 1, k + 1);
        let n = w * ranks * k;
        let tile = Layout::new(w, 1);
        let natural = tile.logical_product(&Layout::new((k, ranks), (1, k)));
        assert_eq!(natural, Layout::new((w, (k, ranks)), (1, (w, k * w))));
        assert_eq!(natural.coalesce(), Layout::new(n, 1).coalesce());
        let cyclic = tile.logical_product(&Layout::new((ranks, k), (k, 1)));
        assert_eq!(cyclic, Layout::new((w, (ranks, k)), (1, (k * w, w))));
        let global = Layout::new((w, (k, ranks)), (1, (ranks * w, w)));
        assert!(cyclic.is_dense());
        for (order, position) in [(Mapping::Block, &natural), (Mapping::BlockCyclic, &cyclic)] {
            let columns = Partition::<Column>::new(n, ranks, w, order);
            let source = columns.source();
            for j in 0..n {
                assert_eq!(source[position.index(j)], j, "w={w} P={ranks} k={k}");
                let column = GlobalColumn::new(j);
                assert_eq!(columns.tile_of(column).get(), j / w);
                let (rank, local) = columns.local(column);
                assert_eq!(rank * k * w + local.get(), position.index(j));
                assert_eq!(columns.global(rank, local), column);
            }
        }
        for j in 0..n {
            assert_eq!(global.index(cyclic.index(j)), j);
        }
    }
}

/// Computes the table of the module's docs and compares it cell by cell, labels included.
#[test]
fn worked_table() {
    let (n, ranks, w, k, row) = (12, 2, 2, 3, 4);
    let columns = [0, 2, 5, 6, 9, 11];
    let line = |label: String, cell: &dyn Fn(usize) -> String| {
        std::iter::once(label).chain(columns.iter().map(|&j| cell(j))).collect::<Vec<_>>()
    };
    let whole = Layout::left((n, n));
    let one_d = |j: usize| (row + n * j).to_string();
    let mut table = vec![
        line("global column j".into(), &|j| j.to_string()),
        line(format!("1-D coordinate of element ({row},j) `{whole}`"), &one_d),
    ];
    let orders = [
        // name, coordinate, shape, and the strides of rank and local column
        ("block", "(c,(i,d))", (w, (k, ranks)), (0, (0, 1)), (1, (w, 0)), (k, ranks), (1, k)),
        (
            "block-cyclic",
            "(c,(d,i))",
            (w, (ranks, k)),
            (0, (1, 0)),
            (1, (0, w)),
            (ranks, k),
            (k, 1),
        ),
    ];
    for (name, coordinate, shape, rank, local, tiler, order) in orders {
        let position = Layout::new(w, 1).logical_product(&Layout::new(tiler, order));
        let (rank, local) = (Layout::new(shape, rank), Layout::new(shape, local));
        let rows = local.stride().flat().into_iter().map(|d| n * d).collect::<Vec<_>>();
        let address = Layout::new((n, shape), (1, (rows[0], (rows[1], rows[2]))));
        let shard = Layout::left((n, n / ranks));
        for j in 0..n {
            assert_eq!(position.index(j), rank.index(j) * (n / ranks) + local.index(j));
            assert_eq!(address.at((row, j)), shard.at((row, local.index(j))));
            assert_eq!(address.index(whole.at((row, j))), address.at((row, j)));
        }
        table.extend([
            line(format!("{name}: coordinate {coordinate}"), &|j| rank.coordinate(j).to_string()),
            line(format!("{name}: rank `{rank}`"), &|j| rank.index(j).to_string()),
            line(format!("{name}: local column `{local}`"), &|j| local.index(j).to_string()),
            line(format!("{name}: position `{position}`"), &|j| position.index(j).to_string()),
            line(format!("{name}: address of ({row},j) `{address}`"), &|j| {
                address.at((row, j)).to_string()
            }),
        ]);
    }
    let docs =
        include_str!("../../src/layout/mod.rs").lines().filter_map(|l| l.strip_prefix("//! | "));
    let cells = |l: &str| l.trim_end_matches('|').split('|').map(|c| c.trim().into()).collect();
    let written: Vec<Vec<String>> = docs.map(cells).collect();
    let text = table.iter().map(|l| format!("//! | {} |\n", l.join(" | "))).collect::<String>();
    assert!(written == table, "the table is:\n{text}");
}
