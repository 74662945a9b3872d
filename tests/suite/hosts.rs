//! Host threads of devices that bring parcels to a rendezvous.

use std::sync::Arc;

use meshsolve::error::{Error, Kind, Result};
use meshsolve::rendezvous::Hosts;

const WORLD: usize = 3;

/// Each rank brings ten times its number; the outcomes by rank.
fn gather(
    hosts: &Arc<Hosts>,
    run: i64,
    group: i64,
    make: impl Fn(Vec<usize>) -> Result<Arc<Vec<usize>>> + Sync,
) -> Vec<Result<Arc<Vec<usize>>>> {
    std::thread::scope(|scope| {
        let come = |rank: usize| {
            let make = &make;
            scope.spawn(move || hosts.gather((run, group), (rank, rank as i32), 10 * rank, make))
        };
        let threads: Vec<_> = (0..WORLD).map(come).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn site() -> Arc<Hosts> {
    Hosts::new("diagnose", WORLD, None)
}

#[test]
fn all_ranks_get_what_one_makes_of_all_parcels() {
    let hosts = site();
    std::thread::scope(|scope| {
        for group in 0..3 {
            let site = &hosts;
            // As in a loop: the same run again.
            scope.spawn(move || {
                for _ in 0..50 {
                    let made = gather(site, 1, group, |all| Ok(Arc::new(all)));
                    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
                    assert_eq!(*made[0], [0, 10, 20]);
                    assert!(made.iter().all(|one| Arc::ptr_eq(one, &made[0])));
                }
            });
        }
    });
}

#[test]
fn an_error_or_a_panic_of_the_one_is_that_of_all() {
    let hosts = site();
    let own = Error::new(Kind::ResourceExhausted, "too little");
    let failed = gather(&hosts, 1, 0, |_| Err(own.clone()));
    assert_eq!(failed, vec![Err(own.clone()); WORLD]);
    let panicked = gather(&hosts, 2, 0, |_| panic!("on purpose"));
    let error = panicked[0].clone().unwrap_err();
    let text = "a panic in what ranks have in common was caught: on purpose";
    assert!(error.kind == Kind::Internal && error.message.contains(text), "{error}");
    assert_eq!(panicked, vec![Err(error); WORLD]);
    let later = gather(&hosts, 3, 0, |all| Ok(Arc::new(all)));
    assert!(later.iter().all(Result::is_ok), "{later:?}");
}

/// Another group of the run may fail at any moment, even between the arrival of the last rank and
/// the making.
#[test]
fn a_failure_of_the_run_leaves_no_rank_waiting() {
    let hosts = site();
    let own = Error::new(Kind::Internal, "another group");
    for run in 0..1000 {
        std::thread::scope(|scope| {
            scope.spawn(|| hosts.fail(run, own.clone()));
            let made = gather(&hosts, run, 0, |all| Ok(Arc::new(all)));
            let all = [Ok(Arc::new(vec![0, 10, 20])), Err(own.clone())];
            assert!(all.iter().any(|one| made.iter().all(|got| got == one)), "{made:?}");
        });
        let late = gather(&hosts, run, 0, |all| Ok(Arc::new(all)));
        assert_eq!(late, vec![Err(own.clone()); WORLD]);
    }
}
