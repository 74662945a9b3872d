//! What workers do together, without an algorithm: reductions, gathering and copying of blocks. A
//! matrix gives a worker no memory that it does not reach.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use meshsolve::comm::{Comm, Communicator, Members, Queue, Sharing};
use meshsolve::layout::{Column, Distribution, Index, Layout, Mapping, Partition, TileColumn};
use meshsolve::matrix::{Cells, DistMatrix};
use meshsolve::scalar::larger;
use meshsolve::settings;

use crate::common::workers::{each, on_workers, shared};

const WORKERS: usize = 3;

#[test]
fn all_workers_get_the_same_numbers_in_every_reduction() {
    on_workers::<f64>(&Communicator::new(WORKERS), 1, |worker| {
        let me = worker.worker();
        for turn in 0..200 {
            let mine = ((turn + me) % WORKERS + turn) as f64;
            let of_one = if turn % 5 == 0 && me == turn % WORKERS { f64::NAN } else { -mine };
            let [largest, other] = worker.all_reduce([mine, of_one], larger).unwrap();
            assert_eq!(largest, (WORKERS - 1 + turn) as f64);
            assert_eq!(other.is_nan(), turn % 5 == 0, "NaN is kept");
            // In the order of workers: another one would lose the 1.
            let parts = [[1e17, -1e17, 1.0][me]];
            assert_eq!(worker.all_reduce(parts, |x, y| x + y).unwrap(), [1.0]);
        }
    });
}

/// The second time as the first, as the queue begins again.
#[test]
fn workers_take_each_piece_once_and_fewer_at_a_time_towards_the_end() {
    for (all, most) in [(0, 3), (1, 3), (57, 3), (40, 5), (7, 100)] {
        let comm = Communicator::new(WORKERS);
        let taken = Mutex::new(Vec::new());
        on_workers::<f64>(&comm, 1, |worker| {
            for turn in 0..2 {
                if worker.worker() == 0 {
                    comm.queue().restart();
                }
                worker.barrier().unwrap();
                while let Some(pieces) = comm.queue().take(all, most, WORKERS) {
                    taken.lock().unwrap().push((turn, pieces.start, pieces.end));
                }
                worker.barrier().unwrap();
            }
        });
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        for turn in 0..2 {
            let mut next = 0;
            for &(_, start, end) in taken.iter().filter(|(of, ..)| *of == turn) {
                assert_eq!(start, next, "every piece, and no other: {taken:?}");
                let left = all - start;
                assert_eq!(end - start, most.min(left.div_ceil(2 * WORKERS)), "{taken:?}");
                next = end;
            }
            assert_eq!(next, all, "{taken:?}");
        }
    }
    // Nothing is lost after the end.
    let queue = Queue::default();
    assert_eq!(queue.take(2, 9, 1), Some(0..1));
    assert_eq!([queue.take(2, 9, 1), queue.take(2, 9, 1)], [Some(1..2), None]);
    assert_eq!(queue.take(3, 9, 1), Some(2..3));
}

/// The first of the largest, with where it is.
#[test]
fn a_group_agrees_on_a_value_with_its_location() {
    let comm = Communicator::new(WORKERS);
    on_workers::<f64>(&comm, 1, |worker| {
        let me = worker.worker();
        let mut group = worker.group(1, WORKERS);
        let mut members = Members::new(&comm, me, &mut group);
        for turn in 0..100 {
            let mine = (usize::from(me != turn % WORKERS), 10 * me);
            let best = |all: &mut dyn Iterator<Item = &(usize, usize)>| {
                let better = |best: (usize, usize), one: &(usize, usize)| {
                    if one.0 > best.0 { *one } else { best }
                };
                all.fold((0, usize::MAX), better)
            };
            // Member 0 is worker 1.
            let first = if turn % WORKERS == 1 { 2 } else { 1 };
            assert_eq!(members.all_reduce(mine, best).unwrap(), (1, 10 * first), "turn {turn}");
        }
    });
}

/// Workers with memory of their own, as ranks have.
#[test]
fn blocks_are_gathered_from_the_owners_of_their_rows_and_copied_from_one() {
    let columns = Partition::<Column>::new(14, 2, 3, Mapping::Block);
    let rows = 14;
    let mut memory: Vec<Vec<f64>> = (0..WORKERS).map(|w| vec![w as f64; 2 * rows]).collect();
    let blocks: Vec<_> =
        memory.iter_mut().map(|one| Cells::of(one).by_columns(rows, 2, rows)).collect();
    on_workers::<f64>(&Communicator::new(WORKERS), 1, |worker| {
        let (left, right) = (each(worker, &blocks), each(worker, &blocks));
        let left = left.part(|one| one.column(0));
        worker.all_gather(&left, &columns, columns.each()).unwrap();
        let right = right.part(|one| one.column(1));
        worker.replicate(&right, 2).unwrap();
        assert_eq!(right.of(1).rank(), right.own().rank());
    });
    for block in memory {
        for t in columns.each() {
            let of_tile = columns.range(t);
            let owner = (t.get() % WORKERS) as f64;
            assert!((of_tile.start.get()..of_tile.end.get()).all(|i| block[i] == owner));
        }
        assert!(block[rows..].iter().all(|x| *x == 2.0));
    }
}

#[test]
fn what_is_in_place_is_not_copied() {
    let mut memory = [1.0, 2.0];
    let block = Cells::of(&mut memory);
    let seen = Mutex::new(Vec::new());
    on_workers::<f64>(&Communicator::new(2), 1, |worker| {
        let blocks = shared(worker, block);
        let there = worker.fetch(blocks.of(1 - worker.worker())).unwrap();
        seen.lock().unwrap().push(there.as_ptr() as usize);
        worker.replicate(&blocks, 0).unwrap();
    });
    let at = block.as_ptr() as usize;
    assert_eq!(seen.into_inner().unwrap(), [at, at]);
}

#[test]
#[should_panic(expected = "rank 0 is reached by a communicator")]
fn a_matrix_as_one_rank_has_it_gives_no_tile_of_another() {
    let d = Distribution::whole_columns((4, 4), 2, 2, Mapping::BlockCyclic);
    let mut shards = vec![vec![0.0; 8]; 2];
    let cells = |(rank, shard): (usize, &mut Vec<f64>)| {
        // SAFETY: *memory* of the shard, which lives longer.
        unsafe { Cells::new(shard.as_mut_ptr(), &Layout::left((4, 2)), rank) }
    };
    let shards = shards.iter_mut().enumerate().map(cells).collect();
    let a = DistMatrix::new(shards, &d).seen_from(Some(1));
    assert_eq!((a.tile_column(TileColumn::new(1)).cols(), a.shard(1).rank()), (2, 1));
    assert_eq!(a.remote_tile(Index::new(0), TileColumn::new(0)).rank(), 0);
    a.tile_column(TileColumn::new(0));
}

/// How often this thread has slept.
fn sleeps() -> i64 {
    // SAFETY: zeros are valid, and the call fills them in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_nvcsw
    }
}

/// Whether worker 0 has slept at a barrier that worker 1 reaches a moment later, in each of some tries.
fn sleeps_at_barriers(comm: &Communicator) -> Vec<bool> {
    let (waits, slept) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    on_workers::<f64>(comm, 1, |worker| {
        for turn in 0..40 {
            if worker.worker() == 0 {
                let before = sleeps();
                waits.store(turn + 1, Ordering::Release);
                worker.barrier().unwrap();
                slept.lock().unwrap().push(sleeps() > before);
            } else {
                while waits.load(Ordering::Acquire) <= turn {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_micros(300));
                worker.barrier().unwrap();
            }
        }
    });
    slept.into_inner().unwrap()
}

#[test]
fn workers_that_can_run_at_the_same_time_do_not_sleep_at_once() {
    let on_cores =
        |cores| Communicator::new(2).with_sharing(Sharing { workers: cores, ..Sharing::default() });
    assert!(sleeps_at_barriers(&on_cores(2)).contains(&false), "it always slept");
    assert!(sleeps_at_barriers(&on_cores(1)).contains(&true), "it never slept");
    let of_call = sleeps_at_barriers(&Communicator::of_call(2, None));
    assert!(of_call.contains(&(settings::cores() < 2)), "a call differs from its machine");
}
