//! Tests that touch the state of the whole process: each test runs in its own process.

// Before all modules that use its macros.
include!(concat!("../common/types/", env!("TESTS_TYPES"), ".rs"));

mod cancel;
#[path = "../common/mod.rs"]
mod common;
mod kernel_cache;
mod log;
mod sanitizers;
mod scratch;
mod timeout;
mod trace;

/// Runs a test's body in a new process, which is this program with that one test.
pub fn alone<F: FnOnce()>(body: F) {
    const CHILD: &str = "MESHSOLVE_TESTS_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    // The path of a closure: this_crate::module::test::{{closure}}.
    let path = std::any::type_name::<F>().split("::").skip(1).collect::<Vec<_>>();
    let test = path[..path.len() - 1].join("::");
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let stated =
        [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success(), "{}{}", stated[0], stated[1]);
    assert!(stated[0].contains("1 passed"), "{test}: {}", stated[0]);
}
