//! Uses beforehand all that a call uses while a broadcast by NCCL may be in progress.
//!
//! Loading a kernel, and a library's first work with a handle, may wait for all work of a device
//! (CUDA C++ Programming Guide, "Lazy Loading"). A broadcast on that device may wait for another
//! one, and the host thread of that one may wait in the same way.

use super::device::Device;
use super::device::tools::Tools;
use super::handle::{Address, Stream};
use super::rank_scratch::RankScratch;
use super::sources::suffix;
use super::transposition;
use super::vendor::Operand;
use super::vendor::solver::Workspace;
use crate::device::{Op, Triangle};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::settings::Float64;
use crate::transpose::Plan;

/// The shape of a rank's products, n x width, and factorisations.
pub struct PanelShape {
    pub n: usize,
    pub width: usize,
    /// As L U, else as L L^H.
    pub is_lu: bool,
    /// Rows and columns of its largest panel, or order of a tile. None if it owns none.
    pub own: Option<(usize, usize)>,
}

/// Loads the kernels of the solvers and of the plans for an array at `data`.
pub fn load<T: Scalar>(device: &Device, plans: &[&Plan], data: Address) -> Result<()> {
    let (of_type, of_real) = (suffix(T::DTYPE), suffix(T::DTYPE.real()));
    let (size, real) = (size_of::<T>(), size_of::<T::Real>());
    let named =
        |file, names: &[String]| names.iter().try_for_each(|n| device.kernel(file, n).map(drop));
    named("pivots", &[format!("find_no_number_{of_type}"), "number_pivots".into()])?;
    named("rows", &["find_moves".into(), format!("permute_rows_{size}")])?;
    named("triangle", &[format!("mirror_{size}"), format!("clear_outside_{size}")])?;
    named("fill", &[format!("fill_{real}")])?;
    named("transpose_square", &[format!("transpose_shards_{size}")])?;
    named("moduli", &["column", "row"].map(|by| format!("{by}_moduli_{of_type}")))?;
    named("moduli", &[format!("column_squares_{of_real}")])?;
    for width in [4, 8, 16] {
        named("columns", &["shift", "rotate"].map(|how| format!("{how}_columns_{width}")))?;
    }
    if T::IS_COMPLEX {
        named("conjugate", &[format!("conjugate_{size}")])?;
    }
    plans.iter().try_for_each(|plan| transposition::load(device, plan, data))
}

/// Makes the handles do their later work once, on zeros in the call's scratch, and waits for it.
///
/// # Safety
/// The call owns the scratch and the stream, and its own work has not begun.
pub unsafe fn use_handles<T: Scalar>(
    device: &Device,
    tools: &mut Tools,
    scratch: &RankScratch,
    panels: PanelShape,
    float64: Float64,
    stream: Stream,
) -> Result<()> {
    tools.multiply(device, float64)?;
    let PanelShape { n, width, is_lu, own } = panels;
    if tools.warm.contains(&(T::DTYPE, is_lu)) {
        return Ok(());
    }
    let [left, right] = scratch.panels.map(|at| move |op| Operand { at, leading: n, op });
    let libraries = device.vendor()?;
    // SAFETY: the caller's scratch for two panels.
    unsafe {
        scratch.panels.iter().try_for_each(|at| device.clear(*at, scratch.needs.panel, stream))?;
    }
    let _entered = device.enter()?;
    for handle in tools.blas {
        let blas = &libraries.blas;
        let memory = (float64 == Float64::Native).then_some((scratch.blas[0], scratch.needs.blas));
        let shape = [n, width, width];
        // SAFETY: matrices within the panels, on one stream.
        unsafe {
            blas.work_on(handle, stream, memory)?;
            for op in [Op::None, Op::Transpose, Op::Adjoint] {
                blas.gemm(handle, shape, T::ONE, left(Op::None), left(op), right(Op::None))?;
                blas.gemm(handle, [width; 3], T::ONE, left(op), left(Op::None), right(Op::None))?;
                let triangle = Triangle::Lower;
                blas.trsm::<T>(handle, false, triangle, [width; 2], left(op), right(Op::None))?;
                blas.trsm::<T>(handle, true, triangle, [n, width], left(op), right(Op::None))?;
            }
            blas.trmm(
                handle,
                Triangle::Lower,
                [width; 2],
                T::ONE,
                left(Op::None),
                right(Op::None),
            )?;
            blas.add::<T>(handle, [n, width], left(Op::None), right(Op::None))?;
        }
    }
    if let Some((rows, columns)) = own {
        let (solver, a, pivots) = (&libraries.solver, left(Op::None), scratch.panel_pivots);
        let workspace =
            Workspace { at: scratch.solver, bytes: scratch.needs.solver, info: scratch.infos };
        let handle = &mut tools.solver;
        // SAFETY: a panel of zeros, and workspace for this shape.
        unsafe {
            solver.work_on(handle, stream)?;
            match is_lu {
                true => solver.getrf::<T>(handle, [rows, columns], a, pivots, workspace)?,
                false => solver.potrf::<T>(handle, columns, a, workspace)?,
            }
        }
    }
    // Reports of progress are such functions.
    device.run_after(stream, || ())?;
    device.wait(stream)?;
    tools.solver.reset();
    tools.warm.push((T::DTYPE, is_lu));
    Ok(())
}
