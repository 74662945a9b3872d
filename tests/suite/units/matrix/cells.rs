//! Views of memory: their elements and their limits.

use meshsolve::matrix::Cells;

#[test]
fn elements_are_where_the_layout_says() {
    let mut memory: Vec<usize> = (0..40).collect();
    let a = Cells::of(&mut memory).by_columns(6, 5, 8);
    let at = |view: Cells<usize>, i: usize, j: usize| {
        // SAFETY: *order*, as this is the only thread.
        unsafe { view.read()[(i, j)] }
    };
    assert_eq!(at(a, 2, 3), 26);
    assert_eq!(at(a.transposed(), 3, 2), 26);
    assert_eq!(at(a.sub(1, 2, 3, 2), 1, 1), 26);
    assert_eq!(at(a.row_range(2..4), 0, 3), 26);
    assert_eq!(at(a.rows_from(2), 0, 3), 26);
    assert_eq!(at(a.column(3), 2, 0), 26);
    assert_eq!(at(a.sub(0, 1, 5, 4).sub(0, 0, 4, 4).diagonal(), 2, 0), 26);
    assert_eq!(a.at(2, 3), a.as_ptr().wrapping_add(26));
    let mut memory: Vec<usize> = (0..12).collect();
    let a = Cells::of(&mut memory).by_rows(4, 3);
    assert_eq!((at(a, 1, 2), at(a.flat(), 5, 0), a.flat().rows()), (5, 5, 12));
}

/// What the view of `rows x cols` elements answers; `None` where it panics.
fn answer(view: impl Fn(Cells<u8>) -> Cells<u8>) -> Option<(usize, usize)> {
    let mut memory = [0; 40];
    let a = Cells::of(&mut memory).by_columns(6, 5, 8);
    let found = std::panic::AssertUnwindSafe(|| {
        let view = view(a);
        (view.rows(), view.cols())
    });
    std::panic::catch_unwind(found).ok()
}

#[test]
fn no_method_leaves_the_view() {
    assert_eq!(answer(|a| a.sub(6, 5, 0, 0)), Some((0, 0)), "empty, at the end");
    assert_eq!(answer(|a| a.sub(2, 1, 4, 4)), Some((4, 4)), "up to the end");
    assert_eq!(answer(|a| a.sub(2, 1, 5, 4)), None);
    assert_eq!(answer(|a| a.sub(2, 2, 4, 4)), None);
    assert_eq!(answer(|a| a.sub(1, 0, usize::MAX, 1)), None, "a sum that overflows");
    assert_eq!(answer(|a| a.sub(0, usize::MAX, 1, 2)), None);
    assert_eq!(answer(|a| a.rows_from(7)), None);
    assert_eq!(answer(|a| a.row_range(3..7)), None);
    assert_eq!(answer(|a| a.column(5)), None);
    assert_eq!(answer(|a| a.diagonal()), None, "not square");
    assert_eq!(answer(|a| a.flat()), None, "not in one piece");
    assert_eq!(answer(|a| a.by_columns(2, 2, 2)), None, "not a column");
    let shaped = |rows, cols, leading| answer(move |a| a.column(0).by_columns(rows, cols, leading));
    assert_eq!(shaped(2, 3, 2), Some((2, 3)));
    assert_eq!(shaped(2, 2, 4), Some((2, 2)));
    assert_eq!(shaped(2, 2, 5), None);
    assert_eq!(shaped(2, 2, 1), None, "columns that overlap");
    assert_eq!(shaped(usize::MAX, 2, 1), None, "a product that overflows");
    assert_eq!(answer(|a| a.column(0).by_rows(2, 4)), None);
    let element = |row, col| {
        answer(move |a| {
            a.at(row, col);
            a
        })
    };
    assert_eq!((element(5, 4), element(6, 4), element(5, 5)), (Some((6, 5)), None, None));
}
