//! The solvers' routines on the emulated devices: the cases of the host, by ranks on three devices and by
//! ranks that share one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use meshsolve::backend::cuda::device::{Devices, Stream};
use meshsolve::call::{Allocate, Buffer, Call};
use meshsolve::error::Result;
use meshsolve::rendezvous::{CudaArrival, CudaSite};
use meshsolve::scalar::DType;

use crate::common::Map;
use crate::common::case::Place;
use crate::gpu::{contexts, devices, stream};
use crate::memory::Array;

/// Scratch that holds garbage, between canaries.
#[derive(Default)]
pub struct Lender {
    lent: Vec<Array>,
}

impl Allocate for Lender {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let mut array = Array::new(bytes, 64);
        array.content_mut().fill(0xEE);
        let address = array.pointer().addr() as u64;
        self.lent.push(array);
        Some(address)
    }
}

impl Lender {
    pub fn check(&self) {
        self.lent.iter().for_each(|array| array.check("a call"));
    }
}

/// Runs all ranks, each by a thread of its own; outcomes by rank.
pub fn run(
    site: &CudaSite,
    devices: &Devices,
    streams: &[Stream],
    calls: Vec<Call>,
) -> Vec<Result<()>> {
    static RUN: AtomicI64 = AtomicI64::new(0);
    let (run, outcomes) = (RUN.fetch_add(1, Relaxed), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (Call { rank, device, args, rets }, &stream) in calls.into_iter().zip(streams) {
            let outcomes = &outcomes;
            scope.spawn(move || {
                let (mut scratch, mut place) = (Lender::default(), [rank as i32, 0]);
                let ptr = place.as_mut_ptr().cast();
                let place = Buffer { ptr, dtype: DType::S32, dims: vec![2] };
                let scratch_of = &mut scratch;
                let arrival =
                    CudaArrival { run, device, stream, scratch: scratch_of, place, args, rets };
                let outcome = site.run(devices, arrival);
                scratch.check();
                assert_eq!(contexts(), 0);
                outcomes.lock().unwrap().push((rank, outcome));
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(rank, _)| *rank);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn on_streams(map: &Map, calls: Vec<Call>, device: fn(usize) -> i32) {
    let (devices, site) = (devices().0, CudaSite::new(map).unwrap());
    let streams: Vec<_> = (0..calls.len()).map(|rank| stream(device(rank))).collect();
    for (rank, outcome) in run(&site, &devices, &streams, calls).into_iter().enumerate() {
        outcome.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
    }
}

fn on_three_devices(map: &Map, calls: Vec<Call>) {
    on_streams(map, calls, |rank| rank as i32 % 3);
}

fn on_one_device(map: &Map, calls: Vec<Call>) {
    on_streams(map, calls, |_| 1);
}

const THREE_DEVICES: Place = Some(on_three_devices);
const ONE_DEVICE: Place = Some(on_one_device);

mod ranks_on_three_devices {
    crate::routines::every_routine!(crate::solve::THREE_DEVICES);
}

mod ranks_that_share_a_device {
    crate::routines::every_routine!(crate::solve::ONE_DEVICE; c128 faer::c64);
}
