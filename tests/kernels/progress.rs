//! Reports of progress on the emulated devices.

use meshsolve::log::{Event, Progress, listen, next};
use meshsolve::sites::CudaSite;

use crate::kernels::gpu::{delay, devices, fail};
use crate::kernels::solve::{System, run, run_after, streams};

/// The reports of `work`.
fn reports(work: impl FnOnce()) -> Vec<Progress> {
    listen(true);
    work();
    listen(false);
    let events = std::iter::from_fn(next);
    let report = |event| match event {
        Event::Progress(progress) => Some(progress),
        Event::Call(_) => None,
    };
    events.filter_map(report).collect()
}

/// The hosts submit all work at once, so that reports at that time would come before a second.
#[test]
fn reports_follow_the_work_of_a_stream() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let reports = reports(|| {
        let streams = streams();
        let mut system = System::new(None);
        delay(streams[0], 1100);
        for outcome in run(&site, &devices, &streams, system.calls()) {
            outcome.unwrap();
        }
    });
    let Progress { task, share, seconds } = &reports[0];
    assert_eq!((task.routine, task.n, task.stage), ("posv", 12, "factor"));
    assert!(0.0 < *share && *share < 1.0 && *seconds >= 1.1, "{share} after {seconds} s");
}

#[test]
fn a_report_that_cannot_be_submitted_ends_the_call() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let submit = |rank| {
        if rank == 0 {
            fail("cuLaunchHostFunc", 0, 2)
        }
    };
    reports(|| {
        let mut system = System::new(None);
        for outcome in run_after(&site, &devices, &streams(), system.calls(), submit) {
            let error = outcome.unwrap_err();
            assert!(
                error.message.contains("cuLaunchHostFunc") && error.message.contains("got 2"),
                "{error}"
            );
        }
    });
}
