//! Shared parts of the native tests: a call site without XLA, matrices, residuals.
#![allow(dead_code)] // each test file uses a part

pub mod case;
pub mod diagnose;
pub mod inverse;
pub mod layouts;
pub mod lu;
pub mod norms;
pub mod part;
pub mod workers;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use faer::Mat;
use meshsolve::call::{Attributes, Buffer, Call};
use meshsolve::error::{Error, Result};
use meshsolve::rendezvous::Arrival;
use meshsolve::routines::solver::OWN_ATTRIBUTES;
use meshsolve::routines::table;
use meshsolve::scalar::{DType, Scalar};
use meshsolve::sites::CallSite;

/// Attributes as in a direct call.
#[derive(Clone, Debug, Default)]
pub struct Map {
    ints: HashMap<String, i64>,
    texts: HashMap<String, String>,
}

impl Map {
    pub fn routine(name: &str, world: usize) -> Self {
        meshsolve::routines::add(&diagnose::Diagnose);
        Map::default().text("routine", name).int("world", world as i64)
    }

    /// Without attributes that other routines have and this one does not.
    pub fn only_own(mut self) -> Self {
        let routine = table().find(|routine| routine.name() == self.texts["routine"]).unwrap();
        let own = routine.description().attributes;
        let kept = |name: &String| {
            own.contains(&name.as_str()) || !OWN_ATTRIBUTES.contains(&name.as_str())
        };
        self.ints.retain(|name, _| kept(name));
        self.texts.retain(|name, _| kept(name));
        self
    }

    pub fn int(mut self, name: &str, value: i64) -> Self {
        self.ints.insert(name.into(), value);
        self
    }

    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.texts.insert(name.into(), value.into());
        self
    }
}

impl Attributes for Map {
    fn int(&self, name: &str) -> Option<i64> {
        self.ints.get(name).copied()
    }
    fn text(&self, name: &str) -> Option<String> {
        self.texts.get(name).cloned()
    }
    fn count(&self) -> usize {
        self.ints.len() + self.texts.len()
    }
}

/// Rank and outcome, in the order of arrival.
pub type Outcomes = Receiver<(usize, Result<()>)>;

pub fn outcomes() -> (Sender<(usize, Result<()>)>, Outcomes) {
    channel()
}

/// A run id that no other test has: a failure ends the calls of its run at all call sites.
pub fn launch() -> i64 {
    static LAUNCHES: AtomicI64 = AtomicI64::new(1 << 32);
    LAUNCHES.fetch_add(1, Ordering::Relaxed)
}

/// Lets device `call.device` arrive; `to` gets its outcome.
pub fn arrive(site: &CallSite, run: i64, call: Call, to: &Sender<(usize, Result<()>)>) {
    let (rank, to) = (call.rank, to.clone());
    let reply = Box::new(move |outcome| to.send((rank, outcome)).unwrap());
    site.arrive(run, 0, None, Arrival { call, reply });
}

/// The next `count` outcomes; a call that never answers fails the test.
pub fn collect(outcomes: &Outcomes, count: usize) -> Vec<(usize, Result<()>)> {
    (0..count)
        .map(|_| outcomes.recv_timeout(Duration::from_secs(60)).expect("an answer in a minute"))
        .collect()
}

pub fn errors(outcomes: Vec<(usize, Result<()>)>) -> Vec<Error> {
    outcomes.into_iter().map(|(rank, o)| o.expect_err(&format!("rank {rank} fails"))).collect()
}

/// An array at an address.
pub fn at<T>(first: *mut T, dtype: DType, dims: &[usize]) -> Buffer {
    // SAFETY: *memory* of the test, which keeps it until the call has its reply.
    unsafe { Buffer::new(first.cast(), dtype, dims.to_vec()) }
}

pub fn buffer<T: Scalar>(data: &mut [T], dims: &[usize]) -> Buffer {
    assert_eq!(data.len(), dims.iter().product::<usize>());
    at(data.as_mut_ptr(), T::DTYPE, dims)
}

pub fn int_scalar(value: &mut i32) -> Buffer {
    at(value, DType::S32, &[])
}

pub fn int_vector(values: &mut [i32]) -> Buffer {
    at(values.as_mut_ptr(), DType::S32, &[values.len()])
}

/// A result of the real type of T in the memory of `value`; `real_value` reads it.
pub fn real_scalar<T: Scalar>(value: &mut f64) -> Buffer {
    at(value, T::DTYPE.real(), &[])
}

pub fn real_value<T: Scalar>(value: &f64) -> f64 {
    match T::DTYPE.real() {
        // SAFETY: a routine has written a number of this size.
        DType::F32 => f64::from(unsafe { std::ptr::from_ref(value).cast::<f32>().read() }),
        _ => *value,
    }
}

/// The memory of an operand of the real type of T.
pub fn real_operand<T: Scalar>(value: f64) -> [f64; 1] {
    let mut memory = [value];
    if T::DTYPE.real() == DType::F32 {
        bytemuck::cast_slice_mut::<_, f32>(&mut memory)[0] = value as f32;
    }
    memory
}

/// Repeatable numbers in [-1, 1).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn scalar<T: Scalar>(&mut self) -> T {
        let (re, im) = (T::from_f64_impl(self.next()), T::from_f64_impl(self.next()));
        // 1i for complex types, 1 for real ones: the square root of -1, or of 1.
        let minus_one = -T::ONE;
        let root = T::sqrt_impl(&minus_one);
        if T::is_nan_impl(&root) { re } else { re + root * im }
    }
}

pub fn random<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
    let mut random = Random(seed);
    Mat::<T>::from_fn(rows, cols, |_, _| random.scalar())
}

/// A random Hermitian positive definite matrix, well conditioned.
pub fn positive_definite<T: Scalar>(n: usize, seed: u64) -> Mat<T> {
    let mut random = Random(seed);
    let g = Mat::<T>::from_fn(n, n, |_, _| random.scalar());
    let shift = T::from_f64_impl(n as f64);
    let mut a = &g * g.adjoint();
    for i in 0..n {
        a[(i, i)] += shift;
    }
    a
}

/// Frobenius norm.
fn norm<T: Scalar>(m: &Mat<T>) -> f64 {
    let square = |(i, j)| m[(i, j)].magnitude() * m[(i, j)].magnitude();
    let places = (0..m.ncols()).flat_map(|j| (0..m.nrows()).map(move |i| (i, j)));
    places.map(square).sum::<f64>().sqrt()
}

/// The unit roundoff.
pub fn unit<T: Scalar>() -> f64 {
    match T::DTYPE {
        DType::F32 | DType::C64 => f64::from(f32::EPSILON) / 2.0,
        _ => f64::EPSILON / 2.0,
    }
}

fn difference<T: Scalar>(a: &Mat<T>, b: &Mat<T>) -> f64 {
    norm(&Mat::<T>::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] + -b[(i, j)]))
}

/// Norm(A - B) / (n norm(B) u) in the Frobenius norm.
pub fn ratio<T: Scalar>(a: &Mat<T>, b: &Mat<T>) -> f64 {
    difference(a, b) / (b.nrows().max(1) as f64 * norm(b) * unit::<T>())
}

/// Norm(B - A X) / (n norm(A) norm(X) u) in the Frobenius norm.
pub fn residual<T: Scalar>(a: &Mat<T>, x: &Mat<T>, b: &Mat<T>) -> f64 {
    difference(b, &(a * x)) / (a.nrows().max(1) as f64 * norm(a) * norm(x) * unit::<T>())
}

/// The operands and results of a rank's call of `posv`.
pub fn posv_call<T: Scalar>(
    rank: usize,
    a: &mut [T],
    b: &mut [T],
    info: &mut i32,
    n: usize,
    ranks: usize,
    rhs: usize,
) -> Call {
    let (a, b) = (buffer(a, &[n / ranks, n]), buffer(b, &[n, rhs]));
    let args = vec![a.clone(), b.clone()];
    Call::new(rank, rank as i32, args, vec![a, b, int_scalar(info)])
}

/// A as the shards that JAX would hold: rank r's rows, row-major.
pub fn row_shards<T: Scalar>(a: &Mat<T>, ranks: usize) -> Vec<Vec<T>> {
    let (n, rows) = (a.nrows(), a.nrows() / ranks);
    let shard = |r: usize| (0..rows * n).map(|e| a[(r * rows + e / n, e % n)]).collect();
    (0..ranks).map(shard).collect()
}

pub fn diagnose(world: usize, fault: &str) -> CallSite {
    let map = Map::routine("diagnose", world).text("fault", fault).int("fault_rank", 1);
    CallSite::new(&map).unwrap()
}

pub fn diagnose_call(rank: usize, data: &mut [f32]) -> Call {
    let x = buffer(data, &[4]);
    Call::new(rank, 10 + rank as i32, vec![x.clone()], vec![x])
}

pub fn run_diagnose(site: &CallSite, run: i64, ranks: &[usize]) -> Vec<(usize, Result<()>)> {
    let (to, from) = outcomes();
    let mut data = [0.5f32; 4];
    for &rank in ranks {
        arrive(site, run, diagnose_call(rank, &mut data), &to);
    }
    collect(&from, ranks.len())
}

/// Calls a generic check with each scalar type that this program has tests of.
#[allow(unused_macros)] // each test file uses a part
macro_rules! every_scalar {
    ($check:ident) => {
        f64_and_c64! {
            $check::<f64>();
            $check::<faer::c32>();
        }
        f32_and_c128! {
            $check::<f32>();
            $check::<faer::c64>();
        }
    };
}
#[allow(unused_imports)] // each test file uses a part
pub(crate) use every_scalar;

/// A test for each function, with these types.
#[allow(unused_macros)] // each test file uses a part
macro_rules! for_all_scalars {
    ($($function:ident)*) => {mod scalars {$(
        #[test]
        fn $function() {
            use super::$function as check;
            $crate::common::every_scalar!(check);
        }
    )*}};
}
#[allow(unused_imports)] // each test file uses a part
pub(crate) use for_all_scalars;
