//! Every routine of the table, with operands and results as the table describes them. Each storage,
//! distribution and place gives what one CPU worker with rows gives. So a routine that is added is
//! tested here without a line.

use std::collections::HashMap;

use crate::common::case::{Case, Place, call, cases};
use crate::common::{at, buffer, int_scalar, int_vector, random, real_scalar, real_value};
use faer::Mat;
use meshsolve::call::Buffer;
use meshsolve::layout::Storage;
use meshsolve::routines::solver::{Family, Kind, Requirement, Slot, SolverRoutine, solvers};
use meshsolve::scalar::{DType, Scalar};

const RHS: usize = 3;

/// An operand or result on one rank.
#[derive(Clone, Debug)]
enum Array<T> {
    OfA(Vec<T>),
    Ints(Vec<i32>),
    Real(f64),
    /// As wide as elements of A.
    Reals(Vec<T>),
}

/// Arrays of all ranks by name.
type Arrays<T> = HashMap<&'static str, Vec<Array<T>>>;

impl<T: Scalar> Array<T> {
    /// One that no routine has written.
    fn new(kind: Kind, case: Case) -> Array<T> {
        let Case { n, ranks, .. } = case;
        match kind {
            Kind::Matrix | Kind::Factor => Array::OfA(vec![T::NAN; n * n / ranks]),
            Kind::Rhs | Kind::Solution => Array::OfA(vec![T::NAN; n * RHS]),
            Kind::Aligned => Array::OfA(vec![T::NAN; n * RHS / ranks]),
            Kind::Triangle => Array::OfA(vec![T::NAN; n * n]),
            Kind::Residuals => Array::Reals(vec![T::NAN; RHS]),
            Kind::Eigenvalues => Array::Reals(vec![T::NAN; n]),
            Kind::Value => Array::OfA(vec![T::NAN]),
            Kind::Upper => Array::OfA(vec![T::NAN; n * n / ranks]),
            Kind::Coefficients => Array::OfA(vec![T::NAN; n]),
            Kind::Pivots => Array::Ints(vec![-1; n]),
            Kind::Info => Array::Ints(vec![-1]),
            Kind::Norm | Kind::Rcond | Kind::Logdet | Kind::Number => Array::Real(-1.0),
        }
    }

    /// `dims` are those of the call's matrices.
    fn buffer(&mut self, kind: Kind, dims: &[usize], n: usize) -> Buffer {
        match self {
            Array::OfA(x) if kind.is_matrix() => buffer(x, dims),
            Array::OfA(x) if kind == Kind::Rhs || kind == Kind::Solution => buffer(x, &[n, RHS]),
            Array::OfA(x) if kind == Kind::Aligned => {
                let rows = x.len() / RHS;
                buffer(x, &[rows, RHS])
            }
            Array::OfA(x) if kind == Kind::Triangle => buffer(x, &[n, n]),
            Array::OfA(x) if kind == Kind::Coefficients => buffer(x, &[n]),
            Array::OfA(x) if kind == Kind::Upper => {
                let columns = x.len() / n;
                buffer(x, &[n, columns])
            }
            Array::OfA(x) => buffer(x, &[]),
            Array::Ints(x) if kind == Kind::Info => int_scalar(&mut x[0]),
            Array::Ints(x) => int_vector(x),
            Array::Real(x) => real_scalar::<T>(x),
            Array::Reals(x) => at(x.as_mut_ptr(), T::DTYPE.real(), &[x.len()]),
        }
    }

    /// The numbers, as real ones.
    fn parts(&self) -> Vec<f64> {
        match self {
            Array::OfA(x) | Array::Reals(x) => {
                x.iter().flat_map(|x| <[f64; 2]>::from(x.parts())).collect()
            }
            Array::Ints(x) => x.iter().map(|&x| x.into()).collect(),
            Array::Real(x) => vec![real_value::<T>(x)],
        }
    }
}

/// Runs a routine with the operands of these names; gives the results by name.
fn run<T: Scalar>(case: Case, routine: &SolverRoutine, operands: &Arrays<T>) -> Arrays<T> {
    let (args, rets) = (routine.signature.args, routine.signature.rets);
    let (of_matrix, of_factor) = case.dims();
    let dims = if routine.takes_matrix() { of_matrix } else { of_factor };
    let named = |slot: &Slot| match (slot.name, slot.kind) {
        ("b", Kind::Matrix) => operands["b matrix"].clone(),
        ("b", Kind::Aligned) => operands["b by rows"].clone(),
        (name, _) => operands[name].clone(),
    };
    let mut given: Vec<_> = args.iter().map(named).collect();
    let mut made: Vec<_> =
        rets.iter().map(|slot| vec![Array::new(slot.kind, case); case.ranks]).collect();
    case.run(routine.name, |rank| {
        let args = args.iter().zip(&mut given);
        let args = args.map(|(slot, x)| x[rank].buffer(slot.kind, &dims, case.n)).collect();
        let rets = rets.iter().zip(&mut made);
        let rets = rets.map(|(slot, x)| x[rank].buffer(slot.kind, &dims, case.n)).collect();
        call(rank, args, rets)
    });
    rets.iter().map(|slot| slot.name).zip(made).collect()
}

/// Operands of all names that the table has, the factor by the routine for it.
fn operands<T: Scalar>(case: Case, family: Family, symmetric: bool) -> Arrays<T> {
    let n = case.n;
    // Diagonally dominant. If it is symmetric and real, all storages have the same inverse.
    let x = random::<T>(n, n, 5);
    let entry = |i, j| match (symmetric, family) {
        (true, _) => T::of_parts(x[(i, j)].parts().0 + x[(j, i)].parts().0, 0.0),
        (false, Family::Cholesky) => x[(i, j)] + T::conj_impl(&x[(j, i)]),
        (false, _) => x[(i, j)],
    };
    let diagonal = |i, j| if i == j { T::from_f64_impl(4.0 * n as f64) } else { T::ZERO };
    let a = Mat::from_fn(n, n, |i, j| entry(i, j) + diagonal(i, j));
    let rhs = |seed| {
        let b = random::<T>(n, RHS, seed);
        let by_rows: Vec<T> = (0..n * RHS).map(|e| b[(e / RHS, e % RHS)]).collect();
        vec![Array::OfA(by_rows); case.ranks]
    };
    let shards: Vec<_> = case.shards(&a).into_iter().map(Array::OfA).collect();
    let mut all = Arrays::from([("x", rhs(9))]);
    for name in ["ridge", "tolerance"] {
        all.insert(name, vec![Array::Real(0.0); case.ranks]);
    }
    for name in ["a", "t", "c", "lu"] {
        all.insert(name, shards.clone());
    }
    // Sharded as a factor, which is by rows also where A is by columns.
    let of_factor = match case.storage.1 {
        Storage::Columns => Case { storage: Storage::ALL[0], ..case },
        _ => case,
    };
    let b = of_factor.shards(&random::<T>(n, n, 11)).into_iter().map(Array::OfA);
    all.insert("b matrix", b.collect());
    all.insert("b", rhs(7));
    let Array::OfA(b) = all["b"][0].clone() else { unreachable!("a matrix") };
    let parts = b.chunks(n * RHS / case.ranks).map(|part| Array::OfA(part.to_vec()));
    all.insert("b by rows", parts.collect());
    let name = match family {
        Family::Cholesky => "potrf",
        Family::Qr => "geqrf",
        _ => "getrf",
    };
    let made = run(case, solvers().find(|routine| routine.name == name).unwrap(), &all);
    all.extend(made);
    all
}

/// Whether the result of a routine does not depend on the storage.
fn is_comparable(name: &str, kind: Kind, symmetric: bool) -> bool {
    match kind {
        Kind::Factor | Kind::Pivots => false,
        // Signs of rows depend on the workers; the residuals of a square matrix are rounding errors.
        Kind::Triangle | Kind::Residuals => false,
        Kind::Solution if name == "z" => false,
        // Each rank has its own columns.
        Kind::Upper => false,
        // Of others only a triangle has a meaning, or the transpose.
        Kind::Matrix => symmetric && name == "inverse",
        _ => true,
    }
}

pub fn routines_of_the_table<T: Scalar>(at: Place) {
    let u = if T::DTYPE.real() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    // Emulated devices are slow.
    let kinds = if at.is_some() { &[false][..] } else { &[true, false] };
    for (case, &symmetric) in cases(at).flat_map(|case| kinds.iter().map(move |s| (case, s))) {
        let plain = Case { ranks: 1, storage: Storage::ALL[0], order: "natural", at: None, ..case };
        let mut of_families: HashMap<Family, (Arrays<T>, Arrays<T>)> = HashMap::new();
        for routine in solvers() {
            let family = routine.family;
            if family == Family::Tsqr && case.ranks > 1 && case.storage.1 != Storage::Rows {
                continue;
            }
            // `thin.rs` has more rows.
            if routine.requires.contains(&Requirement::TallShards) && case.ranks > 1 {
                continue;
            }
            let (plainly, given) = of_families.entry(family).or_insert_with(|| {
                [plain, case].map(|case| operands::<T>(case, family, symmetric)).into()
            });
            let expected = run(plain, routine, plainly);
            let found = run(case, routine, given);
            for slot in
                routine.signature.rets.iter().filter(|s| is_comparable(s.name, s.kind, symmetric))
            {
                let what = format!("{} {} {case:?}", routine.name, slot.name);
                let whole = |case: Case, of: &Arrays<T>| {
                    let shards = of[slot.name].iter().map(|x| match x {
                        Array::OfA(x) => x.clone(),
                        _ => unreachable!("a matrix"),
                    });
                    let whole = case.gathered(&shards.collect::<Vec<_>>());
                    let entries =
                        whole.col_iter().flat_map(|c| c.iter().copied().collect::<Vec<_>>());
                    vec![Array::OfA(entries.collect()).parts()]
                };
                let (expected, found) = match slot.kind.is_matrix() {
                    true => (whole(plain, &expected), whole(case, &found)),
                    false => (
                        vec![expected[slot.name][0].parts()],
                        found[slot.name].iter().map(Array::parts).collect(),
                    ),
                };
                let size = expected[0].iter().fold(0.0, |most, x| f64::max(most, x.abs()));
                for found in found {
                    for (x, y) in expected[0].iter().zip(&found) {
                        let close = x.to_bits() == y.to_bits()
                            || (x - y).abs() <= 1e3 * u * size.max(f64::MIN_POSITIVE);
                        assert!(close, "{what}: expected {x}, found {y}");
                    }
                }
            }
        }
    }
}
