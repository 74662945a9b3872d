//! Libraries at run time: where the library searches, and the message for missing ones. The tests
//! need nothing of CUDA; they find libm, which every machine has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use meshsolve::device::cuda::load::{Library, Wanted};
use meshsolve::device::cuda::nvrtc::{Nvrtc, number};
use meshsolve::device::cuda::sources;
use meshsolve::device::cuda::vendor::nccl::Nccl;
use meshsolve::error::Kind;
use meshsolve::settings::PanelTransport;

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("meshsolve-load-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    path
}

fn wanted<'a>(sonames: &'a [&'a str], folders: &'a [PathBuf]) -> Wanted<'a> {
    Wanted {
        product: "the library of the test",
        sonames,
        witness: c"cos",
        folders,
        last_folders: &[],
        remedy: "install it",
    }
}

#[test]
fn a_library_that_is_nowhere() {
    let folders = [PathBuf::from("/nowhere/lib"), scratch("nowhere")];
    let sonames = ["libmeshsolve-none.so.2", "libmeshsolve-none.so.1"];
    let last = [PathBuf::from("/nowhere/else")];
    let error =
        Library::find(&Wanted { last_folders: &last, ..wanted(&sonames, &folders) }).unwrap_err();
    assert_eq!(error.kind, Kind::FailedPrecondition);
    let expected = format!(
        "meshsolve: the library of the test: expected libmeshsolve-none.so.2 or libmeshsolve-none.so.1, \
         got none; tried what this process has loaded, /nowhere/lib, {}, the search path of the dynamic \
         loader, /nowhere/else; install it",
        folders[1].display()
    );
    assert_eq!(error.message, expected);
    fs::remove_dir_all(&folders[1]).unwrap();
}

#[test]
fn a_file_that_does_not_load_is_named_and_the_search_goes_on() {
    let [bad, good] = [scratch("bad"), scratch("good")];
    fs::write(bad.join("libmeshsolve-bad.so.1"), "no library").unwrap();
    let sonames = ["libmeshsolve-bad.so.1"];
    let error = Library::find(&wanted(&sonames, std::slice::from_ref(&bad))).unwrap_err().message;
    let file = bad.join(sonames[0]);
    assert!(error.contains(&format!("({}: ", file.display())), "{error}");
    assert!(error.ends_with("; install it"), "{error}");

    let libm = Library::find(&wanted(&["libm.so.6"], &[])).unwrap();
    assert!(libm.path().ends_with("libm.so.6"), "{libm:?}");
    symlink(libm.path(), good.join(sonames[0])).unwrap();
    let found = Library::find(&wanted(&sonames, &[bad.clone(), good.clone()])).unwrap();
    // The dynamic loader recognises the same library.
    assert!(found.path().ends_with("libm.so.6") || found.path().starts_with(&good), "{found:?}");
    [bad, good].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
}

#[test]
fn a_library_without_the_function_is_another_one() {
    let (witness, name) = (c"meshsolve_no_such_function", "meshsolve_no_such_function");
    let error = Library::find(&Wanted { witness, ..wanted(&["libm.so.6"], &[]) }).unwrap_err();
    assert!(error.message.contains("(libm.so.6: has no meshsolve_no_such_function)"), "{error}");

    let libm = Library::find(&wanted(&["libm.so.6"], &[])).unwrap();
    assert!(libm.newer(name).unwrap().is_none());
    let error = libm.symbol(name).unwrap_err();
    let expected = format!(
        "meshsolve: {}: expected the function meshsolve_no_such_function, got none; install a newer version \
         of this library",
        libm.path().display()
    );
    assert_eq!(error.message, expected);
    // SAFETY: the C library has this function, and its result has the type of a status.
    let abs = unsafe { libm.symbol("ilogb").unwrap().pointer(|| declared as unsafe fn(f64) -> _) };
    // SAFETY: no precondition.
    assert_eq!(unsafe { abs(8.0) }, 3);
}

/// As cudarc declares functions.
unsafe fn declared(_: f64) -> cudarc::driver::sys::CUresult {
    unreachable!("only its type is used")
}

/// cudarc's functions search for libraries in their own way, and panic.
#[test]
fn nothing_of_cudarc_is_linked() {
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let has = |text: &str| program.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("cuda_load") && has("cuMemcpy3DPeerAsync"), "names of functions are there");
    // Backwards, because the program contains this test too.
    for backwards in ["gnidaolbil", "setadidnac_eman_bil_teg", "dnuof_bil_on_cinap"] {
        let name: String = backwards.chars().rev().collect();
        assert!(!has(&name), "{name}");
    }
}

#[test]
fn an_nvrtc_that_is_not_there() {
    let error = Nvrtc::at(Path::new("/nowhere/libnvrtc.so.12")).unwrap_err();
    assert_eq!(error.kind, Kind::FailedPrecondition);
    let expected = "meshsolve: NVRTC: expected a library that loads, got /nowhere/libnvrtc.so.12: cannot \
                    open shared object file: No such file or directory; install JAX with its CUDA \
                    libraries, pip install \"jax[cuda13]\" or \"jax[cuda12]\", or NVRTC alone, pip install \
                    nvidia-cuda-nvrtc (CUDA 13) or nvidia-cuda-nvrtc-cu12 (CUDA 12)";
    assert_eq!(error.message, expected);
}

#[test]
fn ways_of_panels() {
    assert_eq!(
        ["copies", "nccl"].map(str::parse),
        [Ok(PanelTransport::Copies), Ok(PanelTransport::Nccl)]
    );
    assert!(["", "NCCL", "1"].iter().all(|text| text.parse::<PanelTransport>().is_err()));
    assert_eq!(PanelTransport::default(), PanelTransport::Copies);
}

#[test]
fn an_nccl_that_is_not_there() {
    let remedy = "install it, pip install nvidia-nccl-cu13 or nvidia-nccl-cu12, as JAX with its CUDA \
                  libraries does, or leave MESHSOLVE_PANELS out";
    let error = Nccl::at(Path::new("/nowhere/libnccl.so.2")).unwrap_err();
    assert_eq!(error.kind, Kind::FailedPrecondition);
    let expected = "meshsolve: NCCL: expected a library that loads, got /nowhere/libnccl.so.2: cannot open \
                    shared object file: No such file or directory; ";
    assert_eq!(error.message, format!("{expected}{remedy}"));
    // In pip's folder, a different library of that name.
    let folder = scratch("nccl");
    let libm = Library::find(&wanted(&["libm.so.6"], &[])).unwrap();
    symlink(libm.path(), folder.join("libnccl.so.2")).unwrap();
    let error = Nccl::find(std::slice::from_ref(&folder)).unwrap_err();
    let file = folder.join("libnccl.so.2");
    let begins = format!(
        "meshsolve: NCCL: expected libnccl.so.2, got none; tried what this process has loaded, {}, ",
        folder.display()
    );
    assert!(error.message.starts_with(&begins), "{error}");
    let other = format!("({}: has no ncclGetVersion", file.display());
    assert!(error.message.contains(&other) && error.message.ends_with(remedy), "{error}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn names_of_architectures() {
    for (arch, expected) in [("sm_80", 80), ("sm_90a", 90), ("sm_103f", 103)] {
        assert_eq!(number("fill.cu", arch), Ok(expected));
    }
    for arch in
        ["", "80", "sm_", "sm_a", "sm_9x", "sm_-9", "compute_90", "sm_90aa", "sm_99999999999"]
    {
        let error = number("fill.cu", arch).unwrap_err();
        assert_eq!(error.kind, Kind::InvalidArgument);
        let expected = format!(
            "meshsolve: fill.cu: arch: expected an architecture such as sm_90, got {arch:?}; of a JAX \
             device it is \"sm_\" and device.compute_capability without the dot"
        );
        assert_eq!(error.message, expected);
    }
}

#[test]
fn the_table_has_every_file_of_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = |extension: &str| {
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == extension));
        let mut files: Vec<_> = files
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let mut names: Vec<_> = sources::names().collect();
    names.sort();
    let expected = files("cu");
    // A file for structures of any number of elements has a program for each number.
    let file = |name: &&str| format!("{}.cu", name.trim_end_matches("_8"));
    assert!(names.iter().map(file).eq(expected.iter().map(|f| f.0.clone())), "{names:?}");
    assert_eq!(sources::kernel("transpose_registers_32").map(|p| p.options.len()), Some(2));
    assert!(
        ["_1", "_33", "_", ""]
            .iter()
            .all(|n| sources::kernel(&format!("transpose_registers{n}")).is_none())
    );
    for (name, (file, text)) in names.iter().zip(&expected) {
        let program = sources::kernel(name).unwrap();
        assert_eq!((program.name, program.source), (file.as_str(), text.as_str()));
        let mut headers: Vec<_> =
            program.headers.iter().map(|h| (h.0.to_owned(), h.1.to_owned())).collect();
        headers.sort();
        assert_eq!(headers, files("cuh"));
    }
    assert!(sources::kernel("fill.cu").is_none() && sources::kernel("").is_none());
}
