//! The shards of several devices of a process as one, in memory of the process, because ScaLAPACK takes
//! one array of each process. A device alone needs no copy.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Part, elements, elements_mut};
use crate::call::{Buffer, Call};
use crate::device::cpu::Scratch;
use crate::error::Result;
use crate::layout::Storage;
use crate::processes::{Grid, Work};
use crate::routines::solver::operands::Problem;
use crate::routines::solver::options::{Options, Rhs};
use crate::routines::solver::slot::{Kind, Slot};
use crate::scalar::Scalar;

/// This process' work.
pub fn work<T: Scalar>(
    options: Options,
    problem: &Problem,
    mut calls: Vec<Call>,
) -> Result<Box<dyn Work>> {
    match calls.len() {
        1 => Ok(Box::new(Part::<T>::new(options, problem, 1, calls.remove(0))?)),
        _ => Ok(Box::new(Joined::<T>::new(options, problem, calls)?)),
    }
}

/// How the arrays of devices make that of their process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All have the same: it is that of the first device.
    Same,
    /// One after the other.
    Rows,
    /// Side by side: each has some columns of every row.
    Columns,
}

impl Way {
    fn of(slot: &Slot, options: &Options) -> Way {
        match slot.kind {
            Kind::Matrix if options.storage == Storage::Columns => Way::Columns,
            Kind::Matrix | Kind::Factor => Way::Rows,
            Kind::Upper => Way::Columns,
            Kind::Rhs if options.rhs == Rhs::Columns => Way::Columns,
            _ => Way::Same,
        }
    }

    /// Parts of the array of device `index`, with their places in that of the process. `extents` are
    /// those of the device's.
    fn parts(
        self,
        [rows, columns]: [usize; 2],
        [index, devices]: [usize; 2],
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let (lines, length) = match self {
            Way::Columns => (rows, columns),
            _ => (1, rows * columns),
        };
        (0..lines).map(move |line| {
            let (from, to) = (line * length, (line * devices + index) * length);
            (from..from + length, to..to + length)
        })
    }
}

/// Rows and columns of an array as it is in memory. By columns a matrix that is made from a factor has
/// the dimensions of that.
fn extents(of: &Buffer, slot: &Slot, options: &Options) -> [usize; 2] {
    let dims: [usize; 2] = of.dims().try_into().expect("a matrix or right-hand sides (checked)");
    let is_turned = slot.kind == Kind::Matrix
        && options.storage == Storage::Columns
        && !options.routine.takes_matrix();
    if is_turned { [dims[1], dims[0]] } else { dims }
}

/// A part of several devices.
struct Joined<T> {
    part: Part<T>,
    calls: Vec<Call>,
    /// What the part's buffers are in, if they are no device's: pages, as libraries may round by the
    /// alignment of an array.
    memory: Vec<Scratch>,
    elements: PhantomData<T>,
}

impl<T: Scalar> Joined<T> {
    fn new(options: Options, problem: &Problem, calls: Vec<Call>) -> Result<Self> {
        let (signature, devices, first) = (options.routine.signature, calls.len(), &calls[0]);
        let mut memory = Vec::new();
        let mut whole = |way: Way, slot: &Slot, one: &Buffer| -> Result<Buffer> {
            let [rows, columns] = extents(one, slot, &options);
            let dims = match way {
                Way::Columns => vec![rows, devices * columns],
                _ => vec![devices * rows, columns],
            };
            let pages = Scratch::new(devices * one.bytes())?;
            let at = pages.cells::<T>(0, devices * rows * columns).as_ptr().cast();
            memory.push(pages);
            // SAFETY: memory of so many elements, which this work keeps to its end and uses alone.
            Ok(unsafe { Buffer::new(at, T::DTYPE, dims) })
        };
        let args = signature.args.iter().zip(&first.args).map(|(slot, one)| {
            match Way::of(slot, &options) {
                Way::Same => Ok(one.clone()),
                way => whole(way, slot, one),
            }
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        let rets = signature.rets.iter().zip(&first.rets).map(|(slot, one)| {
            match (Way::of(slot, &options), slot.from) {
                (Way::Same, _) => Ok(one.clone()),
                // As if XLA had aliased them.
                (_, Some(arg)) => Ok(args[arg].clone()),
                (way, None) => whole(way, slot, one),
            }
        });
        let rets = rets.collect::<Result<Vec<_>>>()?;
        let call = Call::new(first.rank, first.device, args, rets);
        let part = Part::new(options, problem, devices, call)?;
        Ok(Joined { part, calls, memory, elements: PhantomData })
    }
}

impl<T: Scalar> Work for Joined<T> {
    fn rank(&self) -> usize {
        self.part.rank()
    }

    fn describe(&self) -> String {
        self.part.describe()
    }

    fn run(self: Box<Self>, grid: &Grid) -> Result<()> {
        let Joined { part, calls, memory, .. } = *self;
        let (whole, options, devices) = (part.call.clone(), part.options, calls.len());
        let signature = options.routine.signature;
        for (i, slot) in signature.args.iter().enumerate() {
            let way = Way::of(slot, &options);
            for (index, call) in calls.iter().enumerate().filter(|_| way != Way::Same) {
                // SAFETY: an operand of a device, which nothing writes until the reply, and memory of
                // this work.
                let (from, to) =
                    unsafe { (elements::<T>(&call.args[i]), elements_mut::<T>(&whole.args[i])) };
                let extents = extents(&call.args[i], slot, &options);
                for (of_device, place) in way.parts(extents, [index, devices]) {
                    to[place].copy_from_slice(&from[of_device]);
                }
            }
        }
        Box::new(part).run(grid)?;
        for (i, slot) in signature.rets.iter().enumerate() {
            let way = Way::of(slot, &options);
            for (index, call) in calls.iter().enumerate() {
                let to = &call.rets[i];
                if way == Way::Same {
                    share(&calls[0].rets[i], to);
                    continue;
                }
                // SAFETY: memory of this work, and a result of a device, which this thread alone uses
                // until the reply.
                let (from, result) =
                    unsafe { (elements::<T>(&whole.rets[i]), elements_mut::<T>(to)) };
                let extents = extents(to, slot, &options);
                for (of_device, place) in way.parts(extents, [index, devices]) {
                    result[of_device].copy_from_slice(&from[place]);
                }
            }
        }
        drop(memory);
        Ok(())
    }
}

/// Copies a result of the first device to that of another one.
fn share(from: &Buffer, to: &Buffer) {
    assert_eq!(from.bytes(), to.bytes(), "results of the same shape (checked)");
    if from.as_ptr() != to.as_ptr() {
        // SAFETY: *memory* of both (see `Buffer::new`), which are disjoint. This thread alone uses them
        // until the reply.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.bytes()) };
    }
}
