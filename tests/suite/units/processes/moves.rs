//! Moves between ranks that are threads.

use std::sync::mpsc::{Receiver, Sender, channel};

use meshsolve::error::Result;
use meshsolve::processes::moves::{Cyclic, Transport, mirror, mirrored, transpose};
use meshsolve::scalar::Scalar;

/// A rank with a channel to and from each.
struct Thread<T> {
    rank: usize,
    to: Vec<Sender<Vec<T>>>,
    from: Vec<Receiver<Vec<T>>>,
}

impl<T: Scalar> Transport<T> for Thread<T> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, out: &[T], to: &[usize], into: &mut [T], from: &[usize]) -> Result<()> {
        let mut rest = out;
        for (sender, &count) in self.to.iter().zip(to) {
            let (part, others) = rest.split_at(count);
            sender.send(part.to_vec()).unwrap();
            rest = others;
        }
        let mut rest = into;
        for (receiver, &count) in self.from.iter().zip(from) {
            let part = receiver.recv().unwrap();
            assert_eq!(part.len(), count, "as much as the other rank sends");
            let (to, others) = rest.split_at_mut(count);
            to.copy_from_slice(&part);
            rest = others;
        }
        Ok(())
    }
}

/// Runs `work` on each rank with its part, and returns the parts.
fn on_ranks<T: Scalar>(
    parts: Vec<Vec<T>>,
    work: impl Fn(&Thread<T>, &mut [T]) + Sync,
) -> Vec<Vec<T>> {
    let all = parts.len();
    let mut to: Vec<Vec<_>> = (0..all).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<_>> = (0..all).map(|_| Vec::new()).collect();
    for senders in &mut to {
        for receivers in &mut from {
            let (sender, receiver) = channel();
            senders.push(sender);
            receivers.push(receiver);
        }
    }
    let threads = to.into_iter().zip(from).enumerate();
    let threads: Vec<_> = threads.map(|(rank, (to, from))| Thread { rank, to, from }).collect();
    std::thread::scope(|scope| {
        let work = &work;
        let run = |(thread, mut part): (Thread<T>, Vec<T>)| {
            scope.spawn(move || {
                work(&thread, &mut part);
                part
            })
        };
        let handles: Vec<_> = threads.into_iter().zip(parts).map(run).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

/// The parts of a matrix whose entries name their row and column.
fn numbered(n: usize, ranks: usize) -> Vec<Vec<f64>> {
    let local = n / ranks;
    let part = |rank| {
        (0..local * n).map(move |at| ((at % n) * 1000 + rank * local + at / n) as f64).collect()
    };
    (0..ranks).map(part).collect()
}

#[test]
fn columns_go_to_their_places_and_back() {
    for ranks in 1..=8 {
        for tiles in 0..=9 {
            for width in [1, 3] {
                let n = ranks * tiles * width;
                let order = Cyclic { rows: n, columns: n, ranks, width };
                let staged =
                    || [vec![0.0; order.staged::<f64>()], vec![0.0; order.staged::<f64>()]];
                let moved = on_ranks(numbered(n, ranks), |thread, a| {
                    order.move_columns(thread, a, &mut staged(), true).unwrap();
                    for (j, column) in a.chunks_exact(n.max(1)).enumerate() {
                        let number = if tiles <= 1 || ranks == 1 {
                            thread.rank * order.local() + j
                        } else {
                            order.column(thread.rank, j)
                        };
                        let expected = (0..n).map(|i| (i * 1000 + number) as f64);
                        assert!(column.iter().copied().eq(expected), "{order:?}, column {j}");
                    }
                });
                let back = on_ranks(moved, |thread, a| {
                    order.move_columns(thread, a, &mut staged(), false).unwrap();
                });
                assert_eq!(back, numbered(n, ranks), "{order:?}");
            }
        }
    }
}

/// Columns move some at a time, so that staging stays small.
#[test]
fn staging_is_a_small_part() {
    let order = Cyclic::of_columns((8192, 8192), 2, true);
    assert_eq!(order.width, 128);
    let shard = 8192 * 4096;
    assert!(2 * order.staged::<f64>() <= shard / 32, "{}", order.staged::<f64>());
    let order = Cyclic { width: 2, ..Cyclic::of_columns((2048, 2048), 2, false) };
    assert!(order.step::<f64>() >= 1);
}

#[test]
fn tiles_divide_the_columns_of_a_rank() {
    let width = |n, ranks| Cyclic::of_columns((n, n), ranks, false).width;
    assert_eq!([width(512, 2), width(96, 2), width(6, 3), width(4, 4)], [64, 48, 2, 1]);
    // No divisor from 8 to 64: one tile for each rank.
    assert_eq!(width(2 * 997, 2), 997);
}

fn check_mirror<T: Scalar>(ranks: usize, local: usize, lower: bool, conjugate: bool) {
    let n = ranks * local;
    let entry = |i: usize, j: usize| {
        let given = if lower { i >= j } else { i <= j };
        if given { T::of_parts(i as f64, j as f64 + 0.5) } else { T::NAN }
    };
    let part =
        |rank: usize| (0..local * n).map(|at| entry(at % n, rank * local + at / n)).collect();
    let staged = || [(); 2].map(|()| vec![T::ZERO; mirrored::<T>(n, ranks)]);
    let whole = on_ranks((0..ranks).map(part).collect(), |thread, a| {
        mirror(thread, n, a, &mut staged(), lower, conjugate).unwrap();
    });
    for (rank, part) in whole.into_iter().enumerate() {
        for (at, found) in part.into_iter().enumerate() {
            let (i, j) = (at % n, rank * local + at / n);
            let given = if lower { i >= j } else { i <= j };
            let image = |x: T| if conjugate { T::conj_impl(&x) } else { x };
            let real = |x: T| T::of_parts(x.parts().0, 0.0);
            let expected = match given {
                true if i == j && conjugate => real(entry(i, j)),
                true => entry(i, j),
                false => image(entry(j, i)),
            };
            assert!(found == expected, "({i}, {j}) of {n}, {ranks} ranks: {found:?}");
        }
    }
}

#[test]
fn triangles_are_mirrored() {
    for (ranks, local) in [(1, 7), (2, 4), (3, 5), (4, 1), (8, 3)] {
        for lower in [false, true] {
            check_mirror::<f32>(ranks, local, lower, false);
            check_mirror::<faer::c64>(ranks, local, lower, true);
            check_mirror::<faer::c64>(ranks, local, lower, false);
        }
    }
}

#[test]
fn matrices_are_transposed() {
    for (ranks, local) in [(1, 7), (2, 4), (3, 5), (4, 1), (8, 3), (2, 700)] {
        let n = ranks * local;
        let staged = || [(); 2].map(|()| vec![0.0; mirrored::<f64>(n, ranks)]);
        let turned = on_ranks(numbered(n, ranks), |thread, a| {
            transpose(thread, n, a, &mut staged()).unwrap();
        });
        for (rank, part) in turned.into_iter().enumerate() {
            let expected =
                (0..local * n).map(|at| ((rank * local + at / n) * 1000 + at % n) as f64);
            assert!(part.into_iter().eq(expected), "{n}, {ranks} ranks");
        }
    }
}
