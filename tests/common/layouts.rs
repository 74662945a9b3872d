//! Layouts by definition: the reference for the layout algebra.

use meshsolve::layout::{Layout, Tuple};

/// `shape` with strides taken in turn from `strides`.
pub fn with(shape: &Tuple, strides: &[usize]) -> Layout {
    let mut strides = strides.iter();
    Layout::new(shape, fill(shape, &mut strides))
}

fn fill<'a>(shape: &Tuple, strides: &mut impl Iterator<Item = &'a usize>) -> Tuple {
    match shape {
        Tuple::Int(_) => Tuple::Int(*strides.next().unwrap()),
        Tuple::Tuple(modes) => Tuple::Tuple(modes.iter().map(|m| fill(m, strides)).collect()),
    }
}

/// The natural coordinates in 1-D order as integer lists, counted without the library.
pub fn count(sizes: &[usize]) -> Vec<Vec<usize>> {
    match sizes.split_last() {
        None => vec![vec![]],
        Some((&last, rest)) => {
            let inner = count(rest);
            let with_last = |i| inner.iter().map(move |c| [c.as_slice(), &[i]].concat());
            (0..last).flat_map(with_last).collect()
        }
    }
}

/// The index of every 1-D coordinate, by definition.
pub fn map(layout: &Layout) -> Vec<usize> {
    let stride = layout.stride().flat();
    let dot = |c: Vec<usize>| c.iter().zip(&stride).map(|(c, d)| c * d).sum();
    count(&layout.shape().flat()).into_iter().map(dot).collect()
}

/// Whether the runs of `t` indices are the same up to their start.
pub fn translates(layout: &Layout, t: usize) -> bool {
    let indices = map(layout);
    let run = |start: usize| (1..t).map(move |i| (start, start + i));
    let same = |start| {
        run(start)
            .zip(run(0))
            .all(|((a, b), (c, d))| indices[b] + indices[c] == indices[d] + indices[a])
    };
    indices.len().is_multiple_of(t) && (0..indices.len()).step_by(t).all(same)
}
