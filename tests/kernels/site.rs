//! Calls on the emulated driver's devices, through a call site without XLA: a host thread for each
//! device.

use std::sync::Mutex;
use std::time::Duration;

use meshsolve::call::Allocate;
use meshsolve::device::cuda::device::Devices;
use meshsolve::device::cuda::handle::Stream;
use meshsolve::error::{Error, Kind, Result};
use meshsolve::routines;
use meshsolve::routines::CudaArrival;
use meshsolve::scalar::DType;
use meshsolve::sites::CudaSite;

use crate::common::Map;
use crate::common::at;
use crate::kernels::gpu::{contexts, devices, fail, launches, stream};
use crate::kernels::memory::Array;
use crate::transposition::{Random, transposed};

/// Scratch as XLA allocates it, up to a limit.
struct Lender {
    limit: usize,
    lent: Vec<Array>,
}

impl Lender {
    fn up_to(limit: usize) -> Self {
        Lender { limit, lent: Vec::new() }
    }
}

impl Allocate for Lender {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let mut array = Array::random(bytes, 16, &mut Random(bytes as u64 + 1));
        let address = array.pointer().addr() as u64;
        self.lent.push(array);
        (bytes <= self.limit).then_some(address)
    }
}

/// One device's memory: `place`, an operand and a result, which may be identical.
struct Shard {
    place: Array,
    x: Array,
    y: Option<Array>,
    dtype: DType,
    dims: Vec<usize>,
    stream: Stream,
    lender: Lender,
}

impl Shard {
    fn new(rank: i32, group: i32, dtype: DType, dims: &[usize], aliased: bool) -> Self {
        let bytes = dims.iter().product::<usize>() * dtype.size();
        let seed = Random(1 + rank as u64 * 7 + group as u64).next();
        let x = Array::random(bytes, dtype.size(), &mut Random(seed));
        let y = (!aliased).then(|| Array::new(bytes, dtype.size()));
        let place = Array::of_value([rank, group]);
        let (stream, lender) = (stream(rank % 3), Lender::up_to(1 << 20));
        Shard { place, x, y, dtype, dims: dims.to_vec(), stream, lender }
    }

    fn call(&mut self, site: &CudaSite, devices: &Devices, run: i64) -> Result<()> {
        let Shard { place, x, y, dtype, dims, stream, lender } = self;
        let buffer = |array: &mut Array| at(array.pointer(), *dtype, dims);
        let device = 10 + place.content()[0] as i32;
        let place = at(place.pointer(), DType::S32, &[2]);
        let args = vec![buffer(x)];
        let rets = vec![buffer(y.as_mut().unwrap_or(x))];
        let stream = *stream;
        site.run(devices, CudaArrival { run, device, stream, scratch: lender, place, args, rets })
    }

    fn wait(&self, devices: &Devices) {
        devices.of_stream(self.stream).unwrap().wait(self.stream).unwrap();
    }

    fn result(&self) -> &[u8] {
        self.y.as_ref().unwrap_or(&self.x).content()
    }

    fn check(&self) {
        let lent = &self.lender.lent;
        lent.iter().chain([&self.x, &self.place]).chain(&self.y).for_each(|a| a.check("a call"));
    }
}

/// All devices of a launch, each on its own thread; outcomes by rank.
fn launch(
    site: &CudaSite,
    devices: &Devices,
    run: i64,
    shards: &mut [Shard],
    before: impl Fn(usize) + Sync,
) -> Vec<Result<()>> {
    let outcomes: Vec<_> = shards.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for (rank, (shard, outcome)) in shards.iter_mut().zip(&outcomes).enumerate() {
            let before = &before;
            scope.spawn(move || {
                before(rank);
                *outcome.lock().unwrap() = Some(shard.call(site, devices, run));
                assert_eq!(contexts(), 0);
            });
        }
    });
    outcomes.into_iter().map(|o| o.into_inner().unwrap().expect("an outcome")).collect()
}

fn errors(outcomes: Vec<Result<()>>) -> Vec<Error> {
    outcomes.into_iter().map(|o| o.expect_err("all fail")).collect()
}

#[test]
fn every_device_transposes_its_part() {
    let (devices, site) = (devices().0, CudaSite::new(&Map::routine("transpose", 3)).unwrap());
    let shapes = [(1, 7), (40, 40), (128, 256), (61, 47), (5, 300), (300, 5), (0, 4)];
    for (k, (rows, cols)) in shapes.into_iter().enumerate() {
        for aliased in [true, false] {
            let dtype = [DType::S32, DType::F64, DType::C128][k % 3];
            let shard = |rank| Shard::new(rank, 0, dtype, &[rows, cols], aliased);
            let mut shards: Vec<_> = (0..3).map(shard).collect();
            let before: Vec<_> = shards.iter().map(|s| s.x.content().to_vec()).collect();
            for outcome in launch(&site, &devices, k as i64 - 3, &mut shards, |_| ()) {
                outcome.unwrap();
            }
            for (shard, before) in shards.iter().zip(before) {
                shard.wait(&devices);
                assert!(shard.result() == transposed(&before, rows, cols, dtype.size()));
                assert!(aliased || shard.x.content() == before, "an operand of its own stays");
                shard.check();
            }
        }
    }
}

/// The host thread does not wait for its device, and needs no other one.
#[test]
fn a_transposition_waits_for_nothing() {
    let (devices, site) = (devices().0, CudaSite::new(&Map::routine("transpose", 2)).unwrap());
    let mut shard = Shard::new(1, 0, DType::F32, &[30, 30], true);
    let before = shard.x.content().to_vec();
    shard.call(&site, &devices, 5).unwrap();
    assert!(shard.x.content() == before && launches() == ["transpose_square_4"]);
    shard.wait(&devices);
    assert!(shard.x.content() == transposed(&before, 30, 30, 4));
}

#[test]
fn buffers_of_a_transposition_are_checked() {
    let (devices, site) = (devices().0, CudaSite::new(&Map::routine("transpose", 1)).unwrap());
    let message = |dims: &[usize], run| {
        let mut shard = Shard::new(0, 0, DType::F32, dims, true);
        shard.call(&site, &devices, run).unwrap_err().message
    };
    let expected = "meshsolve.transpose: x: expected a matrix as operand";
    assert_eq!([message(&[4], 1), message(&[2, 2, 2], 2)], [expected, expected]);
    let mut shard = Shard::new(0, 0, DType::F32, &[4, 4], true);
    let buffer = at(shard.x.pointer(), DType::F32, &[4, 4]);
    let other = at(shard.x.pointer(), DType::F32, &[2, 8]);
    let place = at(shard.place.pointer(), DType::S32, &[2]);
    let (args, rets) = (vec![buffer.clone()], vec![other]);
    let (stream, scratch) = (shard.stream, &mut shard.lender);
    let arrival = CudaArrival { run: 3, device: 0, stream, scratch, place, args, rets };
    let error = site.run(&devices, arrival).unwrap_err();
    assert_eq!(error.message, "meshsolve.transpose: y: expected float32[4,4], got float32[2,8]");
}

#[test]
fn scratch_that_there_is_not() {
    let (devices, site) = (devices().0, CudaSite::new(&Map::routine("transpose", 1)).unwrap());
    let mut shard = Shard::new(0, 0, DType::F64, &[61, 47], true);
    shard.lender.limit = 100;
    let error = shard.call(&site, &devices, 1).unwrap_err();
    let bytes = shard.lender.lent[0].content().len();
    let expected = format!(
        "meshsolve.transpose: CUDA device 0: expected {bytes} bytes of scratch, got none; free memory of \
         the device, or give JAX more of it with XLA_PYTHON_CLIENT_MEM_FRACTION"
    );
    assert_eq!((error.kind, error.message), (Kind::ResourceExhausted, expected));
    assert!(launches().is_empty());
}

#[test]
fn devices_meet_in_groups_and_in_loops() {
    let (devices, site) = (devices().0, CudaSite::new(&Map::routine("diagnose", 2)).unwrap());
    for turn in 0..20 {
        // Two groups of two, one of them in the other order; always the same run.
        let places = [(0, 0), (1, 1), (1, 0), (0, 1)];
        let shard = |(rank, group)| Shard::new(rank, group, DType::F32, &[4], turn % 2 == 0);
        let mut shards: Vec<_> = places.into_iter().map(shard).collect();
        for outcome in launch(&site, &devices, 9, &mut shards, |_| ()) {
            outcome.unwrap();
        }
        for shard in &shards {
            shard.wait(&devices);
            assert!(shard.result() == shard.x.content());
            shard.check();
        }
    }
}

fn diagnose(world: usize, fault: &str) -> CudaSite {
    let map = Map::routine("diagnose", world).text("fault", fault).int("fault_rank", 1);
    CudaSite::new(&map).unwrap()
}

fn three() -> Vec<Shard> {
    (0..3).map(|rank| Shard::new(rank, 0, DType::F32, &[4], true)).collect()
}

#[test]
fn a_failure_of_one_is_that_of_all() {
    let (devices, _) = devices();
    for (fault, text) in [
        ("error", "meshsolve.diagnose: rank 1 was asked to fail"),
        ("panic", "a panic in a call on a CUDA device was caught: rank 1 was asked to panic"),
    ] {
        let site = diagnose(3, fault);
        for run in 0..30 {
            // Any rank may come last.
            let late = |rank| {
                if rank as i64 == run % 4 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            };
            let errors = errors(launch(&site, &devices, run, &mut three(), late));
            assert!(errors.iter().all(|e| *e == errors[0]), "{errors:?}");
            assert!(errors[0].message.contains(text), "{errors:?}");
        }
    }
}

/// The driver fails on one rank: when it reads its place, and after all have met.
#[test]
fn a_failure_of_one_device_is_that_of_all() {
    let (devices, site) = (devices().0, diagnose(3, "none"));
    let cases = [
        ("cuStreamGetCtx", "a CUDA stream: expected cuStreamGetCtx to succeed, got 400"),
        ("cuMemcpyDtoHAsync_v2", "reading on CUDA device 2: expected cuMemcpyDtoHAsync to"),
        ("cuStreamSynchronize", "waiting on CUDA device 2: expected cuStreamSynchronize to"),
        ("cuMemcpyDtoDAsync_v2", "copying on CUDA device 2: expected cuMemcpyDtoDAsync to"),
    ];
    for (run, (function, text)) in cases.into_iter().enumerate() {
        let shard = |rank| Shard::new(rank, 0, DType::F32, &[4], false);
        let mut shards: Vec<_> = (0..3).map(shard).collect();
        let fails = |rank| {
            if rank == 2 {
                fail(function, 0, 400)
            }
        };
        let errors = errors(launch(&site, &devices, run as i64, &mut shards, fails));
        assert!(errors.iter().all(|e| e.message.contains(text)), "{errors:?}");
    }
    for outcome in launch(&site, &devices, 99, &mut three(), |_| ()) {
        outcome.unwrap();
    }
}

#[test]
fn equal_ranks_and_ranks_out_of_range_are_errors_for_all() {
    let (devices, site) = (devices().0, diagnose(3, "none"));
    let with = |ranks: [i32; 3]| ranks.map(|r| Shard::new(r, 0, DType::F32, &[4], true));
    let twice = errors(launch(&site, &devices, 1, &mut with([0, 2, 2]), |_| ()));
    let text = "meshsolve.diagnose: operand `place`: devices 12 and 12 both claim rank 2 of 3; pass \
                lax.axis_index of the mesh axis, and its group if the mesh has more axes";
    assert!(twice.iter().all(|e| e.message == text), "{twice:?}");
    let outside = errors(launch(&site, &devices, 2, &mut with([0, 1, 7]), |_| ()));
    let text = "operand `place` of device 17: expected a rank below world = 3, got 7";
    assert!(outside.iter().all(|e| e.message.contains(text)), "{outside:?}");
}

#[test]
fn every_routine_works_on_cuda_devices() {
    for name in routines::table().map(|routine| routine.name()) {
        // The attributes of all routines.
        let map = |name| Map::routine(name, 2).text("rhs", "replicated");
        let site = [Map::routine(name, 2), map(name)].map(|map| CudaSite::new(&map).err());
        assert!(site.iter().any(Option::is_none), "{name}: {site:?}");
    }
}
