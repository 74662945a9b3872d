//! Traces of calls: the contents of the file, and when it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::alone;
use crate::common::workers::{matrix, on_workers, shards, shared};
use faer::Mat;
use meshsolve::algorithms::{cholesky, lu};
use meshsolve::comm::{Communicator, Sharing};
use meshsolve::device::Worker;
use meshsolve::device::cpu::CpuWorker;
use meshsolve::layout::{Column, Distribution, Mapping, Partition};
use meshsolve::matrix::Cells;
use meshsolve::stats::CallStats;
use meshsolve::trace::Trace;

const N: usize = 200;
const TILE: usize = 24;

/// An event of the file, without its braces.
struct Event(String);

impl Event {
    fn field(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.0.split_once(&format!("\"{name}\":"))?;
        Some(rest.split([',', '}']).next().unwrap().trim_matches('"'))
    }

    fn number(&self, name: &str) -> f64 {
        self.field(name).unwrap().parse().unwrap()
    }

    fn is(&self, phase: &str) -> bool {
        self.field("ph") == Some(phase)
    }
}

/// The events of a file, which must be complete.
fn events(trace: &Trace) -> Vec<Event> {
    let text = std::fs::read_to_string(trace.path()).unwrap();
    let inside = text.strip_prefix("[\n").unwrap().strip_suffix("\n]\n").unwrap();
    let event = |line: &str| Event(line.strip_suffix("}").unwrap().to_string());
    inside.split(",\n").map(event).collect()
}

/// A file name for this test alone.
fn new_trace(test: &str) -> Arc<Trace> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    Trace::create(&folder.join("calls.json"), Instant::now()).unwrap()
}

fn figures(routine: &'static str, workers: usize) -> CallStats {
    CallStats { routine, dtype: "float64", n: N, ranks: 2, workers, ..CallStats::default() }
}

/// A factorisation, in a phase, with its own communicator.
fn factor(trace: &Arc<Trace>, routine: &'static str, workers: usize, sharing: Sharing) {
    let a = Mat::from_fn(N, N, |i, j| if i == j { N as f64 } else { 1.0 / (1 + i + j) as f64 });
    let mut memory = shards(&a, 2);
    let distribution = Distribution::whole_columns((N, N), 2, TILE, Mapping::Block);
    let a = matrix(&mut memory, &distribution);
    let mut pivots = vec![0; N];
    let pivots = Cells::of(&mut pivots);
    let call = trace.call(Instant::now(), figures(routine, workers));
    let comm = Communicator::new(workers).with_sharing(sharing).with_trace(Some(call));
    on_workers(&comm, TILE, |worker: &mut CpuWorker<f64>| {
        let from = Instant::now();
        match routine {
            "potrf" => cholesky::factor(worker, &a).unwrap(),
            _ => lu::factor(worker, &a, &shared(worker, pivots)).unwrap(),
        }
        worker.ends_phase("factor", from, Instant::now());
    });
}

/// Pieces of work follow each other within the worker's phase. Times have three decimals.
fn check_rows(events: &[Event], workers: usize) {
    let mut rows: BTreeMap<usize, Vec<(f64, f64, bool)>> = BTreeMap::new();
    for event in events.iter().filter(|e| e.is("X")) {
        let (from, long) = (event.number("ts"), event.number("dur"));
        let span = (from, from + long, event.field("name") == Some("factor"));
        rows.entry(event.number("tid") as usize).or_default().push(span);
    }
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (0..workers).collect::<Vec<_>>());
    for spans in rows.values() {
        type Spans = Vec<(f64, f64, bool)>;
        let (phases, work): (Spans, Spans) = spans.iter().partition(|span| span.2);
        let [phase] = phases[..] else { panic!("one phase") };
        assert!(work.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 2e-3));
        assert!(phase.0 <= work[0].0 + 2e-3 && work[work.len() - 1].1 <= phase.1 + 2e-3);
    }
}

/// How many spans of a name belong to each panel.
fn panels(events: &[Event], name: &str) -> Vec<usize> {
    let mut counts = vec![0; N.div_ceil(TILE) + 1];
    for event in events.iter().filter(|e| e.is("X") && e.field("name") == Some(name)) {
        counts[event.number("k") as usize] += 1;
    }
    while counts.last() == Some(&0) {
        counts.pop();
    }
    counts
}

#[test]
fn every_worker_and_every_panel_is_there() {
    alone(|| {
        let count = Partition::<Column>::new(N, 2, TILE, Mapping::Block).count();
        for workers in 1..4 {
            let trace = new_trace(&format!("potrf-{workers}"));
            factor(&trace, "potrf", workers, Sharing::default());
            let events = events(&trace);
            check_rows(&events, workers);
            assert_eq!(panels(&events, "potrf"), vec![1; count]);
            assert_eq!(panels(&events, "trsm panel"), vec![1; count]);
            assert_eq!(panels(&events, "wait for panel"), vec![workers; count]);
            assert!(panels(&events, "update").len() >= count - 1);

            let trace = new_trace(&format!("getrf-{workers}"));
            factor(&trace, "getrf", workers, Sharing { workers: 1, ..Sharing::default() });
            let alone = self::events(&trace);
            check_rows(&alone, workers);
            assert_eq!(panels(&alone, "getrf panel"), vec![1; count]);
            assert_eq!(panels(&alone, "wait for panel"), vec![workers; count]);
            // Each tile to the right of panel k gets its rows of U with k's triangle, on any
            // worker.
            assert_eq!(panels(&alone, "trsm"), (1..count).rev().collect::<Vec<_>>());
        }
    });
}

#[test]
fn panels_that_workers_share_are_named_by_each_of_them() {
    alone(|| {
        let trace = new_trace("shared");
        factor(&trace, "getrf", 2, Sharing { barrier_cost: 0.0, rows: 1, ..Sharing::default() });
        let events = events(&trace);
        check_rows(&events, 2);
        let shared = panels(&events, "getrf panel");
        assert!(shared.iter().all(|&count| count == 1 || count == 2) && shared.contains(&2));
    });
}

#[test]
fn calls_at_once_have_rows_of_their_own() {
    alone(|| {
        let trace = new_trace("rows");
        let call = |routine, workers| trace.call(Instant::now(), figures(routine, workers));
        let (first, second) = (call("first", 1), call("second", 2));
        first.worker(0).note("work", None, Instant::now(), Instant::now());
        for worker in 0..2 {
            second.worker(worker).note("work", None, Instant::now(), Instant::now());
        }
        drop(first);
        assert_eq!(events(&trace).iter().filter(|e| e.is("X")).count(), 1, "complete in between");
        // The next call takes rows that are free again.
        let third = call("third", 1);
        third.worker(0).note("work", None, Instant::now(), Instant::now());
        drop(third);
        drop(second);
        let events = events(&trace);
        let spans = events.iter().filter(|e| e.is("X"));
        let place = |e: &Event| (e.number("call") as usize, e.number("tid") as usize);
        let places: BTreeSet<_> = spans.map(place).collect();
        assert_eq!(places, BTreeSet::from([(1, 0), (2, 1000), (2, 1001), (3, 0)]));
        let names = events.iter().filter(|e| e.field("name") == Some("thread_name"));
        assert_eq!(names.map(|e| e.number("tid") as usize).collect::<Vec<_>>(), [0, 1000, 1001]);
        let calls = |phase| events.iter().filter(|e| e.is(phase)).count();
        assert_eq!((calls("b"), calls("e")), (3, 3));
    });
}

#[test]
fn no_file_is_written_over() {
    alone(|| {
        let first = new_trace("names");
        let named = first.path().with_file_name("calls.json");
        let second = Trace::create(&named, Instant::now()).unwrap();
        let name = |trace: &Trace| trace.path().file_name().unwrap().to_str().unwrap().to_string();
        let pid = std::process::id();
        assert_eq!(name(&first), format!("calls-{pid}.json"));
        assert_eq!(name(&second), format!("calls-{pid}-2.json"));
        assert_eq!(events(&second).len(), 1, "the name of the process");
        let nowhere = named.with_file_name("nowhere").join("calls.json");
        assert!(Trace::create(&nowhere, Instant::now()).is_err());
    });
}
