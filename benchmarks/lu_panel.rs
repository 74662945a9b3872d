//! The costs of sharing the panels of LU. They give the values of `Sharing` and the model in
//! `src/algorithms/lu/share.rs`. The program prints CSV of panels by one worker and by several,
//! with the product that follows a panel. It also prints whole factorisations whose workers share
//! as the model decides, never, or whenever they can.
//!
//! cargo run --release --example lu_panel -- [workers, default 2]

use std::sync::Mutex;
use std::time::Instant;

use meshsolve::algorithms::lu::factor;
use meshsolve::comm::{Comm, Communicator, Sharing};
use meshsolve::device::cpu::{CpuWorker, scratch_elements};
use meshsolve::device::{Device, Update};
use meshsolve::layout::{Distribution, GlobalRow, Mapping, TileColumn};
use meshsolve::matrix::{Blocks, Cells, DistMatrix, Panel};

const PANELS: [(usize, usize); 8] = [
    // (rows, columns)
    (256, 64),
    (512, 64),
    (1024, 64),
    (512, 128),
    (1024, 128),
    (2048, 128),
    (4096, 128),
    (8192, 128),
];
const ORDERS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

fn main() {
    let workers = std::env::args().nth(1).map_or(2, |n| n.parse().expect("a number of workers"));
    println!("panel,rows,columns,workers,panel_us,one_worker_us,product_us,barrier_us");
    for (rows, cols) in PANELS {
        let (one, product, _) = panel(rows, cols, 1);
        let (several, _, barrier) = panel(rows, cols, workers);
        println!("panel,{rows},{cols},{workers},{several:.1},{one:.1},{product:.1},{barrier:.2}");
    }
    println!("factor,n,workers,as_modelled_ms,never_ms,whenever_ms");
    let never = Sharing { workers: 1, ..Sharing::default() };
    let whenever = Sharing { barrier_cost: 0.0, ..Sharing::default() };
    for n in ORDERS {
        let [modelled, never, whenever] =
            factors(n, workers, [Sharing::default(), never, whenever]);
        println!("factor,{n},{workers},{modelled:.3},{never:.3},{whenever:.3}");
    }
}

/// Numbers without structure.
fn numbers(count: usize) -> Vec<f64> {
    let mut x = 88172645463325252u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs `work` on every worker of a call.
fn on_workers(comm: &Communicator, widest: usize, work: impl Fn(&mut CpuWorker<f64>) + Sync) {
    std::thread::scope(|scope| {
        for worker in 0..comm.workers() {
            let work = &work;
            scope.spawn(move || {
                let mut pack = vec![0.0; scratch_elements::<f64>(widest, 64)];
                let pack = Cells::of(&mut pack);
                // SAFETY: *order*: all workers of a communicator do the same work.
                work(&mut unsafe { CpuWorker::new(comm, worker, widest, pack) });
            });
        }
    });
}

/// Medians in microseconds: a panel, the following product on one worker, and a barrier.
fn panel(rows: usize, cols: usize, workers: usize) -> (f64, f64, f64) {
    let n = rows + cols;
    let mut kept = numbers(n * cols);
    // Of the other columns, only the next panel's are ever touched.
    let mut memory = vec![0.0; n * n];
    memory[..n * cols].copy_from_slice(&kept);
    memory[n * cols..2 * n * cols].copy_from_slice(&kept);
    let mut pivots = vec![0; cols];
    let pivots = Cells::of(&mut pivots);
    let tiles = Distribution::whole_columns((n, n), 1, cols, Mapping::Block);
    let matrix = DistMatrix::new(vec![Cells::of(&mut memory).by_columns(n, n, n)], &tiles);
    let kept = Cells::of(&mut kept).by_columns(n, cols, n);
    let (a, source) = (matrix.below(TileColumn::new(0)), kept.rows_from(cols));
    let first = TileColumn::new(0);
    let first = Panel::new(&matrix, first, matrix.all_rows(), matrix.tile_column(first));
    let comm = Communicator::new(workers);
    let times = [const { Mutex::new(Vec::new()) }; 3];
    on_workers(&comm, cols, |worker| {
        let me = worker.worker();
        let mut group = worker.group(0, workers);
        let own = group.rows(me, cols, rows);
        let note = |which: usize, from: Instant| {
            if me == 0 {
                times[which].lock().unwrap().push(1e6 * from.elapsed().as_secs_f64());
            }
        };
        for _ in 0..50 {
            worker.copy(source.row_range(own.clone()), a.row_range(own.clone()));
            worker.group_barrier(&mut group).unwrap();
            let start = Instant::now();
            worker.group_barrier(&mut group).unwrap();
            note(2, start);
            let start = Instant::now();
            worker.getrf(a, GlobalRow::new(cols), pivots, &mut group).unwrap();
            note(0, start);
            if workers == 1 {
                let start = Instant::now();
                let next = std::iter::once(TileColumn::new(1));
                worker.update(&matrix, &first, next, Update::Lu, matrix.all_rows());
                note(1, start);
            }
        }
    });
    let [panel, product, barrier] = times.map(|times| times.into_inner().unwrap());
    (median(panel), if workers == 1 { median(product) } else { 0.0 }, median(barrier))
}

/// Medians in milliseconds of a factorisation under each of the limits, in turn.
fn factors(n: usize, workers: usize, limits: [Sharing; 3]) -> [f64; 3] {
    let kept = numbers(n * n);
    let mut memory = kept.clone();
    let mut pivots = vec![0; n];
    let rows = Cells::of(&mut pivots);
    let tile = if n < 1536 { 64 } else { 128 };
    let distribution = Distribution::whole_columns((n, n), 1, tile, Mapping::Block);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..(8192 / n).clamp(3, 15) {
        for (limit, times) in limits.iter().zip(&mut times) {
            memory.copy_from_slice(&kept);
            let a =
                DistMatrix::new(vec![Cells::of(&mut memory).by_columns(n, n, n)], &distribution);
            let comm = Communicator::new(workers).with_sharing(*limit);
            let slowest = Mutex::new(0.0f64);
            on_workers(&comm, tile, |worker| {
                worker.barrier().unwrap();
                let start = Instant::now();
                let pivots = Blocks::new((0..workers).map(|_| rows), worker.worker());
                factor(worker, &a, &pivots).unwrap();
                let took = 1e3 * start.elapsed().as_secs_f64();
                let mut slowest = slowest.lock().unwrap();
                *slowest = slowest.max(took);
            });
            times.push(slowest.into_inner().unwrap());
        }
    }
    times.map(median)
}
