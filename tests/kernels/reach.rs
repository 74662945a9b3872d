//! Access of devices to each other's memory: kernels that follow addresses into it, and copies.

use meshsolve::error::Kind;

use crate::kernels::gpu::{access, devices, fail};
use crate::kernels::memory::Array;
use crate::transposition::Random;

#[test]
fn memory_that_is_mapped_for_nobody_else() {
    let (devices, array) = (devices().0, Array::random(64, 8, &mut Random(1)));
    let at = array.content().as_ptr().addr() as u64;
    let [here, other] = [0, 1].map(|number| devices.numbered(number).unwrap());
    let reach = || here.reach(&other, [at].into_iter());
    // Memory that is not mapped address by address.
    reach().unwrap();
    access(at, 0, false);
    access(at, 1, true);
    let error = reach().unwrap_err();
    let expected = "meshsolve: CUDA device 0: expected to reach the memory of CUDA device 1, got memory that is \
                    not mapped for it; an LU factor of a matrix by rows and engine=\"cusolvermg\" need GPUs \
                    with peer access (nvidia-smi topo -p2p r shows them): give A by columns, leave \
                    engine=None, or use a mesh of such GPUs";
    assert_eq!((error.kind, &*error.message), (Kind::FailedPrecondition, expected));
    here.reach(&here, [at].into_iter()).unwrap();
    access(at, 0, true);
    reach().unwrap();
}

#[test]
fn devices_without_peer_access() {
    let devices = devices().0;
    let [here, other] = [2, 0].map(|number| devices.numbered(number).unwrap());
    for (status, kind, text) in [
        (
            217,
            Kind::FailedPrecondition,
            "got 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (peer access is",
        ),
        (711, Kind::FailedPrecondition, "got 711"),
        (400, Kind::Internal, "expected cuCtxEnablePeerAccess to succeed, got 400"),
    ] {
        fail("cuCtxEnablePeerAccess", 0, status);
        let error = here.reach(&other, std::iter::empty()).unwrap_err();
        assert!(error.kind == kind && error.message.contains(text), "{error}");
    }
    here.reach(&other, std::iter::empty()).unwrap();
}
