//! One worker's part of a merge: a node of the tree, whose children are done.

use std::ops::Range;

use super::Divided;
use super::deflation::{Deflated, Side, deflate};
use super::secular::Secular;
use super::tree::{Node, Share};
use super::update::{Active, Pieces, Rows, Update};
use super::vectors::{Poles, Roots, fast};
use crate::scalar::Scalar;

/// A node, and what all its workers know of it.
pub struct Merge {
    node: Node,
    share: Share,
    rho: f64,
    deflated: Deflated,
    /// Eigenvalues, of columns of Q that are deflated.
    values: Vec<f64>,
    origins: Vec<f64>,
    offsets: Vec<f64>,
    weights: Vec<f64>,
}

impl Merge {
    /// Reads what the children have left, and deflates.
    pub fn new(divided: &Divided, node: Node, share: Share) -> Self {
        let entry = divided.below[node.middle - 1];
        let mut values = divided.values.read(node.rows());
        let mut z = divided.couplings.read(node.rows());
        let middle = node.middle - node.first;
        // So |z| is 1.
        let (left, right) = z.split_at_mut(middle);
        left.iter_mut().for_each(|x| *x *= 0.5f64.sqrt());
        right.iter_mut().for_each(|x| *x *= 0.5f64.sqrt().copysign(entry));
        let rho = 2.0 * entry.abs();
        let order = divided.order.read(node.rows());
        let order = merged(&values, &order, middle);
        let deflated = deflate(&mut values, z, rho, &order, middle, divided.unit_roundoff);
        let (origins, offsets, weights) = (Vec::new(), Vec::new(), Vec::new());
        Merge { node, share, rho, deflated, values, origins, offsets, weights }
    }

    /// The places of this node's poles, or of the worker's part of them.
    fn places(&self, part: Range<usize>) -> Range<usize> {
        self.node.first + part.start..self.node.first + part.end
    }

    fn own(&self) -> Range<usize> {
        self.share.of(self.deflated.poles.len())
    }

    fn all(&self) -> Range<usize> {
        self.places(0..self.deflated.poles.len())
    }

    /// Finds this worker's roots. It gives the number of those that it did not find.
    pub fn find_roots(&self, divided: &Divided) -> usize {
        let squares: Vec<_> = self.deflated.z.iter().map(|z| z * z).collect();
        let secular = Secular {
            poles: Poles(&self.deflated.poles),
            squares: &squares,
            rho: self.rho,
            precision: divided.precision(),
        };
        let own = self.own();
        let mut roots = Vec::with_capacity(own.len());
        fast(
            #[inline(always)]
            || {
                for j in own.clone() {
                    roots.push(secular.root(j));
                }
            },
        );
        let part = |part: fn(&super::secular::Root) -> f64| roots.iter().map(part);
        divided.origins.write(self.places(own.clone()), part(|root| root.origin));
        divided.offsets.write(self.places(own), part(|root| root.offset));
        roots.iter().filter(|root| !root.converged).count()
    }

    /// Finds this worker's entries of the vector for which the roots are exact.
    pub fn find_weights(&mut self, divided: &Divided) {
        self.origins = divided.origins.read(self.all());
        self.offsets = divided.offsets.read(self.all());
        let poles = Poles(&self.deflated.poles);
        let own = self.own();
        let mut weights = vec![0.0; own.len()];
        fast(
            #[inline(always)]
            || {
                for (weight, i) in weights.iter_mut().zip(own.clone()) {
                    *weight = poles.weight(i, &self.origins, &self.offsets);
                }
            },
        );
        let z = &self.deflated.z[own.clone()];
        let weights = weights.iter().zip(z).map(|(weight, &z)| weight.copysign(z));
        divided.weights.write(self.places(own), weights);
    }

    /// Finds the scales of this worker's eigenvectors.
    pub fn find_scales(&mut self, divided: &Divided) {
        self.weights = divided.weights.read(self.all());
        let squares: Vec<_> = self.weights.iter().map(|x| x * x).collect();
        let poles = Poles(&self.deflated.poles);
        let own = self.own();
        let mut scales = vec![0.0; own.len()];
        fast(
            #[inline(always)]
            || {
                for (scale, j) in scales.iter_mut().zip(own.clone()) {
                    *scale = poles.scale(&squares, self.origins[j], self.offsets[j]);
                }
            },
        );
        divided.scales.write(self.places(own), scales.into_iter());
    }

    /// The eigenvalues are known now, and how rows of Z change.
    pub fn finish<'m>(&'m mut self, divided: &'m Divided) -> Vectors<'m> {
        let scales = divided.scales.read(self.all());
        // Roots take the columns of poles, in ascending order. So what is next to each other among
        // the roots is so in memory.
        let mut targets = self.deflated.columns.clone();
        targets.sort_unstable();
        for (i, &column) in targets.iter().enumerate() {
            self.values[column] = self.origins[i] + self.offsets[i];
        }
        let is_root = self.node.rows() == (0..divided.tree.order());
        let mut order: Vec<_> = (0..self.values.len()).collect();
        order.sort_by(|&a, &b| self.values[a].total_cmp(&self.values[b]).then(a.cmp(&b)));
        if is_root {
            // The last merge puts the columns of Z in order.
            let mut places = vec![0; order.len()];
            for (place, &column) in order.iter().enumerate() {
                places[column] = place;
            }
            targets.iter_mut().for_each(|column| *column = places[*column]);
        }
        // Places of roots ascend, as roots do.
        let chosen = match is_root {
            true => {
                let before = |end: usize| targets.partition_point(|&place| place < end);
                before(divided.wanted.start)..before(divided.wanted.end)
            }
            false => 0..targets.len(),
        };
        if self.share.is_first() {
            if is_root {
                self.values.sort_by(f64::total_cmp);
            }
            divided.values.write(self.node.rows(), self.values.iter().copied());
            divided.order.write(self.node.rows(), order.iter().copied());
        }
        Vectors { merge: self, scales, targets, chosen, order: is_root.then_some(order) }
    }

    /// Poles for the rows of a child, where the other one has side `other`.
    fn active(&self, other: Side) -> Active {
        let indices = self.deflated.poles_without(other);
        let pick = |from: &[f64]| indices.iter().map(|&i| from[i]).collect();
        Active {
            other,
            columns: indices.iter().map(|&i| self.deflated.columns[i]).collect(),
            poles: pick(&self.deflated.poles),
            weights: pick(&self.weights),
        }
    }
}

/// The eigenvectors of a merge.
pub struct Vectors<'m> {
    merge: &'m Merge,
    scales: Vec<f64>,
    /// Where those of roots go, and which of them are wanted.
    targets: Vec<usize>,
    chosen: Range<usize>,
    /// Where other columns go in the last merge.
    order: Option<Vec<usize>>,
}

impl Vectors<'_> {
    /// Updates rows of Z, which begin with row `first` of Z. Others than those of the node stay.
    pub fn update<R: Scalar>(
        &self,
        rows: Rows<R>,
        first: usize,
        (pieces, room): (Pieces, &mut [R]),
        is_stopped: &dyn Fn() -> bool,
    ) {
        let Vectors { merge, chosen, .. } = self;
        let node = merge.node;
        let update = Update {
            rotations: &merge.deflated.rotations,
            roots: Roots { origins: &merge.origins, offsets: &merge.offsets, scales: &self.scales },
            targets: &self.targets,
            chosen: chosen.clone(),
            order: self.order.as_deref(),
            is_stopped,
        };
        let (mut rest, mut at) = (rows, first);
        for (other, end) in [(Side::Right, node.middle), (Side::Left, node.end)] {
            let before = (node.first.max(at) - at).min(rest.len());
            let (_, after) = std::mem::take(&mut rest).split_at_mut(before);
            at += before;
            let (own, after) = after.split_at_mut((end.max(at) - at).min(after.len()));
            at += own.len();
            rest = after;
            if !own.is_empty() {
                update.run(&merge.active(other), own, node.rows(), pieces, room);
            }
        }
    }
}

/// The columns by ascending values, from those of each child.
fn merged(values: &[f64], order: &[usize], middle: usize) -> Vec<usize> {
    let (left, right) = order.split_at(middle);
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().peekable());
    let mut merged = Vec::with_capacity(order.len());
    while let (Some(&l), Some(&&r)) = (left.peek(), right.peek()) {
        if values[l] <= values[r + middle] {
            merged.extend(left.next());
        } else {
            merged.extend(right.next().map(|r| r + middle));
        }
    }
    merged.extend(left);
    merged.extend(right.map(|r| r + middle));
    merged
}
