//! Devices that do not arrive: the limit is process-wide.

use std::time::Duration;

use crate::alone;
use crate::common::{collect, diagnose, diagnose_call, errors, outcomes, run_diagnose};
use meshsolve::error::Kind;
use meshsolve::rendezvous::{Arrival, Hosts};
use meshsolve::settings;

#[test]
fn a_device_that_never_arrives_is_named_and_a_late_one_gets_the_same_error() {
    alone(|| {
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
    });
}

#[test]
fn a_deadline_does_not_outlive_its_rendezvous() {
    alone(|| {
        // As in a loop: the same run id meets again, after the first deadline of that key.
        settings::set_timeout(Duration::from_millis(400));
        let site = diagnose(2, "none");
        for _ in 0..3 {
            assert!(run_diagnose(&site, 1, &[0, 1]).into_iter().all(|(_, o)| o.is_ok()));
            std::thread::sleep(Duration::from_millis(300));
            let (to, from) = outcomes();
            let mut data = [[0.5f32; 4]; 2];
            let [first, second] = &mut data;
            crate::common::arrive(&site, 1, diagnose_call(0, first), &to);
            std::thread::sleep(Duration::from_millis(200));
            crate::common::arrive(&site, 1, diagnose_call(1, second), &to);
            assert!(collect(&from, 2).into_iter().all(|(_, o)| o.is_ok()));
        }
    });
}

/// A ticket is from a process where MPI has started. If it does not here, the call ends in the end.
#[test]
fn a_failure_does_not_wait_for_mpi_for_ever() {
    alone(|| {
        settings::set_timeout(Duration::from_millis(200));
        let site = diagnose(1, "none");
        let (to, from) = outcomes();
        let mut data = [0.5f32; 4];
        let reply = Box::new(move |outcome| to.send((0, outcome)).unwrap());
        let call = diagnose_call(1, &mut data);
        site.arrive(1, 0, Some(3), Arrival { call, reply });
        let error = errors(collect(&from, 1)).remove(0);
        assert!(error.message.starts_with("meshsolve.diagnose: operand `place`"), "{error}");
    });
}

/// Host threads of devices wait by themselves.
#[test]
fn a_host_thread_that_never_comes() {
    alone(|| {
        settings::set_timeout(Duration::from_millis(200));
        let hosts = Hosts::new("diagnose", 3, Some(settings::timeout));
        let rendezvous = |run, ranks: &[usize]| {
            std::thread::scope(|scope| {
                let come = |&rank: &usize| {
                    let hosts = &hosts;
                    scope.spawn(move || hosts.gather((run, 0), (rank, rank as i32), (), |_| Ok(())))
                };
                let threads: Vec<_> = ranks.iter().map(come).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
            })
        };
        let early = rendezvous(1, &[0, 2]);
        let error = early[0].clone().unwrap_err();
        assert_eq!((error.kind, &early[1]), (Kind::DeadlineExceeded, &early[0]));
        let text = "meshsolve.diagnose: rank 1 of 3 did not arrive within 0.2";
        assert!(error.message.starts_with(text), "{error}");
        assert_eq!(rendezvous(1, &[1]), early[..1], "who comes late gets the same");
        settings::set_timeout(Duration::from_secs(60));
        assert_eq!(rendezvous(2, &[2, 0, 1]), [Ok(()), Ok(()), Ok(())]);
    });
}
