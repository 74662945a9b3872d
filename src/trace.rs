//! The work of the workers over time, as Chrome trace JSON (`MESHSOLVE_TRACE`), for
//! chrome://tracing and Perfetto.
//!
//! Each worker keeps its own spans. A call writes those of all its workers when its job is dropped,
//! before any rank gets an answer. The file is one array with an event on each line. It is complete
//! after each call, which overwrites the closing bracket. A worker's spans are phases and, within
//! them, consecutive pieces of work. Rows of the picture are workers; simultaneous calls have
//! separate rows.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use crate::settings;
use crate::stats::CallStats;

/// The row numbers of one set. Each call has its own set of rows.
const ROWS_OF_A_CALL: usize = 1000;
const END: &str = "\n]\n";

/// A file of spans.
pub struct Trace {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    path: PathBuf,
    /// `None` after a failed write.
    file: Option<File>,
    /// The offset of the closing bracket.
    end: u64,
    calls: usize,
    /// The sets of rows that running calls use.
    taken: Vec<bool>,
    /// The number of rows in each set that have names.
    named: Vec<usize>,
}

pub struct CallTrace {
    trace: Arc<Trace>,
    since: Instant,
    number: usize,
    set: usize,
    call: CallStats,
    workers: Mutex<Vec<(usize, Vec<Span>)>>,
}

pub struct WorkerTrace<'a> {
    call: &'a CallTrace,
    worker: usize,
    spans: Vec<Span>,
}

struct Span {
    name: &'static str,
    /// The tile column of the panel that it belongs to.
    panel: Option<usize>,
    from: Instant,
    to: Instant,
}

/// The trace of a call that began at `since`, if this process is traced.
pub fn call(since: Instant, call: impl FnOnce() -> CallStats) -> Option<CallTrace> {
    static TRACE: OnceLock<Option<Arc<Trace>>> = OnceLock::new();
    let trace = TRACE.get_or_init(|| {
        let path = settings::trace()?;
        let failed = |e: &io::Error| eprintln!("meshsolve: {}", no_trace(&path, e));
        Trace::create(&path, since).inspect_err(failed).ok()
    });
    trace.as_ref().map(|trace| trace.call(since, call()))
}

fn no_trace(path: &Path, error: &io::Error) -> String {
    format!(
        "MESHSOLVE_TRACE={path:?}: expected a file that can be written, got: {error}; calls are not \
         traced"
    )
}

/// `solve.json` of process 17 becomes `solve-17.json`; a second file of that name
/// `solve-17-2.json`.
fn numbered(path: &Path, again: usize) -> PathBuf {
    let mut name: OsString = path.file_stem().unwrap_or_default().into();
    name.push(format!("-{}", std::process::id()));
    if again > 1 {
        name.push(format!("-{again}"));
    }
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

impl Trace {
    /// Creates a file whose name comes from `path` and this process. Time counts from `start`.
    pub fn create(path: &Path, start: Instant) -> io::Result<Arc<Trace>> {
        let open = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (path, file) = (1..)
            .map(|again| numbered(path, again))
            .map(|path| open(&path).map(|file| (path, file)))
            .find(|made| !matches!(made, Err(e) if e.kind() == io::ErrorKind::AlreadyExists))
            .expect("numbers do not end")?;
        let state = State {
            path,
            file: Some(file),
            end: 0,
            calls: 0,
            taken: Vec::new(),
            named: Vec::new(),
        };
        let trace = Trace { start, state: Mutex::new(state) };
        trace.state().write("[\n", &[metadata("process_name", 0, "meshsolve")])?;
        Ok(Arc::new(trace))
    }

    #[cfg(feature = "internals")]
    pub fn path(&self) -> PathBuf {
        self.state().path.clone()
    }

    /// The trace of a call that began at `since`, with the figures known so far.
    pub fn call(self: &Arc<Self>, since: Instant, call: CallStats) -> CallTrace {
        let mut state = self.state();
        state.calls += 1;
        let number = state.calls;
        let set = state.taken.iter().position(|taken| !taken).unwrap_or_else(|| {
            state.taken.push(false);
            state.named.push(0);
            state.taken.len() - 1
        });
        state.taken[set] = true;
        drop(state);
        CallTrace { trace: self.clone(), since, number, set, call, workers: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn microseconds(&self, at: Instant) -> f64 {
        1e6 * at.saturating_duration_since(self.start).as_secs_f64()
    }
}

impl State {
    /// Writes events over the closing bracket. It writes once, so that the file is complete before
    /// and after.
    fn write(&mut self, begin: &str, events: &[String]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = format!("{begin}{}", events.join(",\n"));
        file.write_all_at(format!("{text}{END}").as_bytes(), self.end)?;
        self.end += text.len() as u64;
        Ok(())
    }
}

impl CallTrace {
    pub fn worker(&self, worker: usize) -> WorkerTrace<'_> {
        WorkerTrace { call: self, worker, spans: Vec::new() }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<(usize, Vec<Span>)>> {
        self.workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The begin and end events of the whole call, in addition to the rows of its workers.
    fn events(&self) -> [String; 2] {
        let CallStats { routine, dtype, n, rhs, ranks, workers, tile, .. } = &self.call;
        let row = format!("\"pid\":{},\"tid\":{}", std::process::id(), self.set * ROWS_OF_A_CALL);
        let event = |phase: &str, at: Instant| {
            format!(
                "{{\"name\":\"{routine} n={n}\",\"cat\":\"call\",\"ph\":\"{phase}\",\"id\":{},{row},\
                 \"ts\":{:.3},\"args\":{{\"call\":{},\"routine\":\"{routine}\",\"dtype\":\"{dtype}\",\
                 \"n\":{n},\"rhs\":{rhs},\"devices\":{ranks},\"workers\":{workers},\"tile\":{tile}}}}}",
                self.number,
                self.trace.microseconds(at),
                self.number
            )
        };
        [event("b", self.since), event("e", Instant::now())]
    }

    fn span(&self, worker: usize, span: &Span) -> String {
        let [from, to] = [span.from, span.to].map(|at| self.trace.microseconds(at));
        let panel = span.panel.map(|k| format!(",\"k\":{k}")).unwrap_or_default();
        format!(
            "{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{from:.3},\"dur\":{:.3},\
             \"args\":{{\"call\":{},\"n\":{}{panel}}}}}",
            span.name,
            std::process::id(),
            self.set * ROWS_OF_A_CALL + worker,
            to - from,
            self.number,
            self.call.n
        )
    }
}

fn metadata(kind: &str, row: usize, name: &str) -> String {
    let pid = std::process::id();
    format!(
        "{{\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{row},\"args\":{{\"name\":\"{name}\"}}}}"
    )
}

impl Drop for CallTrace {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut *self.workers());
        let mut events = Vec::from(self.events());
        for (worker, spans) in &workers {
            events.extend(spans.iter().map(|span| self.span(*worker, span)));
        }
        let mut state = self.trace.state();
        state.taken[self.set] = false;
        for worker in state.named[self.set]..self.call.workers {
            let name = match self.set {
                0 => format!("worker {worker}"),
                set => format!("worker {worker}, {} calls at once", set + 1),
            };
            events.push(metadata("thread_name", self.set * ROWS_OF_A_CALL + worker, &name));
        }
        state.named[self.set] = state.named[self.set].max(self.call.workers);
        if let Err(e) = state.write(",\n", &events) {
            eprintln!("meshsolve: {}", no_trace(&state.path, &e));
            state.file = None;
        }
    }
}

impl WorkerTrace<'_> {
    /// Records what began at `from` and ends at `to`: a piece of work, for a panel or none, or a phase.
    pub fn note(&mut self, name: &'static str, panel: Option<usize>, from: Instant, to: Instant) {
        self.spans.push(Span { name, panel, from, to });
    }
}

impl Drop for WorkerTrace<'_> {
    fn drop(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        self.call.workers().push((self.worker, spans));
    }
}
