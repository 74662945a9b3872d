//! NCCL: copies the same bytes to all devices of a call, by one operation on each.
//!
//! Each rank's host thread uses the rank's communicator; another thread may only end it. The
//! operations of all communicators on a device need one common order, so one call at a time has
//! communicators.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::*;
use crate::device::cuda::context::DeviceContext;
use cudarc::nccl::sys;

functions! {
    ncclGetVersion ncclGetErrorString ncclGetLastError ncclCommInitAll ncclCommAbort ncclGroupStart
    ncclGroupEnd ncclBroadcast
}

const WITNESS: &CStr = c"ncclGetVersion";

const REMEDY: &str = "install it, pip install nvidia-nccl-cu13 or nvidia-nccl-cu12, as JAX with its CUDA \
    libraries does, or leave MESHSOLVE_PANELS out";

const SAYS_MORE: &str = "run the program with NCCL_DEBUG=WARN, and NCCL says more; without \
    MESHSOLVE_PANELS=nccl it is not used";

const BYTES: sys::ncclDataType_t = sys::ncclDataType_t::ncclUint8;

pub type Find = Box<dyn Fn() -> Result<Nccl> + Send + Sync>;

#[derive(Debug)]
pub struct Nccl {
    functions: Functions,
    /// Such as "2.27.3".
    version: String,
}

/// One rank: its device, a stream there, and a byte of the device's memory.
pub struct Member<'a> {
    pub device: &'a DeviceContext,
    pub stream: Stream,
    pub at: Address,
}

/// Communicators for one rank on each of some devices.
pub struct Clique {
    nccl: Arc<Nccl>,
    /// CUDA's numbers, by rank.
    devices: Vec<c_int>,
    /// None where it has been ended.
    communicators: Vec<Mutex<Option<Handle<sys::ncclComm_t>>>>,
}

/// The library when it is first needed, and communicators from call to call.
pub struct Cliques {
    find: Find,
    found: OnceLock<Result<Arc<Nccl>>>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    cliques: Vec<Arc<Clique>>,
    /// Whether a call uses one of them.
    in_use: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Nccl {
    /// The library of this machine. It has one soname for all versions of CUDA.
    pub fn find(folders: &[PathBuf]) -> Result<Nccl> {
        Nccl::of(&Library::find(&Wanted {
            product: "NCCL",
            sonames: &["libnccl.so.2"],
            witness: WITNESS,
            folders,
            last_folders: &toolkits(),
            remedy: REMEDY,
        })?)
    }

    pub fn at(path: &Path) -> Result<Nccl> {
        let library = Library::open(path, 0, WITNESS).map_err(|why| {
            let text =
                format!("meshsolve: NCCL: expected a library that loads, got {why}; {REMEDY}");
            Error::new(Kind::FailedPrecondition, text)
        })?;
        Nccl::of(&library)
    }

    fn of(library: &Library) -> Result<Nccl> {
        let mut nccl = Nccl { functions: Functions::of(library)?, version: String::new() };
        let mut code = 0;
        // SAFETY: writes a local variable.
        let status = unsafe { call!(nccl.functions, ncclGetVersion(&mut code)) };
        nccl.check("ncclGetVersion", status)?;
        nccl.version = format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100);
        Ok(nccl)
    }

    fn check(&self, function: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let f = &self.functions;
        // SAFETY: any number is allowed; null is, too.
        let texts = unsafe {
            let last = text(call!(f, ncclGetLastError(null_mut())));
            [f.ncclGetErrorString.text(|| sys::ncclGetErrorString, status), last]
        };
        let texts = texts.map(Option::unwrap_or_default);
        let texts: Vec<_> =
            texts.iter().map(|text| text.trim()).filter(|t| !t.is_empty()).collect();
        let message = format!(
            "meshsolve: NCCL {}: expected {function} to succeed, got {status} ({}); {SAYS_MORE}",
            self.version,
            texts.join(": ")
        );
        Err(Error::new(Kind::Internal, message))
    }
}

impl Clique {
    /// Communicators with operations that wait for no other host thread. NCCL connects devices at
    /// the first common operation, which is here.
    ///
    /// # Safety
    /// No other work uses the bytes until the streams have reached them.
    unsafe fn new(nccl: Arc<Nccl>, members: &[Member]) -> Result<Clique> {
        let devices = numbers(members);
        let mut raw = vec![null_mut(); devices.len()];
        let first = members[0].device;
        // Dropping `_entered` restores the current device.
        let _entered = first.enter()?;
        let count = devices.len() as c_int;
        // SAFETY: there are as many places as numbers of devices. A communicator exists until
        // `abort` takes it.
        let communicators = unsafe {
            let places = raw.as_mut_ptr();
            let status = call!(nccl.functions, ncclCommInitAll(places, count, devices.as_ptr()));
            nccl.check("ncclCommInitAll", status)?;
            raw.into_iter().map(|raw| Mutex::new(Some(Handle::new(raw)))).collect()
        };
        let clique = Clique { nccl, devices, communicators };
        // SAFETY: the caller promises the bytes.
        match unsafe { clique.connect(members) } {
            Ok(()) => Ok(clique),
            Err(error) => {
                clique.abort(first);
                Err(error)
            }
        }
    }

    /// # Safety
    /// As for [`Clique::new`].
    unsafe fn connect(&self, members: &[Member]) -> Result<()> {
        let f = &self.nccl.functions;
        // SAFETY: this thread submits all operations of the group.
        self.nccl.check("ncclGroupStart", unsafe { call!(f, ncclGroupStart()) })?;
        let given = members.iter().enumerate().try_for_each(|(rank, member)| {
            // SAFETY: the caller promises the bytes.
            unsafe { self.broadcast((rank, member.device), 0, member.at, 1, member.stream) }
        });
        // SAFETY: ends the group that this thread has begun.
        let ended = self.nccl.check("ncclGroupEnd", unsafe { call!(f, ncclGroupEnd()) });
        given.and(ended)
    }

    /// Submits a rank's part of a broadcast to its stream: the bytes at `at` of rank `root` go to
    /// `at` of all ranks. All ranks submit the same broadcasts in the same order, or the
    /// communicators are ended.
    ///
    /// # Safety
    /// The rank's device has that many bytes. No other work uses them until the stream has done
    /// this.
    pub unsafe fn broadcast(
        &self,
        (rank, device): (usize, &DeviceContext),
        root: usize,
        at: Address,
        bytes: usize,
        stream: Stream,
    ) -> Result<()> {
        let _entered = device.enter()?;
        let communicator = locked(&self.communicators[rank]);
        let Some(communicator) = *communicator else {
            let text = "meshsolve: NCCL: a broadcast after the end; this is a defect of meshsolve";
            return Err(Error::new(Kind::Internal, text));
        };
        let (f, at, root) = (&self.nccl.functions, pointer(at), root as c_int);
        let (communicator, stream) = (communicator.raw(), stream.raw().cast());
        // SAFETY: the caller promises the bytes, the stream's maker that it exists. The lock
        // excludes other threads.
        let status =
            unsafe { call!(f, ncclBroadcast(at, at, bytes, BYTES, root, communicator, stream)) };
        self.nccl.check("ncclBroadcast", status)
    }

    /// Ends the communicators in any state of the devices, so none waits for another any more.
    /// Operations in progress are lost. The thread of any rank may call this, with its own
    /// `device`.
    pub fn abort(&self, device: &DeviceContext) {
        // After a failure, a second error has no remedy.
        let _entered = device.enter();
        let f = &self.nccl.functions;
        let ended = self.communicators.iter().filter_map(|one| locked(one).take());
        let ended: Vec<_> = ended.collect();
        // In a group, because the end of one may wait for that of the others.
        // SAFETY: `take` leaves them to this thread alone.
        unsafe {
            call!(f, ncclGroupStart());
            for communicator in ended {
                call!(f, ncclCommAbort(communicator.raw()));
            }
            call!(f, ncclGroupEnd());
        }
    }

    fn is_ended(&self) -> bool {
        self.communicators.iter().any(|communicator| locked(communicator).is_none())
    }
}

impl Cliques {
    pub fn new(find: Find) -> Cliques {
        Cliques { find, found: OnceLock::new(), kept: Mutex::default() }
    }

    fn nccl(&self) -> Result<Arc<Nccl>> {
        self.found.get_or_init(|| (self.find)().map(Arc::new)).clone()
    }

    /// Communicators for a call, until it calls [`Cliques::done`]. An earlier call with the same
    /// devices leaves its own. None where ranks share a device, or while another call has
    /// communicators.
    ///
    /// # Safety
    /// As for [`Clique::new`].
    pub unsafe fn take(&self, members: &[Member]) -> Result<Option<Arc<Clique>>> {
        let devices = numbers(members);
        let are_distinct = devices.iter().collect::<BTreeSet<_>>().len() == devices.len();
        let mut kept = locked(&self.kept);
        if kept.in_use || !are_distinct {
            return Ok(None);
        }
        let known = kept.cliques.iter().find(|clique| clique.devices == devices).cloned();
        let clique = match known {
            Some(clique) => clique,
            None => {
                // SAFETY: the caller promises the bytes.
                let clique = Arc::new(unsafe { Clique::new(self.nccl()?, members)? });
                kept.cliques.push(clique.clone());
                clique
            }
        };
        kept.in_use = true;
        Ok(Some(clique))
    }

    /// Ends the use of communicators by a call. Those that it has not ended are kept.
    pub fn done(&self) {
        let mut kept = locked(&self.kept);
        kept.in_use = false;
        kept.cliques.retain(|clique| !clique.is_ended());
    }

    /// Number of kept sets of communicators.
    pub fn kept(&self) -> usize {
        locked(&self.kept).cliques.len()
    }
}

fn numbers(members: &[Member]) -> Vec<c_int> {
    members.iter().map(|member| member.device.number()).collect()
}
