//! What `meshsolve.plan` tells of a routine before anything runs.

use super::operands::Problem;
use super::options::{EngineName, Norm, Options, Rhs, Structure};
use super::processes;
use super::routine::SolverRoutine;
use super::sizes::{Machine, Sizes};
use crate::algorithms::eigen::Function;
use crate::device::Op;
use crate::dispatch;
use crate::layout::{Column, Grid, Layout, Mapping, Partition, Storage};
use crate::scalar::DType;
use crate::transpose;

/// The forecast of a routine for `meshsolve.plan`.
pub struct Forecast {
    /// The caller's shard of A, and the solver's of B, as `(row, column)` within the shard.
    pub shard: Layout,
    pub solver_shard: Layout,
    /// Whether B is A^T.
    pub is_transpose: bool,
    /// Whether the given triangle has to be mirrored.
    pub mirrors: bool,
    /// Whether the matrix is transposed across the shards.
    pub transposes_across: bool,
    /// Global column to position in the block and in the block-cyclic mapping; `None` where
    /// widths differ.
    pub block: Option<Layout>,
    pub block_cyclic: Option<Layout>,
    /// Index of a tile to its place in the block-cyclic mapping.
    pub tiler: Layout,
    /// Widths of the tiles and the number of tiles of each width.
    pub widths: Vec<(usize, usize)>,
    pub workers: usize,
    pub transposition: Option<transpose::Plan>,
    pub scratch_bytes: usize,
}

/// The options of a call site with default attributes.
pub fn plain(routine: &'static SolverRoutine, storage: Storage, lower: bool, rhs: Rhs) -> Options {
    Options {
        routine,
        storage,
        lower,
        structure: Structure::General,
        unit_diagonal: false,
        op: Op::None,
        norm: Norm::One,
        function: Function::Sqrt,
        vectors: None,
        rhs,
        mapping: None,
        tile: None,
        engine: EngineName::Native,
        unpadded: None,
        grid_rows: None,
        raises: false,
        alone: false,
    }
}

/// What `Forecast` is asked about.
#[derive(Clone, Copy)]
pub struct Asked {
    pub routine: &'static SolverRoutine,
    /// Rows and columns of A.
    pub shape: (usize, usize),
    pub ranks: usize,
    pub dtype: DType,
    /// How A is sharded.
    pub storage: Storage,
    pub lower: bool,
    /// Right-hand sides: those of each rank if they are `distributed`, else of all.
    pub rhs: usize,
    pub distributed: bool,
    /// The processes that share A, each with as many ranks.
    pub processes: usize,
    /// Whether A has one triangle alone.
    pub is_mirrored: bool,
}

impl Asked {
    /// Rows and columns of B, which is A^T by rows.
    fn solved(&self) -> (usize, usize) {
        let (m, n) = self.shape;
        if self.storage.is_transpose() { (n, m) } else { (m, n) }
    }

    fn options(&self) -> Options {
        let rhs = if self.distributed { Rhs::Columns } else { Rhs::Replicated };
        let structure = if self.is_mirrored { Structure::Hermitian } else { Structure::General };
        Options { structure, ..plain(self.routine, self.storage, self.lower, rhs) }
    }
}

impl Forecast {
    pub fn new(asked: &Asked) -> Self {
        let Asked { dtype, ranks, .. } = *asked;
        let (m, n) = asked.solved();
        let problem = Problem { m, n, grid: Grid::new(1, ranks), rhs: asked.rhs, dtype };
        let options = asked.options();
        if asked.processes > 1 {
            let devices = ranks / asked.processes;
            let problem = problem.of_processes(options.rhs, devices);
            return Forecast::over_processes(asked, &options, &problem);
        }
        let sized = dispatch!(dtype, T => {
            let sizes = Sizes::new(&options, &problem, &Machine::host::<T>(&options, &problem));
            let bytes = sizes.scratch_bytes::<T>();
            (sizes, bytes)
        },
            else => panic!("{} is no dtype of the solvers", dtype.name()));
        let (sizes, scratch_bytes) = sized;
        let of_columns = Forecast::of_columns(asked, sizes.columns(), sizes.distribution.shard());
        Forecast {
            workers: sizes.workers,
            scratch_bytes,
            transposition: sizes.arrange.turn.or(sizes.restore.turn),
            ..of_columns
        }
    }

    /// The part of one of several processes. ScaLAPACK's own memory is not in it.
    fn over_processes(asked: &Asked, options: &Options, problem: &Problem) -> Self {
        let &Problem { m, n, dtype, .. } = problem;
        let (order, workers, scratch_bytes) = dispatch!(dtype, T => {
            let sizes = processes::Sizes::new::<T>(options, problem);
            (sizes.order, sizes.threads(options), sizes.scratch_bytes::<T>())
        },
            else => panic!("{} is no dtype of the solvers", dtype.name()));
        let columns = Partition::<Column>::new(n, order.ranks, order.width, Mapping::Block);
        Forecast {
            workers,
            scratch_bytes,
            ..Forecast::of_columns(asked, &columns, (m, n / order.ranks))
        }
    }

    /// What follows from the columns of B and the shard of a rank.
    fn of_columns(asked: &Asked, columns: &Partition<Column>, shard: (usize, usize)) -> Self {
        let Asked { routine, storage, ranks, processes, .. } = *asked;
        let (m, n) = asked.solved();
        let (owners, widest) = (ranks.min(columns.ranks()), columns.widest().max(1));
        let cyclic = Partition::<Column>::new(n, owners, widest, Mapping::BlockCyclic);
        let of_caller = if processes > 1 { (m, n / ranks) } else { shard };
        Forecast {
            shard: storage.shard(of_caller),
            solver_shard: Storage::column_major(shard),
            is_transpose: storage.is_transpose(),
            mirrors: routine.family.reads_lower_half() && storage.mirrors(asked.lower),
            transposes_across: routine.upright && storage.is_transpose(),
            block: columns.layout(),
            block_cyclic: cyclic.layout(),
            tiler: cyclic.tiler().clone(),
            widths: columns.widths(),
            workers: 1,
            scratch_bytes: 0,
            transposition: None,
        }
    }
}
