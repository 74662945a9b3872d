//! What a call will do and need, from its sizes alone: the job works by it, and `meshsolve.plan`
//! prints it before anything runs.

use super::condition;
use super::operands::Problem;
use super::options::{Family, Options, Rhs, Structure, Verb, tile_width};
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

/// The parts of a call.
pub struct Sizes {
    pub columns: Columns,
    pub lanes: usize,
    /// Right-hand sides that a lane takes at a time.
    pub group: usize,
    /// Columns that change places, where the order of work is not the natural one.
    pub moves: Option<redistribute::Plan>,
    /// The transposition of each shard, where it is needed.
    pub turn: Option<transpose::Plan>,
    /// Elements of scratch of each lane, and of all together.
    pub own: usize,
    pub shared: usize,
    /// Sums of rows, real numbers.
    pub row_sums: usize,
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
        let forth = || redistribute::Plan::new(&columns.source(), lanes);
        let back = || redistribute::Plan::new(&columns.destination(), lanes);
        let moves = if cyclic && verb.arrange {
            Some(forth())
        } else {
            (cyclic && verb.restore).then(back)
        };
        let turns = storage.moves(n, ranks);
        let turn = |rows, cols| transpose::Plan::new(rows, cols, size_of::<T>());
        let turn = if turns && verb.arrange {
            Some(turn(n, n / ranks))
        } else {
            (turns && verb.restore).then(|| turn(n / ranks, n))
        };
        let staging = moves.as_ref().map_or(0, |m| m.staging_columns() * n);
        let sums = if verb.solve && !dealt { lanes * n * rhs } else { 0 };
        let turning = turn.as_ref().map_or(0, |t| t.scratch_bytes().div_ceil(size_of::<T>()));
        let tile = if verb.family.reads_only() { columns.widest().pow(2) } else { 0 };
        let own = scratch_elements::<T>(columns.widest()).max(turning).max(tile);
        let turned = |t| transpose_shards::shared_elements::<T>(t, ranks);
        let turned = turn.as_ref().map_or(0, turned);
        let estimate = if verb.condition { condition::scratch_elements(n, lanes) } else { 0 };
        let shared = staging.max(sums).max(turned).max(estimate);
        let row_sums = if condition::needs_row_sums(options) { n * lanes } else { 0 };
        Sizes { columns, lanes, group, moves, turn, own, shared, row_sums }
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        self.lanes * self.own + self.shared
    }

    /// Bytes of all scratch.
    pub fn scratch_bytes<T: Scalar>(&self) -> usize {
        self.scratch() * size_of::<T>() + self.row_sums * size_of::<f64>()
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
            rhs: spread,
            order,
            tile,
            unpadded,
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
            transposition: sizes.turn,
        }
    }
}
