//! Householder reflectors by cuSOLVER.

use super::*;

impl CudaWorker<'_> {
    /// A = Q R by `geqrf`; `coefficients` are those of the reflectors.
    pub(super) fn factor_qr<T: Scalar>(
        &mut self,
        a: Cells<T>,
        coefficients: Cells<T>,
    ) -> Result<()> {
        // It reports nothing, so the place of a panel's interchanges serves.
        let info = self.scratch.panel_pivots;
        let (at, bytes) = (self.scratch.solver, self.scratch.needs.solver);
        assert!(a.cols().min(a.rows()) <= coefficients.rows(), "a coefficient for each column");
        let (operand, shape) = (Form::of(a, Op::None).operand(), [a.rows(), a.cols()]);
        let (solver, stream) = (&self.libraries()?.solver, self.stream());
        let _entered = self.device.enter()?;
        solver.work_on(&self.tools.solver, stream)?;
        let (handle, to) = (&mut self.tools.solver, address(coefficients));
        // SAFETY: *memory* and *order* of both, promised to `CudaWorker::new`.
        unsafe { solver.geqrf::<T>(handle, shape, operand, to, Workspace { at, bytes, info }) }
    }
}
