//! Devices that do not arrive. A file, hence a process, of its own: the limit is process-wide.

mod common;

use std::time::Duration;

use common::{diagnose, errors, run_diagnose};
use meshsolve::error::Kind;
use meshsolve::settings;

#[test]
fn a_device_that_never_arrives_is_named_and_a_late_one_gets_the_same_error() {
    settings::set_timeout(Duration::from_millis(200));
    let site = diagnose(4, "none");
    let early = errors(run_diagnose(&site, 1, &[0, 3]));
    for error in &early {
        assert_eq!(error.kind, Kind::DeadlineExceeded);
        let text = "meshsolve.diagnose: rank 1, 2 of 4 did not arrive within 0.2";
        assert!(error.message.starts_with(text), "{error}");
        assert!(error.message.contains("MESHSOLVE_TIMEOUT"));
    }
    let late = errors(run_diagnose(&site, 1, &[2]));
    assert_eq!(late[0], early[0]);
    settings::set_timeout(Duration::from_secs(60));
    assert!(run_diagnose(&site, 2, &[0, 1, 2, 3]).into_iter().all(|(_, o)| o.is_ok()));
}
