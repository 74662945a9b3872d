//! A factorisation by cuSOLVER alone, for benchmarks: how long the call blocks the host's thread,
//! and how long the stream takes.

use std::collections::BTreeSet;
use std::time::Instant;

use super::transpositions::{Guarded, MeasuredDevice};
use meshsolve::device::Op;
use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::handle::Address;
use meshsolve::device::cuda::vendor::Operand;
use meshsolve::device::cuda::vendor::solver::{
    Factorisation, Method, Solver, SolverHandle, Workspace,
};
use meshsolve::error::{Error, Kind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    Potrf,
    Getrf,
}

/// The request: a factorisation of an m x n matrix of float64.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub routine: Routine,
    pub m: usize,
    pub n: usize,
    pub repeats: usize,
}

/// The result: medians of all calls but the first.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Until the call returns.
    pub host_seconds: f64,
    /// From the same moment until the stream has finished.
    pub seconds: f64,
    /// The library's workspace on the host.
    pub host_bytes: usize,
}

/// Runs one untimed call, then the timed ones.
pub fn measure(devices: &Devices, number: i32, request: Request) -> Result<Measured> {
    let Request { routine, m, n, repeats } = request;
    if n == 0 || m < n || (routine == Routine::Potrf && m != n) || repeats == 0 {
        return Err(Error::invalid(format!(
            "meshsolve: a panel: expected m >= n > 0, for potrf m = n, and at least one repeat, got \
             {routine:?} of {m} x {n} and {repeats} repeats"
        )));
    }
    let measured = MeasuredDevice::new(devices, number)?;
    let device = measured.device();
    let solver = &device.vendor()?.solver;
    let mut handle = {
        let _entered = device.enter()?;
        solver.create()?
    };
    let found = repeated(&measured, solver, &mut handle, request);
    let _entered = device.enter()?;
    solver.destroy(handle).and(found)
}

/// The memory of a panel, between canaries.
struct Panel<'a> {
    of: &'a MeasuredDevice,
    request: Request,
    a: Guarded<'a>,
    pivots: Guarded<'a>,
    info: Guarded<'a>,
    work: Guarded<'a>,
}

fn repeated(
    of: &MeasuredDevice,
    solver: &Solver,
    handle: &mut SolverHandle,
    request: Request,
) -> Result<Measured> {
    let Request { routine, m, n, repeats } = request;
    let a = of.allocate(m * n * 8)?;
    let (method, leading) = match routine {
        Routine::Potrf => (Method::Potrf, n),
        Routine::Getrf => (Method::Getrf, m),
    };
    let factorisations = BTreeSet::from([Factorisation { method, m, n, leading }]);
    let bytes = {
        let _entered = of.device().enter()?;
        solver.work_on(handle, of.stream())?;
        solver.workspace::<f64>(handle, a.at, &factorisations)?
    };
    let (pivots, info) = (of.allocate(n * 8)?, of.allocate(4)?);
    let work = of.allocate(bytes.next_multiple_of(4))?;
    let panel = Panel { of, request, a, pivots, info, work };
    let mut times = Vec::new();
    for _ in 0..=repeats {
        panel.fill()?;
        times.push(panel.factor(solver, handle, bytes)?);
    }
    panel.check()?;
    let (host, whole) = times.drain(1..).unzip();
    let host_bytes = handle.host_bytes();
    Ok(Measured { host_seconds: median(host), seconds: median(whole), host_bytes })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    (of[(of.len() - 1) / 2] + of[of.len() / 2]) / 2.0
}

impl Panel<'_> {
    /// Larger than the sum of all other entries of its column.
    fn large(&self) -> f64 {
        (self.request.m + 1) as f64
    }

    /// Ones, with one large entry in each column. It is on the diagonal; for LU it runs from the
    /// last row upwards, so that rows are interchanged.
    fn fill(&self) -> Result<()> {
        let Request { routine, m, n, .. } = self.request;
        let (first, stride) = match routine {
            Routine::Potrf => (0, m + 1),
            Routine::Getrf => (m - 1, m - 1),
        };
        let fill = |at: Address, [stride, rows, cols]: [usize; 3], value: f64| {
            let [stride, rows, cols] = [stride, rows, cols].map(|x| x as u64);
            self.of.launch("fill", "fill_8", &[at, stride, rows, cols, value.to_bits()])
        };
        fill(self.a.at, [m, m, n], 1.0)?;
        fill(self.a.at + 8 * first as Address, [stride, 1, n], self.large())?;
        // A factorisation that does nothing then leaves a nonzero value.
        self.of.launch("fill", "fill_4", &[self.info.at, 1, 1, 1, u32::MAX.into()])?;
        self.of.device().wait(self.of.stream())
    }

    /// Seconds until the call returns, and until the stream has finished.
    fn factor(
        &self,
        solver: &Solver,
        handle: &mut SolverHandle,
        bytes: usize,
    ) -> Result<(f64, f64)> {
        let (Request { routine, m, n, .. }, device) = (self.request, self.of.device());
        let a = Operand { at: self.a.at, leading: m, op: Op::None };
        let workspace = Workspace { at: self.work.at, bytes, info: self.info.at };
        let _entered = device.enter()?;
        let since = Instant::now();
        // SAFETY: memory of these sizes that only this call uses. The stream has finished with it
        // below.
        let given = unsafe {
            match routine {
                Routine::Potrf => solver.potrf::<f64>(handle, n, a, workspace),
                Routine::Getrf => solver.getrf::<f64>(handle, [m, n], a, self.pivots.at, workspace),
            }
        };
        let host = since.elapsed();
        let finished = device.wait(self.of.stream());
        let whole = since.elapsed();
        given.and(finished)?;
        handle.reset();
        Ok((host.as_secs_f64(), whole.as_secs_f64()))
    }

    /// An error unless the last call was a factorisation that wrote only to its memory.
    fn check(&self) -> Result<()> {
        let (device, stream) = (self.of.device(), self.of.stream());
        // SAFETY: the matrix has at least eight bytes and `info` four.
        let (info, first) = unsafe {
            (
                i32::from_ne_bytes(device.read(self.info.at, stream)?),
                device.read(self.a.at, stream)?,
            )
        };
        let (found, expected) = (
            f64::from_ne_bytes(first),
            match self.request.routine {
                Routine::Potrf => self.large().sqrt(),
                Routine::Getrf => self.large(),
            },
        );
        if info != 0 || (found - expected).abs() > 1e-9 * expected {
            let message = format!(
                "meshsolve: {:?} on {}: expected a factor that begins with {expected}, got {found} and info = \
                 {info}; this is a defect of meshsolve or cuSOLVER, please report it",
                self.request.routine,
                device.name(),
            );
            return Err(Error::new(Kind::Internal, message));
        }
        let all = [&self.a, &self.pivots, &self.info, &self.work];
        all.iter().try_for_each(|memory| memory.check("a factorisation by cuSOLVER"))
    }
}
