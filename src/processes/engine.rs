//! The thread of a process that alone calls MPI and ScaLAPACK, one call after the other: these have
//! global state, and are not made for several threads.
//!
//! A thread without calls sleeps. It enters MPI only when a call of this process waits.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::library;
use super::mpi::{Communicator, Mpi, over};
use super::order::Order;
use super::roll;
use super::scalapack::Scalapack;
use crate::device::cpu::float_mode::FloatMode;
use crate::error::{Error, Kind, Result};
use crate::rendezvous::{self, CLOSED, Key, Reply};
use crate::settings;

/// This process' part of a call.
pub trait Work: Send {
    /// Its position along the mesh axis.
    fn rank(&self) -> usize;
    /// What all processes must have alike, as text.
    fn describe(&self) -> String;
    fn run(self: Box<Self>, grid: &Grid) -> Result<()>;
}

/// All processes, in the order of a mesh axis, and ScaLAPACK's grid of them.
#[derive(Clone, Copy)]
pub struct Grid {
    pub ranks: Communicator,
    pub context: c_int,
    pub scalapack: Scalapack,
}

/// How MPI has started this process.
#[derive(Clone, Debug)]
pub struct Launch {
    pub rank: usize,
    pub size: usize,
    /// The name and version of MPI.
    pub mpi: String,
    /// Threads of this process: its share of the cores that it may use.
    pub threads: usize,
}

struct Request {
    work: Result<Box<dyn Work>>,
    reply: Reply,
}

impl Request {
    /// The call is not made. Its memory is released before the devices know.
    fn refuse(self, error: Error) {
        drop(self.work);
        (self.reply)(Err(error));
    }
}

/// The engine of this process.
struct Engine {
    order: Arc<Order<Request, Error>>,
    launch: Launch,
    /// Gets nothing, and is closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

static ENGINE: OnceLock<Result<Engine>> = OnceLock::new();

/// Whether the process ends by an error, and leaves MPI to its launcher.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// The most time that the end of the process waits for the other processes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a message that goes to all processes.
const MESSAGE: usize = 1024;

/// Loads libraries in this order, and starts MPI unless the program has. Later calls give the first
/// one's result.
pub fn start(libraries: &[PathBuf]) -> Result<Launch> {
    let engine = ENGINE.get_or_init(|| {
        let (tell, launched) = channel();
        let (alive, ended) = channel();
        let (libraries, order) = (libraries.to_vec(), Arc::new(Order::default()));
        let served = order.clone();
        let run = move || serve(&libraries, &served, &tell, alive);
        let thread = std::thread::Builder::new().name("meshsolve-mpi".into()).spawn(run);
        thread.map_err(|e| {
            let text = format!("meshsolve: a thread for MPI cannot be started: {e}");
            Error::new(Kind::ResourceExhausted, text)
        })?;
        let gone = || Err(Error::new(Kind::Internal, "meshsolve: the thread for MPI has ended"));
        let launch = launched.recv().unwrap_or_else(|_| gone())?;
        Ok(Engine { order, launch, ended: Mutex::new(ended) })
    });
    engine.as_ref().map(|engine| engine.launch.clone()).map_err(Clone::clone)
}

/// How MPI has started this process, if `start` has been called.
pub fn launch() -> Option<&'static Launch> {
    ENGINE.get()?.as_ref().ok().map(|engine| &engine.launch)
}

/// Waits until `start` has ended here, as it has on another process. False if it does not.
pub fn has_started() -> bool {
    let since = Instant::now();
    while ENGINE.get().is_none() && since.elapsed() < settings::timeout() {
        std::thread::sleep(Duration::from_millis(10));
    }
    ENGINE.get().is_some()
}

/// A call arrives, or the error that this process has instead. It has a run and a ticket. Its reply gets
/// the outcome.
pub fn submit(key: Key, work: Result<Box<dyn Work>>, reply: Reply) {
    match ENGINE.get() {
        Some(Ok(engine)) => {
            if let Err((request, error)) = engine.order.arrive(key, Request { work, reply }) {
                request.refuse(error);
            }
        }
        Some(Err(error)) => reply(Err(error.clone())),
        None => {
            let text = "meshsolve: expected MPI and ScaLAPACK to be started, got a call before that; \
                        call a function of meshsolve, which starts them";
            reply(Err(Error::new(Kind::FailedPrecondition, text)));
        }
    }
}

fn closed() -> Error {
    Error::new(Kind::Cancelled, CLOSED)
}

/// Ends MPI if the library has started it, and waits for the other processes, but not for ever. Without
/// `orderly` it leaves that to the launcher: it ends the other processes, as this one has failed.
pub fn close(orderly: bool) {
    if let Some(Ok(engine)) = ENGINE.get() {
        ABANDONED.store(!orderly, Ordering::Relaxed);
        engine.order.close(closed());
        if orderly {
            let ended = engine.ended.lock().unwrap_or_else(|e| e.into_inner());
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

/// What the thread has.
struct Processes {
    everyone: Communicator,
    scalapack: Scalapack,
    /// By the position of each process along the mesh axis.
    grids: HashMap<Vec<usize>, Grid>,
}

/// The thread. `alive` is dropped at its end.
fn serve(
    libraries: &[PathBuf],
    order: &Order<Request, Error>,
    tell: &Sender<Result<Launch>>,
    alive: Sender<()>,
) {
    FloatMode::IEEE.enter();
    let begun = begin(libraries);
    let (mut processes, is_ours, launch) = match begun {
        Ok(begun) => begun,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let mpi = *processes.everyone.mpi();
    let _ = tell.send(Ok(launch));
    while let Some(first) = order.first() {
        let ticket = processes.announced(first).unwrap_or(first);
        let Some((run, Request { work, reply })) = order.take(ticket) else { break };
        let perform = AssertUnwindSafe(|| processes.perform(work));
        let outcome = catch_unwind(perform).unwrap_or_else(|panic| {
            // The other processes may wait for this one in MPI, which nothing but its end ends.
            let error = Error::from_panic("a call over processes", &*panic);
            eprintln!("{error}");
            mpi.abort();
            Err(error)
        });
        FloatMode::IEEE.enter();
        if let Err(error) = &outcome {
            // Before a device has the error, and before another call is announced.
            order.fail(run, error).into_iter().for_each(|request| request.refuse(error.clone()));
            rendezvous::end(run, error);
        }
        reply(outcome);
    }
    order.drain().into_iter().for_each(|request| request.refuse(closed()));
    let is_abandoned = ABANDONED.load(Ordering::Relaxed);
    if is_ours && !is_abandoned && !mpi.is_over().unwrap_or(true) {
        let _ = mpi.end();
    }
    drop(alive);
}

fn begin(libraries: &[PathBuf]) -> Result<(Processes, bool, Launch)> {
    libraries.iter().try_for_each(|path| library::load(path))?;
    let (mpi, scalapack) = (Mpi::find()?, Scalapack::find()?);
    let (is_ours, is_for_threads) = mpi.begin()?;
    let everyone = mpi.everyone()?;
    // Folders may differ from machine to machine.
    let names = libraries.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()));
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    if let Some(got) = difference(&everyone, &names.join(":"))? {
        let text = format!(
            "meshsolve: expected the same libraries of MPI and ScaLAPACK on all processes, got {got}; set \
             MESHSOLVE_SCALAPACK to the same on all"
        );
        if is_ours {
            mpi.end()?;
        }
        return Err(Error::new(Kind::FailedPrecondition, text));
    }
    let (rank, size) = (everyone.rank(), everyone.size());
    let are_for_threads = everyone.gather([f64::from(u8::from(is_for_threads))])?;
    if are_for_threads.iter().all(|[one]| *one > 0.0) {
        roll::open(everyone.in_order(rank)?);
    }
    let launch = Launch { rank, size, mpi: mpi.version(), threads: threads(&everyone)? };
    Ok((Processes { everyone, scalapack, grids: HashMap::new() }, is_ours, launch))
}

impl Processes {
    /// The ticket that process 0 serves, which is its own `first` one.
    fn announced(&self, first: i64) -> Result<i64> {
        if self.everyone.mpi().is_over()? {
            return Err(over());
        }
        let mut ticket = [first];
        self.everyone.broadcast(&mut ticket, 0)?;
        Ok(ticket[0])
    }

    /// Runs a call, unless a process refuses it. Then all have that error.
    fn perform(&mut self, work: Result<Box<dyn Work>>) -> Result<()> {
        if self.everyone.mpi().is_over()? {
            return Err(over());
        }
        let rank = work.as_ref().map_or(-1.0, |work| work.rank() as f64);
        let ranks = self.everyone.gather([rank])?;
        if let Some(refuses) = ranks.iter().position(|[rank]| *rank < 0.0) {
            let all = ranks.iter().all(|[rank]| *rank < 0.0);
            return Err(self.shared(refuses, all, work.err())?);
        }
        let work = work.expect("all have work");
        if let Some(got) = difference(&self.everyone, &work.describe())? {
            return Err(Error::invalid(format!(
                "meshsolve: expected the same call on all processes, got {got}; run the same program on \
                 all"
            )));
        }
        let ranks: Vec<usize> = ranks.iter().map(|[rank]| *rank as usize).collect();
        work.run(&self.grid(ranks)?)
    }

    /// The error of the process that `refuses` first; without its number if `all` have the same.
    fn shared(&self, refuses: usize, all: bool, own: Option<Error>) -> Result<Error> {
        let own = own.unwrap_or_else(closed);
        if all && difference(&self.everyone, &own.message)?.is_none() {
            return Ok(own);
        }
        let mut text = message(&own.message);
        self.everyone.broadcast(&mut text, refuses)?;
        let mut kind = [own.kind as u8];
        self.everyone.broadcast(&mut kind, refuses)?;
        let kinds = [
            Kind::InvalidArgument,
            Kind::Cancelled,
            Kind::DeadlineExceeded,
            Kind::ResourceExhausted,
            Kind::FailedPrecondition,
        ];
        let kind = kinds.into_iter().find(|&one| one as u8 == kind[0]).unwrap_or(Kind::Internal);
        Ok(Error::new(kind, format!("{} (on process {refuses})", read(&text))))
    }

    /// The processes in the order of a mesh axis.
    fn grid(&mut self, ranks: Vec<usize>) -> Result<Grid> {
        if let Some(grid) = self.grids.get(&ranks) {
            return Ok(*grid);
        }
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        if sorted.iter().enumerate().any(|(i, &rank)| i != rank) {
            return Err(Error::invalid(format!(
                "meshsolve: expected one position along the mesh axis for each process, got {ranks:?}; use \
                 a mesh in which the devices of each process follow one another"
            )));
        }
        let in_order = self.everyone.in_order(ranks[self.everyone.rank()])?;
        let (context, scalapack) = (self.scalapack.grid(&in_order), self.scalapack);
        let grid = Grid { ranks: in_order, context, scalapack };
        self.grids.insert(ranks, grid);
        Ok(grid)
    }
}

/// The setting, or the share of a process of the cores that it may use with others of its machine.
fn threads(everyone: &Communicator) -> Result<usize> {
    let mut hasher = DefaultHasher::new();
    // SAFETY: room for a name, or for a set of processors; zeros are valid for both.
    unsafe {
        let mut name = [0u8; 256];
        libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        name.hash(&mut hasher);
        (0..libc::CPU_SETSIZE as usize).for_each(|i| libc::CPU_ISSET(i, &set).hash(&mut hasher));
    }
    // As many bits as float64 has.
    let cores = (hasher.finish() >> 12) as f64;
    let all = everyone.gather([cores])?;
    let sharers = all.iter().filter(|[others]| *others == cores).count();
    Ok(settings::threads_asked_for().unwrap_or((settings::cores() / sharers.max(1)).max(1)))
}

/// If processes have different texts, that of process 0 and of the first with another one, in words.
fn difference(everyone: &Communicator, own: &str) -> Result<Option<String>> {
    let own = message(own);
    let mut first = own;
    everyone.broadcast(&mut first, 0)?;
    let differ = everyone.gather([if own == first { 0.0 } else { 1.0 }])?;
    let Some(other) = differ.iter().position(|[differs]| *differs > 0.0) else { return Ok(None) };
    let mut others = own;
    everyone.broadcast(&mut others, other)?;
    let (first, others) = (read(&first), read(&others));
    Ok(Some(format!("{first} on process 0 and {others} on process {other}")))
}

/// A text for all processes, cut where it is too long.
fn message(text: &str) -> [u8; MESSAGE] {
    let mut bytes = [0; MESSAGE];
    let length = (0..=MESSAGE.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    let length = length.unwrap_or(0);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn read(bytes: &[u8; MESSAGE]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
