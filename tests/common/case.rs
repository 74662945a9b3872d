//! A routine on shards of every storage, through a call site without XLA.

use faer::Mat;
use meshsolve::call::{Buffer, Call};
use meshsolve::layout::Storage;
use meshsolve::scalar::Scalar;
use meshsolve::sites::CallSite;

use super::{Map, arrive, collect, launch, outcomes};

/// Runs a routine with attributes on the parts of all ranks, in place of the CPU's call sites.
pub type Place = Option<fn(&Map, Vec<Call>)>;

/// One case: the storage of A, the given triangle, the order of columns during the work.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub n: usize,
    pub ranks: usize,
    pub storage: (&'static str, Storage),
    pub lower: bool,
    pub trans: i64,
    pub order: &'static str,
    pub at: Place,
}

impl Case {
    /// Attributes, without those of the right-hand sides.
    pub fn map(&self, routine: &str) -> Map {
        Map::routine(routine, self.ranks)
            .text("storage", self.storage.0)
            .text("order", self.order)
            .int("lower", self.lower.into())
            .int("trans", self.trans)
            .int("tile", 3)
    }

    /// Global (row, column) of A at element (i, j) of a rank's shard.
    fn global(&self, rank: usize, i: usize, j: usize) -> (usize, usize) {
        let local = self.n / self.ranks;
        match self.storage.1 {
            Storage::Rows => (rank * local + i, j),
            _ => (i, rank * local + j),
        }
    }

    /// (address, row, column) of every element of a shard.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let shard = self.storage.1.shard((self.n, self.n / self.ranks));
        let (rows, strides) = (shard.shape().flat()[0], shard.stride().flat());
        let place = move |i, j| (i * strides[0] + j * strides[1], i, j);
        (0..shard.size()).map(move |l| place(l % rows, l / rows))
    }

    pub fn shards<T: Scalar>(&self, a: &Mat<T>) -> Vec<Vec<T>> {
        let shard = |rank| {
            let mut memory = vec![T::NAN; self.n * self.n / self.ranks];
            for (at, i, j) in self.places() {
                memory[at] = a[self.global(rank, i, j)];
            }
            memory
        };
        (0..self.ranks).map(shard).collect()
    }

    pub fn gathered<T: Scalar>(&self, shards: &[Vec<T>]) -> Mat<T> {
        let mut a = Mat::from_fn(self.n, self.n, |_, _| T::NAN);
        for (rank, memory) in shards.iter().enumerate() {
            for (at, i, j) in self.places() {
                a[self.global(rank, i, j)] = memory[at];
            }
        }
        a
    }

    /// Dimensions of A on a rank, and of its factor.
    pub fn dims(&self) -> ([usize; 2], [usize; 2]) {
        let (tall, wide) = ([self.n, self.n / self.ranks], [self.n / self.ranks, self.n]);
        match self.storage.1 {
            Storage::Rows => (wide, wide),
            Storage::Columns => (tall, wide),
            Storage::ColumnMajor => (tall, tall),
        }
    }

    /// Runs the routine: every rank arrives with the operands and results from `part`.
    pub fn run(&self, routine: &str, part: impl FnMut(usize) -> Call) {
        self.run_with(self.map(routine).text("rhs", "replicated"), part);
    }

    /// The same with any attributes.
    pub fn run_with(&self, map: Map, part: impl FnMut(usize) -> Call) {
        run(self.at, &map.only_own(), self.ranks, part);
    }
}

/// Runs a routine whose ranks arrive with the operands and results from `part`.
pub fn run(at: Place, map: &Map, ranks: usize, mut part: impl FnMut(usize) -> Call) {
    run_parts(at, map, ranks, &mut part);
}

/// Compiled once for all callers.
fn run_parts(at: Place, map: &Map, ranks: usize, part: &mut dyn FnMut(usize) -> Call) {
    if let Some(elsewhere) = at {
        return elsewhere(map, (0..ranks).map(part).collect());
    }
    let site = CallSite::new(map).unwrap();
    let run = launch();
    let (to, from) = outcomes();
    for rank in 0..ranks {
        arrive(&site, run, part(rank), &to);
    }
    for (rank, outcome) in collect(&from, ranks) {
        outcome.unwrap_or_else(|e| panic!("{map:?} rank {rank}: {e}"));
    }
}

/// All cases on the CPU's call sites; fewer where every step is slow.
pub fn cases(at: Place) -> impl Iterator<Item = Case> {
    let shapes = [(7, 1), (12, 3), (1, 1), (6, 2), (20, 2), (24, 8)];
    let count = if at.is_some() { 2 } else { shapes.len() };
    shapes.into_iter().take(count).flat_map(move |(n, ranks)| {
        Storage::ALL.into_iter().flat_map(move |storage| {
            [false, true].into_iter().flat_map(move |lower| {
                let orders = ["natural", "cyclic"].into_iter();
                let orders =
                    orders.filter(move |o| at.is_none() || (*o == "cyclic") == (ranks > 1));
                orders.map(move |order| Case { n, ranks, storage, lower, trans: 0, order, at })
            })
        })
    })
}

pub fn call(rank: usize, args: Vec<Buffer>, rets: Vec<Buffer>) -> Call {
    Call::new(rank, rank as i32, args, rets)
}
