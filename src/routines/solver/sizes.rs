//! The steps and needs of a call, from its sizes alone. The job follows them, and `forecast` has them
//! for `meshsolve.plan`.

use super::eigenvectors_scratch::Parts;
use super::operands::Problem;
use super::options::{Norm, Options, Rhs, cpu_tile_width};
use super::routine::{Extents, Family, SolverRoutine, Stage};
use super::stack;
use crate::algorithms::redistribute::Redistribution;
use crate::device::cpu::{back, one_stage, scratch_elements, shared_elements, worker_count};
use crate::dispatch;
use crate::layout::{Column, Distribution, Mapping, Partition};
use crate::scalar::Scalar;
use crate::settings;
use crate::transpose;

/// The widest group of right-hand sides that one worker takes at a time.
const RHS_GROUP: usize = 192;

/// The same where a worker copies the group to scratch. All copies take this part of the matrix, with
/// these bounds for each.
const SHARE_OF_GROUPS: usize = 16;
const LEAST_GROUP: usize = 8;
const MOST_GROUP: usize = 32;

/// Work in multiplications of float64. Up to this, one thread finishes before others have woken up.
/// It is the work of a factorisation with n = 512 (docs/design/adr/0003-one-thread-for-little-work.md).
const SEQUENTIAL_WORK: f64 = (512 * 512 * 512) as f64;

/// Threads for a call on CPU devices: all of them, unless the work is small and you have not set a
/// number.
fn threads<T: Scalar>(options: &Options, problem: &Problem) -> usize {
    let asked = settings::threads_asked_for().or(options.tile.map(|_| settings::threads()));
    let Problem { m, n, rhs, .. } = *problem;
    let columns = if options.rhs == Rhs::Columns { problem.ranks() * rhs } else { rhs };
    // Complex numbers take four real multiplications, narrow ones half the time.
    let weight = size_of::<T>() as f64 / 8.0 * if T::IS_COMPLEX { 2.0 } else { 1.0 };
    // Eigenvalues take more than a factorisation. By measurements two threads pay from n = 200 on, and from
    // 130 on for eigenvectors.
    let weight = weight
        * match options.routine.family {
            Family::Eigen if options.routine.has(Stage::TransformBack) => 64.0,
            Family::Eigen => 16.0,
            _ => 1.0,
        };
    let work = weight * (m * n) as f64 * m.min(n).max(columns) as f64;
    asked.unwrap_or(if work <= SEQUENTIAL_WORK { 1 } else { settings::threads() })
}

/// The width of the tile columns, and so of the band, on the way to eigenvalues. With twice as much the
/// products are faster, and the sweeps take twice as long. For eigenvectors products with the reflectors
/// of sweeps do less work with a wider band. The widths come from measurements.
pub(super) fn band_width(routine: &SolverRoutine, n: usize) -> usize {
    match n {
        0..512 => 32,
        512..768 if routine.has(Stage::TransformBack) => 32,
        1536.. if routine.has(Stage::TransformBack) => 96,
        _ => 64,
    }
}

/// Bytes of a matrix, times workers, that becomes tridiagonal without a band between: for eigenvalues, and
/// with eigenvectors, which go back through one stage less. Half of the matrix is read for each column, by
/// workers that share caches and memory, and all the work for a band is shared.
const BYTES_IN_ONE_STAGE: [usize; 2] = [64 << 20, 192 << 20];

/// The same as an order, for more workers than can share that work.
const ORDER_IN_ONE_STAGE: usize = 512;

/// Whether workers that share memory need no band. If you choose the width of the tiles, it is that of a
/// band.
pub fn has_one_stage(options: &Options, problem: &Problem, workers: usize) -> bool {
    let Problem { n, dtype, .. } = *problem;
    let goes_back = options.routine.has(Stage::TransformBack);
    let is_small = match workers <= one_stage::WORKERS {
        true => n * n * dtype.size() * workers <= BYTES_IN_ONE_STAGE[usize::from(goes_back)],
        false => n <= ORDER_IN_ONE_STAGE,
    };
    is_small && options.routine.has(Stage::ToBand) && options.tile.is_none()
}

/// The width of the tile columns in one stage. Wider panels have more to subtract from each column, and
/// faster products. The widths come from measurements.
fn one_stage_width(n: usize) -> usize {
    match n {
        0..384 => 16,
        384..1536 => 32,
        _ => 48,
    }
}

/// Widths of bands are multiples of this: otherwise columns in sweeps end within a vector.
const BAND_UNIT: usize = 16;

/// Widths of panels of reflectors are multiples of this: products with V^H have as many rows, and the
/// kernel takes up to 48 of them at a time.
const REFLECTOR_UNIT: usize = 48;

/// The width of the tile columns of QR. The widths come from measurements.
fn reflector_width(n: usize) -> usize {
    REFLECTOR_UNIT * (1 + n / 3072).min(3)
}

/// A worker that reduces rows packs what it applies reflectors with, and no tile columns of A: its scratch
/// for packing is that for so many tiles of this width.
const REDUCTION_TILES: usize = 8;
const REDUCTION_WIDTH: usize = 32;

/// Whole columns of a matrix in tiles of at most `tile` columns, for routines of a family.
pub(super) fn whole_columns(
    family: Family,
    (m, n): (usize, usize),
    ranks: usize,
    tile: usize,
    mapping: Mapping,
) -> Distribution {
    let unit = match family {
        Family::Eigen => BAND_UNIT,
        Family::Qr => REFLECTOR_UNIT,
        _ => 1,
    };
    Distribution::of_columns(m, Partition::in_units(n, ranks, tile, unit, mapping), tile)
}

/// The workers' packed tiles take at most this part of the matrix in total, plus one tile for each
/// worker.
const PACKED_SHARE: usize = 90;

/// Sizes depend on this in addition to the problem.
pub struct Machine {
    /// The most workers for the ranks of the call, if there is work for them.
    pub workers: usize,
    /// The fewest workers.
    pub least: usize,
    /// Whether a worker is a rank, with memory of its own.
    pub is_rank: bool,
    /// The mapping of columns to ranks if you request none.
    pub mapping: Mapping,
    pub tile: usize,
    /// Whether a Hermitian A becomes tridiagonal without a band between.
    pub one_stage: bool,
    /// Elements of scratch that a worker needs for itself, from the width and the number of its
    /// tiles.
    pub own: fn(usize, usize) -> usize,
    /// The plan for transposing shards, from their rows and columns. `turning` gives the elements
    /// of its scratch: each worker's own, and those shared for that number of shards.
    pub turn: fn(usize, usize) -> transpose::Plan,
    pub turning: fn(&transpose::Plan, usize) -> (usize, usize),
    /// Whether a vendor's engine performs a stage of the routine.
    pub is_vendors: fn(&Options, Stage) -> bool,
}

impl Machine {
    /// Every CPU worker reaches every shard. Block-cyclic columns gain nothing there and cost a
    /// pass over the matrix (docs/design/adr/0001-block-distribution-on-cpu-devices.md).
    pub fn host<T: Scalar>(options: &Options, problem: &Problem) -> Self {
        let workers = worker_count(problem.ranks(), threads::<T>(options, problem));
        // Inverses keep a tile column in scratch. A factor keeps block-cyclic columns, which other
        // routines and other numbers of threads have to read.
        let narrow = options.routine.inverts() || options.mapping == Some(Mapping::BlockCyclic);
        let sharers = if narrow { problem.n.max(1) } else { workers };
        // Workers without a core would wait in every column.
        let one_stage = workers <= settings::cores() && has_one_stage(options, problem, workers);
        Machine {
            workers,
            least: 1,
            is_rank: false,
            one_stage,
            mapping: Mapping::Block,
            tile: match options.routine.family {
                Family::Eigen if one_stage => one_stage_width(problem.n),
                Family::Eigen => band_width(options.routine, problem.n),
                Family::Qr => reflector_width(problem.n),
                _ => cpu_tile_width(problem.n, problem.dtype, sharers),
            },
            own: scratch_elements::<T>,
            turn: |rows, cols| transpose::Plan::new(rows, cols, size_of::<T>()),
            turning: |plan, shards| {
                let own = plan.scratch_bytes().div_ceil(size_of::<T>());
                (own, shared_elements::<T>(plan, shards))
            },
            is_vendors: |_, _| false,
        }
    }
}

/// Moves of the caller's memory before the work, or of the solver's after it.
#[derive(Default)]
pub struct Moves {
    /// The moves of columns and of rows, where the work uses the block-cyclic mapping.
    pub columns: Option<Redistribution>,
    pub rows: Option<Redistribution>,
    /// The transposition of each shard, where it is needed.
    pub turn: Option<transpose::Plan>,
}

impl Moves {
    /// Elements of scratch of each worker for lines of shards of m x n.
    fn staging(&self, (m, n): (usize, usize)) -> usize {
        let lines =
            |moves: &Option<Redistribution>| moves.as_ref().map_or(0, |r| r.staging_lines());
        (lines(&self.columns) * m).max(lines(&self.rows) * n)
    }
}

/// The number of sums of each worker. norm1(A) needs sums over rows of B where these are A's
/// columns, as for A^T. It also needs them for the part of a column that is not given, as with one
/// triangle.
fn sums_of_worker(options: &Options, problem: &Problem) -> usize {
    let Options { routine, storage, norm, .. } = options;
    let of_transpose = storage.is_transpose() && !routine.upright;
    match routine.has(Stage::AnyNorm) {
        true if *norm == Norm::Frobenius => 0,
        true if options.sums_columns() => problem.n,
        true => problem.m,
        false if routine.has(Stage::HermitianNorm) || routine.has(Stage::ToBand) => problem.m,
        false if routine.has(Stage::TriangleNorm) => problem.n,
        false if routine.has(Stage::Norm) && of_transpose => problem.m,
        false => 0,
    }
}

pub struct Sizes {
    pub distribution: Distribution,
    pub workers: usize,
    /// Whether a worker is a rank, with memory of its own.
    pub is_rank: bool,
    /// Whether A becomes tridiagonal without a band between.
    pub one_stage: bool,
    /// Whether this library transforms eigenvectors back in the call.
    pub goes_back: bool,
    /// Right-hand sides that a worker takes at a time.
    pub group: usize,
    /// The moves of arranging A and of restoring it.
    pub arrange: Moves,
    pub restore: Moves,
    /// Elements of scratch of each worker, and of that which the phases use in turn: for all workers,
    /// or on each rank.
    pub own: usize,
    pub shared: usize,
    /// The width of the tiles that a worker packs.
    pub packed: usize,
    /// Sums of moduli or squares of each worker, as real numbers.
    pub sums: usize,
    /// Row interchanges that are neither operand nor result.
    pub pivots: usize,
}

impl Sizes {
    pub fn new(options: &Options, problem: &Problem, machine: &Machine) -> Self {
        let (Problem { m, n, grid, rhs, dtype }, ranks) = (*problem, problem.ranks());
        let Options { routine, storage, .. } = *options;
        // A matrix that is only read stays in place.
        let asked = options.mapping.unwrap_or(machine.mapping);
        let mapping = if routine.family.keeps_columns() { Mapping::Block } else { asked };
        let is_vendors = |stage| routine.has(stage) && (machine.is_vendors)(options, stage);
        let goes_back = routine.has(Stage::TransformBack) && !is_vendors(Stage::TransformBack);
        let widest = if goes_back { back::WIDEST } else { usize::MAX };
        let tile = options.tile.unwrap_or(machine.tile).min(widest);
        let distribution = match grid.rows() {
            1 => whole_columns(routine.family, (m, n), ranks, tile, mapping),
            _ => Distribution::new((m, n), (tile, tile), grid, mapping),
        };
        let columns = distribution.columns();
        let most_workers = machine.workers;
        // Every worker gets some right-hand sides.
        let widest_group = if routine.copies_groups() && !machine.is_rank {
            (n / (SHARE_OF_GROUPS * most_workers)).clamp(LEAST_GROUP, MOST_GROUP)
        } else {
            RHS_GROUP
        };
        let group = rhs.div_ceil(most_workers.div_ceil(ranks)).clamp(1, widest_group);
        let distributed = options.rhs == Rhs::Columns;
        let groups = if distributed { ranks * rhs.div_ceil(group) } else { 0 };
        // Where a worker is a rank, all ranks take part.
        let is_rank = machine.is_rank;
        let reduces = routine.run.iter().any(|stage| stage.reduces_rows()) && !is_rank;
        let parts = match routine.family {
            _ if reduces => stack::most_workers(m.max(n), m.min(n), rhs, dtype.size()),
            // Each worker gets more rows than its triangle has.
            Family::Tsqr => m.max(n) / (2 * m.min(n).max(1)),
            _ => columns.count(),
        };
        let one_stage = machine.one_stage;
        let most_workers =
            if one_stage { most_workers.min(one_stage::WORKERS) } else { most_workers };
        let workers = most_workers.min(parts.max(groups).max(machine.least).max(1));

        let is_cyclic = mapping == Mapping::BlockCyclic;
        let shard = distribution.shard();
        let turns = storage.moves(shard);
        let moves = |is: bool, [of_columns, of_rows]: [&dyn Fn() -> Vec<usize>; 2], rows, cols| {
            let moved = |is: bool, order: &dyn Fn() -> Vec<usize>| {
                is.then(|| Redistribution::new(&order(), workers))
            };
            Moves {
                columns: moved(is && is_cyclic && grid.columns() > 1, of_columns),
                rows: moved(is && is_cyclic && grid.rows() > 1, of_rows),
                turn: (is && turns).then(|| (machine.turn)(rows, cols)),
            }
        };
        let rows = distribution.rows();
        let there: [&dyn Fn() -> _; 2] = [&|| columns.source(), &|| rows.source()];
        let back: [&dyn Fn() -> _; 2] = [&|| columns.destination(), &|| rows.destination()];
        let arrange = moves(routine.has(Stage::Arrange), there, shard.0, shard.1);
        let restore = moves(routine.has(Stage::Restore), back, shard.1, shard.0);
        let both = [&arrange, &restore];
        let staging = both.map(|moves| moves.staging(shard)).into_iter().max().unwrap_or(0);
        let turning =
            |m: &Moves| m.turn.as_ref().map_or((0, 0), |turn| (machine.turning)(turn, ranks));
        let [before, after] = both.map(turning);
        let (turning, turned) = (before.0.max(after.0), before.1.max(after.1));
        let widest = columns.widest();
        // The limit on packed tiles: many workers then take no more than some hundredths of A.
        let most = (m * n / PACKED_SHARE).div_ceil(workers * (widest * widest).max(1));
        // An update by a pair of factors has a tile of each.
        let least = if routine.has(Stage::ToBand) { 2 } else { 0 };
        let tiles = columns.count().div_ceil(workers).min(most).max(least);
        let (packed, tiles) =
            if reduces { (REDUCTION_WIDTH, REDUCTION_TILES) } else { (widest, tiles) };
        let own = (machine.own)(packed, tiles).max(turning);
        let kept = if goes_back { columns.count() } else { 0 };
        // Ranks do that in memory of the host.
        let vectors = if goes_back && !is_rank {
            let all = dispatch!(dtype, T => Parts::of::<T>(n, widest),
                else => panic!("{} is no dtype of the solvers", dtype.name()));
            all.elements(workers).saturating_sub(workers * own)
        } else {
            0
        };
        let extents = Extents {
            m,
            n,
            ranks,
            workers,
            rhs,
            group,
            distributed,
            widest,
            size: dtype.size(),
            is_rank,
            kept,
            one_stage,
            vectors,
        };
        // What each stage needs once in a memory, and for each worker there.
        let of_stages = routine.run.iter().map(|&stage| match stage {
            Stage::ToBand if is_vendors(stage) => [0, widest * widest],
            Stage::Divide | Stage::TransformBack if is_vendors(stage) => [0, 0],
            _ => stage.scratch(&extents),
        });
        let uses = of_stages.chain([[0, staging], [turned, 0]]);
        let together = if is_rank { 1 } else { workers };
        let shared = uses.map(|[once, each]| once + together * each).max().unwrap_or(0);
        let sums = sums_of_worker(options, problem);
        let pivots = if routine.family == Family::Lu { n } else { 0 };
        Sizes {
            distribution,
            workers,
            is_rank,
            one_stage,
            goes_back,
            group,
            arrange,
            restore,
            own,
            shared,
            packed,
            sums,
            pivots,
        }
    }

    /// How the columns are cut.
    pub fn columns(&self) -> &Partition<Column> {
        self.distribution.columns()
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        self.workers * self.own + self.shared * if self.is_rank { self.workers } else { 1 }
    }

    /// Bytes of all scratch.
    pub fn scratch_bytes<T: Scalar>(&self) -> usize {
        self.scratch() * size_of::<T>() + self.workers * self.sums * size_of::<f64>()
    }
}
