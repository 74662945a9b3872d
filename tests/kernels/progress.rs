//! Reports of progress on the emulated devices.

use std::thread::sleep;
use std::time::{Duration, Instant};

use meshsolve::log::{Event, Progress, listen, next};
use meshsolve::sites::CudaSite;

use crate::kernels::gpu::{delay, devices, fail};
use crate::kernels::solve::{System, run_after, streams};

/// The reports of `work`, and the seconds that its last call waited for devices.
fn reports(work: impl FnOnce()) -> (Vec<Progress>, f64) {
    listen(true);
    work();
    listen(false);
    let (mut reports, mut waited) = (Vec::new(), 0.0);
    for event in std::iter::from_fn(next) {
        match event {
            Event::Progress(progress) => reports.push(progress),
            Event::Call(call) => waited = call.phases[0].1,
        }
    }
    (reports, waited)
}

/// The hosts submit all work at once, so that reports at that time would come before a second. The time
/// until all ranks have come does not count.
#[test]
fn reports_follow_the_work_of_a_stream() {
    let (devices, site) = (devices().0, CudaSite::new(&System::map("posv")).unwrap());
    let begun = Instant::now();
    let (reports, waited) = reports(|| {
        let streams = streams();
        let mut system = System::new(None);
        // Rank 0 has come by then.
        let late = |rank| {
            if rank == 1 {
                sleep(Duration::from_millis(500));
                delay(streams[0], 2000);
            }
        };
        for outcome in run_after(&site, &devices, &streams, system.calls(), late) {
            outcome.unwrap();
        }
    });
    let took = begun.elapsed().as_secs_f64();
    let Progress { task, share, seconds } = &reports[0];
    assert_eq!((task.routine, task.n, task.stage), ("posv", 12, "factor"));
    assert!(0.0 < *share && *share < 1.0, "{share} after {seconds} s");
    assert!(
        waited > 0.1 && 1.1 <= *seconds && *seconds <= took - waited,
        "{seconds} s of {took} s, {waited} s waited"
    );
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
