//! What a call gives back on this process: the results of `run.rs`.

use super::factor::threads;
use super::{Part, elements_mut};
use crate::error::Result;
use crate::log;
use crate::routines::solver::routine::Stage;
use crate::routines::solver::run::no_answer;
use crate::routines::solver::slot::Kind;
use crate::scalar::{DType, Scalar};
use crate::stats::CallStats;

impl<T: Scalar> Part<T> {
    fn write<V: bytemuck::Pod>(&self, kind: Kind, values: &[V]) {
        for to in self.results(kind) {
            // SAFETY: a result of the call, which this thread alone uses until the reply.
            unsafe { elements_mut::<V>(to) }.copy_from_slice(values);
        }
    }

    fn write_real(&self, kind: Kind, value: f64) {
        match T::DTYPE.real() {
            DType::F32 => self.write(kind, &[value as f32]),
            _ => self.write(kind, &[value]),
        }
    }

    fn write_eigenvalues(&self) {
        let count = if self.results(Kind::Eigenvalues).next().is_some() { self.n() } else { 0 };
        let values = match self.info {
            0 => self.eigenvalues.clone(),
            _ => vec![f64::NAN; count],
        };
        if count > 0 && T::DTYPE.real() == DType::F32 {
            let narrow: Vec<f32> = values.iter().map(|&x| x as f32).collect();
            self.write(Kind::Eigenvalues, &narrow);
        } else if count > 0 {
            self.write(Kind::Eigenvalues, &values);
        }
    }

    fn fill_nan(&self, kind: Kind) {
        for to in self.results(kind) {
            // SAFETY: as in `write`.
            unsafe { elements_mut::<T>(to) }.fill(T::NAN);
        }
    }

    /// Whether A had only finite entries, as far as the call knows.
    fn is_of_numbers(&self) -> bool {
        !self.norm.is_nan() && self.is_finite
    }

    /// As `Solver::rcond` gives it.
    fn reciprocal_condition(&self) -> f64 {
        match self.norm {
            _ if self.unpadded() == 0 => 1.0,
            norm if norm.is_nan() => norm,
            _ => self.rcond,
        }
    }

    pub(super) fn finish(&self) -> Result<()> {
        let (routine, info) = (self.options.routine, self.info);
        let of_numbers =
            !routine.factors() || routine.inverts() || info == 0 || self.is_of_numbers();
        if info != 0 {
            self.fill_nan(Kind::Rhs);
            self.fill_nan(Kind::Matrix);
        }
        if !of_numbers {
            self.fill_nan(Kind::Factor);
        }
        if routine.has(Stage::Getrf) {
            self.write(Kind::Pivots, &self.pivots[..self.n()]);
        }
        if routine.has(Stage::Geqrf) {
            self.write(Kind::Coefficients, &self.coefficients);
        }
        self.write(Kind::Info, &[info as i32]);
        let values = if info == 0 { self.values } else { [T::NAN; 2] };
        for (to, value) in self.results(Kind::Value).zip(values) {
            // SAFETY: as in `write`.
            unsafe { elements_mut::<T>(to) }.fill(value);
        }
        let real = |value| if of_numbers { value } else { f64::NAN };
        self.write_real(Kind::Norm, real(self.norm));
        self.write_real(Kind::Rcond, real(self.reciprocal_condition()));
        self.write_real(Kind::Logdet, self.logdet);
        self.write_eigenvalues();
        self.record();
        if self.options.raises && info > 0 {
            return Err(no_answer(&self.options, self.unpadded(), info as i32));
        }
        Ok(())
    }

    fn record(&self) {
        let mut phases = self.phases.clone();
        phases.push(("total", self.since.elapsed().as_secs_f64()));
        log::record(CallStats {
            routine: self.options.routine.name,
            dtype: T::DTYPE.name(),
            n: self.n(),
            rhs: self.rhs,
            ranks: self.order.ranks * self.devices,
            visible: self.order.ranks * self.devices,
            workers: if self.options.routine.factors() { threads(self.order.tiles()) } else { 1 },
            tiles: self.n() / self.order.width,
            tile: self.order.width,
            scratch_bytes: self.scratch_bytes,
            float64: "native",
            info: self.info as i32,
            phases,
        });
    }
}
