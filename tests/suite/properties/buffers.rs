//! With any arrays, all devices get the same answer, and nothing outside the arrays is touched (the
//! address sanitizer checks that).

use meshsolve::call::{Buffer, Call};
use meshsolve::error::Error;
use meshsolve::error::Kind::InvalidArgument;
use meshsolve::layout::Storage;
use meshsolve::routines::solver::{Kind, Requirement, solvers};
use meshsolve::scalar::DType;
use meshsolve::sites::CallSite;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::{prop_assert, prop_assert_eq, prop_oneof};

use super::check;
use crate::common::{Map, Random, arrive, collect, launch, outcomes};

const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::C64, DType::C128, DType::S32];

#[derive(Clone, Debug)]
enum Fault {
    Dimension {
        of: usize,
        now: usize,
    },
    Rank,
    DType(DType),
    Missing,
    /// A pivot that is no row, if there are pivots.
    Pivot(i32),
}

#[derive(Clone, Debug)]
struct Case {
    routine: &'static str,
    storage: usize,
    per_rank: usize,
    ranks: usize,
    rhs: usize,
    dtype: DType,
    seed: u64,
    /// Whether results that start as operands are in their memory.
    aliased: bool,
    /// (rank, array, fault)
    faults: Vec<(usize, usize, Fault)>,
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (0..2usize, 0..20usize).prop_map(|(of, now)| Fault::Dimension { of, now }),
        Just(Fault::Rank),
        select(&DTYPES[..]).prop_map(Fault::DType),
        Just(Fault::Missing),
        any::<i32>().prop_map(Fault::Pivot),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let routines: Vec<_> = solvers().map(|routine| routine.name).collect();
    let sizes = (0..3usize, 0..7usize, 1..5usize, 0..4usize);
    let faults =
        prop_oneof![Just(Vec::new()), vec((any::<usize>(), any::<usize>(), faults()), 1..3)];
    (select(routines), sizes, select(&DTYPES[..]), 1..u64::MAX, any::<bool>(), faults).prop_map(
        |(routine, (storage, per_rank, ranks, rhs), dtype, seed, aliased, faults)| Case {
            routine,
            storage,
            per_rank,
            ranks,
            rhs,
            dtype,
            seed,
            aliased,
            faults,
        },
    )
}

type Shape = (Vec<usize>, DType);

/// The required shape of an array of a kind.
fn expected(kind: Kind, case: &Case, tall: bool) -> Shape {
    let (local, n) = (case.per_rank, case.per_rank * case.ranks);
    match kind {
        Kind::Matrix | Kind::Factor if tall => (vec![n, local], case.dtype),
        Kind::Matrix | Kind::Factor => (vec![local, n], case.dtype),
        Kind::Rhs | Kind::Solution => (vec![n, case.rhs], case.dtype),
        Kind::Aligned => (vec![local, case.rhs], case.dtype),
        Kind::Triangle => (vec![n, n], case.dtype),
        Kind::Upper => (vec![n, local], case.dtype),
        Kind::Coefficients => (vec![n], case.dtype),
        Kind::Residuals => (vec![case.rhs], case.dtype.real()),
        Kind::Eigenvalues => (vec![n], case.dtype.real()),
        Kind::Pivots => (vec![n], DType::S32),
        Kind::Info => (vec![], DType::S32),
        Kind::Norm | Kind::Rcond | Kind::Logdet | Kind::Number => (vec![], case.dtype.real()),
        Kind::Value => (vec![], case.dtype),
    }
}

/// An array in memory of exactly its size, whose ends the sanitizer guards.
struct Array {
    dims: Vec<usize>,
    dtype: DType,
    memory: *mut u8,
}

impl Array {
    /// Numbers in [-1, 1); valid rows as pivots; zeros in other integers.
    fn new((dims, dtype): Shape, kind: Kind, random: &mut Random) -> Array {
        let count = dims.iter().product::<usize>() * dtype.size();
        let bytes: Vec<u8> = match dtype.real() {
            DType::F32 => {
                (0..count / 4).flat_map(|_| (random.next() as f32).to_ne_bytes()).collect()
            }
            DType::F64 => (0..count / 8).flat_map(|_| random.next().to_ne_bytes()).collect(),
            _ if kind == Kind::Pivots => (0..count as i32 / 4).flat_map(i32::to_ne_bytes).collect(),
            _ => vec![0; count],
        };
        // SAFETY: the size is not 0; the copy has as many bytes as both arrays.
        let memory = unsafe {
            let memory = std::alloc::alloc(Self::layout(bytes.len()));
            memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            memory
        };
        Array { dims, dtype, memory }
    }

    /// At least one byte, with XLA's alignment.
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes.max(1), 64).unwrap()
    }

    fn buffer(&self) -> Buffer {
        self.at(self.memory)
    }

    /// Of this dtype and shape, at an address.
    fn at(&self, first: *mut u8) -> Buffer {
        // SAFETY: *memory* of the test, which keeps it until the call has its reply.
        unsafe { Buffer::new(first, self.dtype, self.dims.clone()) }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and no call is running.
        unsafe { std::alloc::dealloc(self.memory, Self::layout(self.buffer().bytes())) };
    }
}

/// The arrays of all ranks with the faults, and the missing array of each rank.
fn with_faults(case: &Case, right: &[Shape]) -> (Vec<Vec<Shape>>, Vec<Option<usize>>) {
    let mut shapes = vec![right.to_vec(); case.ranks];
    let mut missing = vec![None; case.ranks];
    for (rank, array, fault) in &case.faults {
        let (rank, array) = (rank % case.ranks, array % right.len());
        let (dims, dtype) = &mut shapes[rank][array];
        match fault {
            Fault::Dimension { of, now } if *of < dims.len() => dims[*of] = *now,
            Fault::Rank => dims.push(1),
            Fault::DType(other) => *dtype = *other,
            Fault::Missing => missing[rank] = Some(array),
            Fault::Dimension { .. } | Fault::Pivot(_) => {}
        }
    }
    (shapes, missing)
}

/// Whether the arrays are right, if their descriptions determine that, and the answers of all
/// ranks.
fn answers(case: &Case) -> (Option<bool>, Vec<Result<(), Error>>) {
    let routine = solvers().find(|routine| routine.name == case.routine).unwrap();
    let (storage_name, storage) = Storage::ALL[case.storage];
    let tall = match storage {
        Storage::Rows => false,
        Storage::Columns => routine.takes_matrix(),
        Storage::ColumnMajor => true,
    };
    let (args, rets) = (routine.signature.args, routine.signature.rets);
    let kinds: Vec<_> = args.iter().chain(rets).map(|slot| slot.kind).collect();
    let right: Vec<_> = kinds.iter().map(|kind| expected(*kind, case, tall)).collect();
    let (shapes, missing) = with_faults(case, &right);
    let same = shapes.iter().all(|shapes| *shapes == right);
    let whole_rows = storage == Storage::Rows || case.ranks == 1;
    let requires = |one| routine.requires.contains(&one);
    let has_rows = case.ranks == 1 || case.per_rank == 0 || !requires(Requirement::TallShards);
    let lies = has_rows && (whole_rows || !requires(Requirement::WholeRows));
    let complete = same && missing.iter().all(Option::is_none);
    let described = complete && lies && case.dtype != DType::S32;

    let mut random = Random(case.seed);
    let mut array = |(shape, kind): (&Shape, &Kind)| Array::new(shape.clone(), *kind, &mut random);
    let arrays: Vec<Vec<_>> =
        shapes.iter().map(|shapes| shapes.iter().zip(&kinds).map(&mut array).collect()).collect();
    let pivots = args.iter().position(|slot| slot.kind == Kind::Pivots);
    let mut wild = false;
    for (rank, _, fault) in &case.faults {
        let (Fault::Pivot(pivot), Some(pivots)) = (fault, pivots) else { continue };
        let array = &arrays[rank % case.ranks][pivots];
        if array.buffer().bytes() >= 4 {
            // SAFETY: the memory has at least four bytes, and no call is running.
            unsafe { array.memory.cast::<i32>().write(*pivot) };
            wild = true;
        }
    }

    let map = Map::routine(case.routine, case.ranks).text("rhs", "replicated").int("tile", 2);
    let map = map.text("storage", storage_name).text("order", ["natural", "cyclic"][case.rhs % 2]);
    let site = CallSite::new(&map.only_own()).unwrap();
    let run = launch();
    let (to, from) = outcomes();
    for (rank, arrays) in arrays.iter().enumerate() {
        let mut given: Vec<_> = arrays.iter().map(Array::buffer).collect();
        for (i, slot) in rets.iter().enumerate() {
            if let Some(operand) = slot.from.filter(|_| same && case.aliased) {
                given[args.len() + i] = arrays[args.len() + i].at(given[operand].as_ptr());
            }
        }
        let mut count = args.len();
        if let Some(array) = missing[rank] {
            given.remove(array);
            count -= usize::from(array < count);
        }
        let rets = given.split_off(count);
        arrive(&site, run, Call::new(rank, rank as i32, given, rets), &to);
    }
    let answers = collect(&from, case.ranks).into_iter().map(|(_, outcome)| outcome).collect();
    // With one rank, other sizes may also be consistent.
    let known = !(described && wild) && (described || case.ranks > 1);
    (known.then_some(described), answers)
}

#[test]
fn right_arrays_are_worked_on_and_wrong_ones_are_an_error_for_all() {
    check(1500, &cases(), |case| {
        let (right, answers) = answers(&case);
        for answer in &answers {
            prop_assert_eq!(answer.is_ok(), answers[0].is_ok());
            prop_assert!(right.is_none_or(|right| right == answer.is_ok()), "{:?}", answer);
            if let Err(error) = answer {
                prop_assert_eq!(error.kind, InvalidArgument, "{}", error);
                let start = format!("meshsolve.{}: ", case.routine);
                prop_assert!(error.message.starts_with(&start), "{}", error);
            }
        }
        Ok(())
    });
}
