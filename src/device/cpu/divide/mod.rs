//! Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix T, `Z^T T Z = diag(w)`, by
//! divide and conquer (Cuppen, Numer. Math. 36, 1981; Gu and Eisenstat, SIAM J. Matrix Anal. Appl.
//! 16, 1995).
//!
//! T without an entry below its diagonal is two smaller matrices, up to a matrix of rank one. Their
//! eigenvectors Q make that `Q (D + rho z z^T) Q^T`, whose eigenvectors are `Q U`. The product takes
//! most of the time.
//!
//! A worker has some rows of Z, which need no others: rows of `Q U` are rows of Q times U. In the last
//! merge, which has most of the work, it takes some rows after others. Workers share the work on U by its
//! roots. What they exchange are vectors. So a worker's room is O(n). With a product kernel bits of Z do
//! not depend on the workers.

mod deflation;
pub mod intervals;
mod leaf;
mod merge;
mod secular;
mod tree;
pub mod update;
pub mod vectors;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::leaf::{LEAST, Leaf};
use self::merge::Merge;
use self::tree::Tree;
use self::update::{GROUP, Pieces};
use super::blas;
use super::product::Units;
use crate::comm::{Queue, Step};
use crate::matrix::Columns;
use crate::scalar::Scalar;

/// Numbers that workers exchange. They meet between a write and a read.
#[derive(Debug)]
struct Exchange<V>(Mutex<Vec<V>>);

impl<V: Copy + Default> Exchange<V> {
    fn new(n: usize) -> Self {
        Exchange(Mutex::new(vec![V::default(); n]))
    }

    fn write(&self, places: Range<usize>, from: impl Iterator<Item = V>) {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        for (to, from) in all[places].iter_mut().zip(from) {
            *to = from;
        }
    }

    fn read(&self, places: Range<usize>) -> Vec<V> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())[places].to_vec()
    }
}

/// What the workers of a decomposition share.
#[derive(Debug)]
pub struct Divided {
    tree: Tree,
    /// The columns of Z to find.
    wanted: Range<usize>,
    unit_roundoff: f64,
    is_finite: bool,
    /// Of T, with entries of about 1, without the matrices of rank one.
    diagonal: Vec<f64>,
    /// The entries below the diagonal.
    below: Vec<f64>,
    /// T is the scaled one times both.
    factors: [f64; 2],
    /// Eigenvalues of nodes, by columns of Q. The columns by ascending values, from the first of the
    /// node on.
    values: Exchange<f64>,
    order: Exchange<usize>,
    /// The last row of a left child's Q and the first row of a right child's.
    couplings: Exchange<f64>,
    /// Of roots: the closer pole, and the distance from it.
    origins: Exchange<f64>,
    offsets: Exchange<f64>,
    /// z for which the roots are exact, up to a factor; and 1 / the norms of its eigenvectors.
    weights: Exchange<f64>,
    scales: Exchange<f64>,
    /// The rows of Z in the last merge.
    queue: Queue,
    /// Eigenvalues that were not found.
    failed: AtomicUsize,
}

impl Divided {
    /// T with this diagonal and these entries below it, one fewer, for so many workers. The last
    /// argument is that of the elements of Z.
    pub fn new(
        mut diagonal: Vec<f64>,
        mut below: Vec<f64>,
        workers: usize,
        unit_roundoff: f64,
    ) -> Self {
        let n = diagonal.len();
        assert!(workers > 0 && below.len() == n.saturating_sub(1), "a tridiagonal matrix");
        let is_finite = diagonal.iter().chain(&below).all(|x| x.is_finite());
        let largest = diagonal.iter().chain(&below).fold(0.0, |most, x| f64::max(most, x.abs()));
        let mut factors = [1.0; 2];
        if is_finite && largest > 0.0 {
            // In steps, because a power of two may be too large.
            let exponent = largest.log2().floor() as i32;
            factors = [exponent / 2, exponent - exponent / 2].map(|half| 2f64.powi(half));
            for x in diagonal.iter_mut().chain(&mut below) {
                *x = *x / factors[0] / factors[1];
            }
        }
        below.iter_mut().filter(|x| x.abs() < LEAST).for_each(|x| *x = 0.0);
        let tree = Tree::new(n, workers);
        for leaf in 1..1 << tree.depth() {
            let row = tree.part(tree.depth(), leaf).start;
            let entry = below[row - 1].abs();
            diagonal[row - 1] -= entry;
            diagonal[row] -= entry;
        }
        Divided {
            tree,
            wanted: 0..n,
            unit_roundoff,
            is_finite,
            diagonal,
            below,
            factors,
            values: Exchange::new(n),
            order: Exchange::new(n),
            couplings: Exchange::new(n),
            origins: Exchange::new(n),
            offsets: Exchange::new(n),
            weights: Exchange::new(n),
            scales: Exchange::new(n),
            queue: Queue::default(),
            failed: AtomicUsize::new(0),
        }
    }

    /// The same for some columns of Z alone. Others have no meaning then. The last merge, which is
    /// most of the work, makes only these.
    pub fn only(self, wanted: Range<usize>) -> Self {
        Divided { wanted, ..self }
    }

    /// The order of T.
    pub fn order(&self) -> usize {
        self.tree.order()
    }

    /// The rows of Z of a worker; none if there are more workers than leaves.
    pub fn rows(&self, worker: usize) -> Range<usize> {
        self.tree.rows(worker)
    }

    /// Elements of a worker's room.
    pub fn room<R: Scalar>(n: usize) -> usize {
        Pieces::new::<R>(n, Units::of::<R>()).room::<R>()
    }

    /// The eigenvalues, ascending, after the workers have returned from [`solve`].
    pub fn values(&self) -> Vec<f64> {
        let [one, other] = self.factors;
        let mut values = self.values.read(0..self.tree.order());
        values.iter_mut().for_each(|x| *x = *x * one * other);
        values
    }

    /// The relative error of roots that does not matter.
    fn precision(&self) -> f64 {
        (self.unit_roundoff / 16.0).max(f64::EPSILON / 2.0)
    }

    fn fail(&self, count: usize) {
        self.failed.fetch_add(count, Ordering::Relaxed);
    }
}

/// One worker's part of the decomposition. All workers call it with the same `divided`, and `barrier`
/// makes them meet.
///
/// The columns of `z`, contiguous, are the rows of Z. It gives the number of eigenvalues that were not
/// found, to every worker the same. That is n where a number of T is not finite; then Z is not written.
/// Where `is_stopped`, a barrier soon says so.
///
/// # Safety
/// *Order* (see [`crate::matrix::Cells`]): all workers call it, each with its own number, once for one
/// `divided`. All meet in a `barrier` that gives `Ok`. Nobody else accesses these columns. In the end a
/// worker's rows are its own again.
pub unsafe fn solve<R: Scalar>(
    divided: &Divided,
    worker: usize,
    z: &Columns<R>,
    room: &mut [R],
    barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    let sizes = Pieces::new::<R>(divided.tree.order(), Units::of::<R>());
    // SAFETY: the caller's promise.
    unsafe { solve_with(sizes, divided, worker, z, room, barrier, is_stopped) }
}

/// The same, with sizes of products.
///
/// # Safety
/// As above.
pub unsafe fn solve_with<R: Scalar>(
    sizes: Pieces,
    divided: &Divided,
    worker: usize,
    z: &Columns<R>,
    room: &mut [R],
    mut barrier: impl FnMut() -> Step,
    is_stopped: &dyn Fn() -> bool,
) -> Step<usize> {
    let tree = divided.tree;
    if !divided.is_finite || tree.order() == 0 {
        return Ok(tree.order());
    }
    let own = tree.rows(worker);
    // SAFETY: the caller's promise: workers have different rows.
    let mut rows = unsafe { rows_of(z, own.clone()) };
    for leaf in tree.leaves(worker) {
        solve_leaf(divided, tree.part(tree.depth(), leaf), &mut rows, own.start);
    }
    for level in (0..tree.depth()).rev() {
        let is_shared = tree.is_shared(level);
        let mut meet = || if is_shared { barrier() } else { Ok(()) };
        let parts = tree.parts(level, worker);
        for part in parts.clone() {
            let node = tree.node(level, part);
            let couple =
                [(node.middle - 1, node.first..node.middle), (node.middle, node.middle..node.end)];
            for (row, columns) in couple {
                if own.contains(&row) {
                    let row = &rows[row - own.start][columns.clone()];
                    divided.couplings.write(columns, row.iter().map(|x| x.parts().0));
                }
            }
        }
        let is_taken = is_shared && level == 0;
        if is_taken {
            rows.clear();
        }
        meet()?;
        let mut merges: Vec<_> = parts
            .map(|part| {
                Merge::new(divided, tree.node(level, part), tree.share(level, part, worker))
            })
            .collect();
        divided.fail(merges.iter().map(|merge| merge.find_roots(divided)).sum());
        meet()?;
        merges.iter_mut().for_each(|merge| merge.find_weights(divided));
        meet()?;
        merges.iter_mut().for_each(|merge| merge.find_scales(divided));
        meet()?;
        for merge in &mut merges {
            let vectors = merge.finish(divided);
            if !is_taken {
                vectors.update(&mut rows, own.start, (sizes, &mut *room), is_stopped);
                continue;
            }
            let (n, workers) = (tree.order(), tree.workers());
            while let Some(blocks) = divided.queue.take(n.div_ceil(GROUP), 1, workers) {
                let taken = GROUP * blocks.start..n.min(GROUP * blocks.end);
                // SAFETY: the caller's promise: nobody has rows of his own now, and each takes others.
                let mut rows = unsafe { rows_of(z, taken.clone()) };
                vectors.update(&mut rows, taken.start, (sizes, &mut *room), is_stopped);
            }
        }
    }
    barrier()?;
    Ok(divided.failed.load(Ordering::Relaxed))
}

/// Some rows of Z.
///
/// # Safety
/// *Order* (see [`crate::matrix::Cells`]): nobody else accesses these columns while the rows are there.
unsafe fn rows_of<'a, R: Scalar>(z: &Columns<'a, R>, rows: Range<usize>) -> Vec<&'a mut [R]> {
    let columns = z.range(rows.start, rows.end);
    let columns = columns.flat_map(|block| (0..block.cols()).map(move |j| block.column(j)));
    // SAFETY: the caller's promise.
    let all: Vec<_> = columns.map(|c| blas::column_mut(unsafe { c.write() }, 0)).collect();
    assert_eq!(all.len(), rows.len(), "rows of Z");
    all
}

/// Solves a leaf, and writes its rows of Z, which are zero elsewhere.
fn solve_leaf<R: Scalar>(
    divided: &Divided,
    part: Range<usize>,
    rows: &mut [&mut [R]],
    first: usize,
) {
    let m = part.len();
    let below = &divided.below[part.start..part.end - 1];
    let mut leaf = Leaf::new(&divided.diagonal[part.clone()], below);
    divided.fail(leaf.solve());
    for (i, row) in rows[part.start - first..part.end - first].iter_mut().enumerate() {
        row.fill(R::ZERO);
        for (to, from) in row[part.clone()].iter_mut().zip(leaf.vectors[i..].iter().step_by(m)) {
            *to = R::of_parts(*from, 0.0);
        }
    }
    divided.values.write(part.clone(), leaf.values.iter().copied());
    divided.order.write(part, 0..m);
}
