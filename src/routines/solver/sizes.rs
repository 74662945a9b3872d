//! What a call will do and need, from its sizes alone: the job works by it, and `meshsolve.plan`
//! prints it before anything runs.

use super::condition;
use super::operands::Problem;
use super::options::{Family, Norm, Options, Rhs, Structure, Verb, tile_width};
use crate::backend::Op;
use crate::backend::host::{lane_count, scratch_elements};
use crate::dispatch;
use crate::dist::{redistribute, transpose_shards};
use crate::layout::{Columns, Layout, Order, Storage};
use crate::scalar::{DType, Scalar};
use crate::settings;
use crate::transpose;

/// Widest group of right-hand sides that one lane takes at a time.
const RHS_GROUP: usize = 192;

/// Rows between columns of a tile column that is kept in scratch: columns of a matrix whose order is a
/// power of two would fall into the same few cache sets.
pub fn panel_rows(n: usize) -> usize {
    n + 16
}

/// What becomes of the caller's memory before the work, or of the solver's after it.
#[derive(Default)]
pub struct Moves {
    /// Columns that change places, where the order of work is not the natural one.
    pub columns: Option<redistribute::Plan>,
    /// The transposition of each shard, where it is needed.
    pub turn: Option<transpose::Plan>,
}

/// The parts of a call.
pub struct Sizes {
    pub columns: Columns,
    pub lanes: usize,
    /// Right-hand sides that a lane takes at a time.
    pub group: usize,
    /// What arranging A moves, and what restoring it does.
    pub arrange: Moves,
    pub restore: Moves,
    /// Elements of scratch of each lane, and of all together.
    pub own: usize,
    pub shared: usize,
    /// Sums of moduli or squares of all lanes, real numbers.
    pub sums: usize,
}

impl Sizes {
    pub fn new<T: Scalar>(options: &Options, problem: &Problem) -> Self {
        let Problem { n, ranks, rhs, dtype } = *problem;
        let Options { verb, storage, .. } = *options;
        // What is only read stays where it is.
        let order = if verb.family.reads_only() { Order::Natural } else { options.order };
        let tile = options.tile.unwrap_or_else(|| tile_width(n, dtype));
        let columns = Columns::new(n, ranks, tile, order);
        let most_lanes = lane_count(ranks, settings::threads());
        // Every lane gets some right-hand sides.
        let group = rhs.div_ceil(most_lanes.div_ceil(ranks)).clamp(1, RHS_GROUP);
        let dealt = verb.solve && options.rhs == Rhs::Columns;
        let groups = if dealt { ranks * rhs.div_ceil(group) } else { 0 };
        let lanes = most_lanes.min(columns.count().max(groups).max(1));

        let cyclic = order == Order::Cyclic && ranks > 1;
        let turns = storage.moves(n, ranks);
        let moves = |is: bool, source: &dyn Fn() -> Vec<usize>, rows, cols| Moves {
            columns: (is && cyclic).then(|| redistribute::Plan::new(&source(), lanes)),
            turn: (is && turns).then(|| transpose::Plan::new(rows, cols, size_of::<T>())),
        };
        let arrange = moves(verb.arrange, &|| columns.source(), n, n / ranks);
        let restore = moves(verb.restore, &|| columns.destination(), n / ranks, n);
        let both = [&arrange, &restore];
        let staging = |m: &Moves| m.columns.as_ref().map_or(0, |c| c.staging_columns() * n);
        let staging = both.map(staging).into_iter().max().unwrap_or(0);
        let turning = |m: &Moves| m.turn.as_ref().map_or(0, transpose::Plan::scratch_bytes);
        let turning = both.map(turning).into_iter().max().unwrap_or(0).div_ceil(size_of::<T>());
        let partial = if verb.solve && !dealt { lanes * n * rhs } else { 0 };
        let widest = columns.widest();
        // A tile column of n rows where inverses are made, and the lane's own tile.
        let panel = if verb.invert { panel_rows(n) * widest } else { 0 };
        let tile = if verb.invert || verb.family.reads_only() { widest * widest } else { 0 };
        let own = scratch_elements::<T>(widest).max(turning).max(tile);
        let turned = |m: &Moves| {
            let shared = |turn| transpose_shards::shared_elements::<T>(turn, ranks);
            m.turn.as_ref().map_or(0, shared)
        };
        let turned = both.map(turned).into_iter().max().unwrap_or(0);
        let estimate = if verb.condition { condition::scratch_elements(n, lanes) } else { 0 };
        let shared = staging.max(partial).max(turned).max(estimate).max(panel);
        let sums = lanes * condition::sums_of_lane(options, n);
        Sizes { columns, lanes, group, arrange, restore, own, shared, sums }
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        self.lanes * self.own + self.shared
    }

    /// Bytes of all scratch.
    pub fn scratch_bytes<T: Scalar>(&self) -> usize {
        self.scratch() * size_of::<T>() + self.sums * size_of::<f64>()
    }
}

/// What `meshsolve.plan` tells of a routine.
pub struct Forecast {
    /// The caller's shard of A, and the solver's of B, as `(row, column)` within the shard.
    pub shard: Layout,
    pub solver_shard: Layout,
    /// Whether B is A^T.
    pub is_transpose: bool,
    /// Whether the triangle that is given has to be mirrored.
    pub mirrors: bool,
    /// Whether the matrix is transposed across the shards.
    pub transposes_across: bool,
    /// Global column to position in natural and in block-cyclic order; none where widths differ.
    pub natural: Option<Layout>,
    pub cyclic: Option<Layout>,
    /// Number of a tile to its place, in block-cyclic order.
    pub tiler: Layout,
    /// Widths of the tiles and how many there are of each.
    pub widths: Vec<(usize, usize)>,
    pub lanes: usize,
    pub transposition: Option<transpose::Plan>,
    pub scratch_bytes: usize,
}

impl Forecast {
    #[allow(clippy::too_many_arguments)] // all that a call site says
    pub fn new(
        verb: &'static Verb,
        n: usize,
        ranks: usize,
        dtype: DType,
        storage: Storage,
        lower: bool,
        rhs: usize,
        dealt: bool,
    ) -> Self {
        let problem = Problem { n, ranks, rhs, dtype };
        let spread = if dealt { Rhs::Columns } else { Rhs::Replicated };
        let order = Order::Natural;
        let (tile, unpadded, op) = (None, None, Op::None);
        let (structure, unit_diagonal) = (Structure::General, false);
        let options = Options {
            verb,
            storage,
            lower,
            structure,
            unit_diagonal,
            op,
            norm: Norm::One,
            rhs: spread,
            order,
            tile,
            unpadded,
            raises: false,
        };
        let sized = dispatch!(dtype, T => {
            let sizes = Sizes::new::<T>(&options, &problem);
            let bytes = sizes.scratch_bytes::<T>();
            (sizes, bytes)
        },
            else => panic!("{} is no dtype of the solvers", dtype.name()));
        let (sizes, scratch_bytes) = sized;
        let dealt_out = Columns::new(n, ranks, sizes.columns.widest().max(1), Order::Cyclic);
        Forecast {
            shard: storage.shard(n, ranks),
            solver_shard: Storage::column_major(n, ranks),
            is_transpose: storage.is_transpose(),
            mirrors: verb.family == Family::Cholesky && storage.mirrors(lower),
            transposes_across: verb.upright && storage.is_transpose(),
            natural: sizes.columns.layout(),
            cyclic: dealt_out.layout(),
            tiler: dealt_out.tiler().clone(),
            widths: sizes.columns.widths(),
            lanes: sizes.lanes,
            scratch_bytes,
            transposition: sizes.arrange.turn.or(sizes.restore.turn),
        }
    }
}
