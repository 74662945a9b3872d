//! The requests of a call to a vendor's solver of whole matrices on CUDA devices, and the errors
//! where that refuses them.

use std::sync::Arc;

use super::operands::Problem;
use super::options::{Engine, Family, Options, Rhs};
use super::sizes::Sizes;
use crate::call::Call;
use crate::device::cuda::engine::{self, Asked};
use crate::device::cuda::handle::Address;
use crate::error::{Error, Result};
use crate::layout::Mapping;
use crate::routines::Part;
use crate::scalar::Scalar;

/// The vendor's solver of whole matrices, if the routine uses it; all ranks meet for it.
pub(super) fn enlist<T: Scalar>(
    options: &Options,
    problem: &Problem,
    part: &mut Part,
    call: &Call,
) -> Result<Option<Arc<engine::CusolverMg>>> {
    let Options { verb, engine, .. } = *options;
    let asked = options.asked(problem);
    if engine == Engine::Own || verb.family.reads_only() {
        return Ok(None);
    }
    if options.mapping == Some(Mapping::Block) && problem.ranks() > 1 {
        return Err(Error::invalid(format!(
            "meshsolve.{}: attribute `order`: expected \"auto\" or \"cyclic\" with engine \
             \"cusolvermg\", got \"natural\"; leave it out, or leave engine=None",
            verb.name
        )));
    }
    let widest = options.widest_of_engine();
    if options.tile.is_none()
        && engine::cusolvermg_tile_width(problem.n, problem.ranks(), widest).is_err()
    {
        return Err(options.no_width(problem));
    }
    let sizes = Sizes::on_cuda::<T>(options, problem, part.device());
    let columns = sizes.columns();
    let tile = columns.widest();
    if columns.each().any(|t| columns.tile(t).width != tile) {
        return Err(options.no_width(problem));
    }
    if tile > widest {
        return Err(Error::invalid(format!(
            "meshsolve.{}: attribute `tile`: expected at most {widest} with engine \"cusolvermg\", got \
             {tile}; leave it out",
            verb.name
        )));
    }
    if asked.is_nothing() || problem.n == 0 {
        return Ok(None);
    }
    let member = engine::Member { device: part.device().clone(), shard: shard(call) };
    let n = problem.n;
    let make = |members| engine::CusolverMg::new::<T>(members, n, tile, asked).map(Arc::new);
    part.gather(member, make).map(Some)
}

/// An address in the rank's matrices, to query sizes.
pub(super) fn shard(call: &Call) -> Address {
    let matrices = call.rets.iter().chain(&call.args);
    matrices.map(|b| b.as_ptr().addr() as Address).next().unwrap_or_default()
}

/// The widest tile column that the vendor's solver accepts for routines of a family.
pub fn widest(family: Family) -> usize {
    match family {
        Family::Lu => engine::WIDEST_OF_LU,
        _ => engine::WIDEST,
    }
}

impl Options {
    pub(super) fn widest_of_engine(&self) -> usize {
        widest(self.verb.family)
    }

    /// The requests of the routine to the vendor's solver of whole matrices.
    fn asked(&self, problem: &Problem) -> Asked {
        let Options { verb, rhs, .. } = *self;
        let cholesky = verb.family == Family::Cholesky;
        let solves = verb.solve && self.engine_solves();
        Asked {
            potrf: cholesky && verb.factor,
            potri: cholesky && verb.invert,
            getrf: !cholesky && verb.factor,
            potrs: cholesky && solves,
            getrs: !cholesky && solves,
            rhs: if solves { problem.rhs } else { 0 },
            distributed: rhs == Rhs::Columns,
        }
    }

    fn no_width(&self, problem: &Problem) -> Error {
        let (n, ranks) = (problem.n, problem.ranks());
        let remedy =
            match (self.tile, engine::cusolvermg_tile_width(n, ranks, self.widest_of_engine())) {
                (None, Err(order)) => format!("pad A with an identity corner to order {order}"),
                _ => "leave `tile` out".to_owned(),
            };
        Error::invalid(format!(
            "meshsolve.{}: a: engine \"cusolvermg\" expected one width of tile columns that divides \
             {} columns of a device, got none for order {n} over {ranks} devices; {remedy}, or leave \
             engine=None",
            self.verb.name,
            n / ranks
        ))
    }
}
