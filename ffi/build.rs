//! Builds the C++ shim of the FFI layer against the XLA FFI headers of the jaxlib in the build
//! environment. It locates jaxlib and never imports it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let include = xla_headers();
    cxx_build::bridge("src/bridge.rs")
        .file("handlers.cc")
        .std("c++17")
        .flag("-isystem")
        .flag(include.to_str().expect("the path of jaxlib is valid UTF-8"))
        .flag("-fvisibility=hidden")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .compile("meshsolve_ffi");
    for file in ["build.rs", "handlers.cc", "handlers.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
    println!("cargo:rerun-if-env-changed=MESHSOLVE_XLA_INCLUDE");
}

/// The folder that holds `xla/ffi/api/ffi.h`: `MESHSOLVE_XLA_INCLUDE`, else that of the jaxlib of
/// the Python that runs the build.
fn xla_headers() -> PathBuf {
    if let Some(path) = env::var_os("MESHSOLVE_XLA_INCLUDE") {
        return path.into();
    }
    let python = env::var("PYO3_PYTHON").unwrap_or_else(|_| "python3".into());
    let locate = "import importlib.util, pathlib\n\
        spec = importlib.util.find_spec('jaxlib')\n\
        print(pathlib.Path(spec.origin).parent / 'include' if spec else '')";
    let found = Command::new(&python)
        .args(["-c", locate])
        .output()
        .unwrap_or_else(|e| panic!("cannot run {python} to find the XLA FFI headers: {e}"));
    let include = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    assert!(
        include.join("xla/ffi/api/ffi.h").is_file(),
        "no XLA FFI headers: {python} has no jaxlib. Build with `pip install .` or `make wheel`, \
         which provide it, or name the folder in MESHSOLVE_XLA_INCLUDE. {}",
        String::from_utf8_lossy(&found.stderr)
    );
    include
}
