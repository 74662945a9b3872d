//! Several ranks on one CUDA device, each on its own stream, with the code for several devices. It
//! measures and checks solves, for benchmarks and tests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use super::transpositions::{Guarded, MeasuredDevice};
use meshsolve::call::{Allocate, Attributes, Buffer};
use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::device::queue::Lines;
use meshsolve::device::cuda::handle::Address;
use meshsolve::error::{Error, Result};
use meshsolve::routines::CudaArrival;
use meshsolve::scalar::DType;
use meshsolve::sites::CudaSite;

/// The request: a solve of A x = b with A = 1 / (1 + |i - j|) + I of order n, x = 1.
#[derive(Clone, Debug)]
pub struct Request {
    /// "posv" or "gesv".
    pub routine: String,
    pub n: usize,
    pub ranks: usize,
    /// The width of the tiles; `None`: the library chooses.
    pub width: Option<usize>,
    pub repeats: usize,
}

#[derive(Clone, Debug)]
pub struct Measured {
    /// Of each call but the first.
    pub seconds: Vec<f64>,
    /// The largest |x_i - 1|.
    pub error: f64,
}

impl Attributes for Request {
    fn int(&self, name: &str) -> Option<i64> {
        match name {
            "world" => Some(self.ranks as i64),
            "tile" => self.width.map(|width| width as i64),
            _ => None,
        }
    }
    fn text(&self, name: &str) -> Option<String> {
        match name {
            "routine" => Some(self.routine.clone()),
            "rhs" => Some("replicated".into()),
            _ => None,
        }
    }
    fn count(&self) -> usize {
        3 + usize::from(self.width.is_some())
    }
}

/// Rows of A and B on the host.
struct System {
    n: usize,
    /// Row i begins at n - 1 - i.
    line: Vec<f64>,
    b: Vec<f64>,
}

impl System {
    fn new(n: usize) -> System {
        let entry = |d: usize| 1.0 / (1 + d) as f64 + if d == 0 { 1.0 } else { 0.0 };
        let line: Vec<f64> = (0..2 * n - 1).map(|k| entry(k.abs_diff(n - 1))).collect();
        // Sums of the entries up to each distance.
        let sums: Vec<f64> = line[n - 1..]
            .iter()
            .scan(0.0, |sum, x| {
                *sum += x;
                Some(*sum)
            })
            .collect();
        let b = (0..n).map(|i| sums[i] + sums[n - 1 - i] - sums[0]).collect();
        System { n, line, b }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.line[self.n - 1 - i..][..self.n]
    }
}

/// Scratch that is reused from call to call.
struct Lender<'a> {
    of: &'a MeasuredDevice,
    lent: Vec<Guarded<'a>>,
    used: usize,
}

impl Allocate for Lender<'_> {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let bytes = bytes.next_multiple_of(4);
        if self.lent.get(self.used).is_none_or(|memory| memory.bytes < bytes) {
            self.lent.truncate(self.used);
            self.lent.push(self.of.allocate(bytes).ok()?);
        }
        self.used += 1;
        Some(self.lent[self.used - 1].at)
    }
}

/// One rank's memory.
struct Rank<'a> {
    of: &'a MeasuredDevice,
    a: Guarded<'a>,
    x: Guarded<'a>,
    info: Guarded<'a>,
    place: Guarded<'a>,
    scratch: Lender<'a>,
}

impl<'a> Rank<'a> {
    fn new(of: &'a MeasuredDevice, rank: usize, request: &Request) -> Result<Self> {
        let n = request.n;
        let rank = Rank {
            of,
            a: of.allocate(n / request.ranks * n * 8)?,
            x: of.allocate(n * 8)?,
            info: of.allocate(4)?,
            place: of.allocate(8)?,
            scratch: Lender { of, lent: Vec::new(), used: 0 },
        }
        .placed(rank)?;
        Ok(rank)
    }

    fn placed(self, rank: usize) -> Result<Self> {
        self.write(self.place.at, &[rank as i32, 0])?;
        Ok(self)
    }

    fn write<T>(&self, at: Address, from: &[T]) -> Result<()> {
        let bytes = size_of_val(from);
        let to = Lines { at, pitch: bytes };
        // SAFETY: memory of this rank of at least `bytes` bytes.
        unsafe {
            self.of.device().write_lines(to, from.as_ptr().cast(), bytes, 1, self.of.stream())
        }
    }

    /// Writes the rank's rows of A, and B.
    fn fill(&mut self, system: &System, first: usize) -> Result<()> {
        let (n, rows) = (system.n, self.a.bytes / 8 / system.n);
        // Some megabytes at a time.
        let most = ((1 << 20) / n).max(1);
        for start in (0..rows).step_by(most) {
            let end = rows.min(start + most);
            let part: Vec<f64> =
                (start..end).flat_map(|i| system.row(first + i)).copied().collect();
            self.write(self.a.at + (start * n * 8) as Address, &part)?;
        }
        self.scratch.used = 0;
        self.write(self.x.at, &system.b)
    }

    fn solve(&mut self, devices: &Devices, site: &CudaSite, run: i64, device: i32) -> Result<()> {
        let n = self.x.bytes / 8;
        let buffer = |memory: &Guarded, dtype, dims: &[usize]| {
            let first = std::ptr::without_provenance_mut(memory.at as usize);
            // SAFETY: *memory* of this rank, which lives until the call returns.
            unsafe { Buffer::new(first, dtype, dims.to_vec()) }
        };
        let a = buffer(&self.a, DType::F64, &[self.a.bytes / 8 / n, n]);
        let x = buffer(&self.x, DType::F64, &[n, 1]);
        let info = buffer(&self.info, DType::S32, &[]);
        let place = buffer(&self.place, DType::S32, &[2]);
        let (args, rets) = (vec![a.clone(), x.clone()], vec![a, x, info]);
        let (stream, scratch) = (self.of.stream(), &mut self.scratch);
        site.run(devices, CudaArrival { run, device, stream, scratch, place, args, rets })
    }

    /// The largest |x_i - 1|; an error if a canary next to the rank's memory has changed.
    fn error(&self) -> Result<f64> {
        let mut x = vec![0f64; self.x.bytes / 8];
        let from = Lines { at: self.x.at, pitch: self.x.bytes };
        let to = x.as_mut_ptr().cast();
        // SAFETY: `x` has as many bytes as the rank's x.
        unsafe {
            self.of.device().read_lines(from, self.x.bytes, 1, to, self.of.stream())?;
        }
        let all = [&self.a, &self.x, &self.info, &self.place].into_iter().chain(&self.scratch.lent);
        for memory in all {
            memory.check("a solve by several ranks")?;
        }
        // The error of a NaN is infinite.
        let far = |x: f64| if x.is_nan() { f64::INFINITY } else { (x - 1.0).abs() };
        Ok(x.into_iter().map(far).fold(0.0, f64::max))
    }
}

/// Runs one untimed call, then the timed ones.
pub fn measure(devices: &Devices, number: i32, request: &Request) -> Result<Measured> {
    static RUN: AtomicI64 = AtomicI64::new(0);
    let (n, ranks) = (request.n, request.ranks);
    if n == 0 || ranks == 0 || !n.is_multiple_of(ranks) {
        return Err(Error::invalid(format!(
            "meshsolve: ranks on one device: expected n to be a multiple of their number, got n = {n} and \
             {ranks} ranks"
        )));
    }
    let (site, system) = (CudaSite::new(request)?, System::new(n));
    let measured: Vec<_> =
        (0..ranks).map(|_| MeasuredDevice::new(devices, number)).collect::<Result<_>>()?;
    let ranked = measured.iter().enumerate();
    let mut members: Vec<_> =
        ranked.map(|(rank, of)| Rank::new(of, rank, request)).collect::<Result<_>>()?;
    let mut seconds = Vec::new();
    for _ in 0..=request.repeats {
        for (rank, member) in members.iter_mut().enumerate() {
            member.fill(&system, rank * (n / ranks))?;
        }
        let (run, failed) = (RUN.fetch_add(1, Relaxed), Mutex::new(None));
        let since = Instant::now();
        std::thread::scope(|scope| {
            for member in &mut members {
                let (site, failed) = (&site, &failed);
                scope.spawn(move || {
                    if let Err(error) = member.solve(devices, site, run, number) {
                        *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                    }
                });
            }
        });
        seconds.push(since.elapsed().as_secs_f64());
        if let Some(error) = failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(error);
        }
    }
    let errors: Vec<f64> = members.iter().map(Rank::error).collect::<Result<_>>()?;
    Ok(Measured { seconds: seconds.split_off(1), error: errors.into_iter().fold(0.0, f64::max) })
}
