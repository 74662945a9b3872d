//! Explores every interleaving of small uses of `Progress`, `Barrier`, `Phases`, `Group` and `Order`.

// The included files need these items of their parent module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;
pub type Step<V = ()> = Result<V, Stopped>;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Panels,
    Barriers,
}
pub use phase::Phase;

#[path = "../../../src/comm/group.rs"]
pub mod group;
#[path = "../../../src/processes/order.rs"]
pub mod order;
#[path = "../../../src/comm/phase.rs"]
pub mod phase;
#[path = "../../../src/comm/progress.rs"]
pub mod progress;
#[path = "../../../src/rendezvous/runs.rs"]
pub mod rendezvous;

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use crate::group::Group;
    use crate::order::Order;
    use crate::phase::Phases;
    use crate::progress::{Barrier, Progress};
    use crate::{Signal, Stopped};

    /// A lost wake-up shows as a deadlock, a missing ordering as a race on the cell.
    #[test]
    fn announce_wakes_waiters_and_publishes_data() {
        loom::model(|| {
            let shared = Arc::new((Progress::default(), UnsafeCell::new(0)));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.0.wait(1).unwrap();
                        // SAFETY: written before the announcement, not after.
                        assert_eq!(shared.1.with(|p| unsafe { *p }), 7);
                    })
                })
                .collect();
            // SAFETY: no thread reads before the announcement.
            shared.1.with_mut(|p| unsafe { *p = 7 });
            shared.0.announce(1);
            waiters.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    #[test]
    fn counts_are_waited_for_one_by_one() {
        loom::model(|| {
            let progress = Arc::new(Progress::default());
            let waiter = {
                let progress = progress.clone();
                thread::spawn(move || {
                    progress.wait(1).unwrap();
                    progress.wait(2).unwrap();
                })
            };
            progress.announce(1);
            progress.announce(2);
            waiter.join().unwrap();
        });
    }

    #[test]
    fn stop_releases_a_waiter() {
        loom::model(|| {
            let progress = Arc::new(Progress::default());
            let waiter = {
                let progress = progress.clone();
                thread::spawn(move || progress.wait(1))
            };
            progress.stop();
            assert_eq!(waiter.join().unwrap(), Err(Stopped));
        });
    }

    #[test]
    fn barrier_lets_nobody_through_early() {
        // Two rounds of two parties have too many interleavings to explore all. This bound is
        // loom's advice and takes a second.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Barrier::new(2), UnsafeCell::new(0)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    // SAFETY: only this thread writes before the first barrier.
                    shared.1.with_mut(|p| unsafe { *p = 1 });
                    shared.0.wait().unwrap();
                    shared.0.wait().unwrap();
                })
            };
            shared.0.wait().unwrap();
            // SAFETY: the writer is past the first barrier and writes no more.
            assert_eq!(shared.1.with(|p| unsafe { *p }), 1);
            shared.0.wait().unwrap();
            other.join().unwrap();
        });
    }

    /// Workers enter two phases, one after the other. Nothing that is counted in the first reaches
    /// the second.
    #[test]
    fn phases_count_from_zero() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Phases::new(2), [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let writer = {
                let shared = shared.clone();
                move || {
                    let (phases, cells) = &*shared;
                    for number in 0..2 {
                        let phase = phases.enter(number, Signal::Panels);
                        // SAFETY: no thread reads before the announcement.
                        cells[number].with_mut(|p| unsafe { *p = 7 + number });
                        phase.announce(1, 1);
                    }
                }
            };
            let writer = thread::spawn(writer);
            for number in 0..2 {
                let phase = shared.0.enter(number, Signal::Panels);
                phase.wait(1, 1).unwrap();
                // SAFETY: written before the announcement in this phase, not after.
                assert_eq!(shared.1[number].with(|p| unsafe { *p }), 7 + number);
            }
            writer.join().unwrap();
        });
    }

    /// A value posted before a barrier is read after it. The same place is free at the next barrier
    /// but one.
    #[test]
    fn barriers_of_a_group_exchange_posts_in_two_places_by_turns() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let posts = || [UnsafeCell::new(0), UnsafeCell::new(0)];
            let shared = Arc::new((Phases::new(2), [posts(), posts()]));
            let member = |me: usize| {
                let shared = shared.clone();
                move || {
                    let (phases, posts) = &*shared;
                    let phase = phases.enter(0, Signal::Barriers);
                    let mut group = Group::new(0, 2, Some(phase));
                    for number in 1..4 {
                        // SAFETY: before the last barrier the other thread has read the old value.
                        posts[me][number % 2].with_mut(|p| unsafe { *p = 10 * me + number });
                        group.barrier(me, 2).unwrap();
                        let other = 1 - me;
                        // SAFETY: written before this barrier, and again only after the next one.
                        let read = posts[other][number % 2].with(|p| unsafe { *p });
                        assert_eq!(read, 10 * other + number);
                    }
                }
            };
            let other = thread::spawn(member(1));
            member(0)();
            other.join().unwrap();
        });
    }

    /// A stop reaches workers that wait in a phase and those that enter one later.
    #[test]
    fn stop_releases_those_in_a_phase() {
        loom::model(|| {
            let phases = Arc::new(Phases::new(2));
            let worker = {
                let phases = phases.clone();
                thread::spawn(move || {
                    let first = phases.enter(0, Signal::Panels).wait(1, 1);
                    (first, phases.enter(1, Signal::Panels).wait(1, 1))
                })
            };
            phases.stop();
            assert_eq!(worker.join().unwrap(), (Err(Stopped), Err(Stopped)));
        });
    }

    /// The counters of a phase that all have entered and left are freed, and still the other
    /// phases can be stopped.
    #[test]
    fn a_stop_comes_while_a_phase_ends() {
        loom::model(|| {
            let phases = Arc::new(Phases::new(1));
            let worker = {
                let phases = phases.clone();
                thread::spawn(move || {
                    let phase = phases.enter(0, Signal::Panels);
                    phase.announce(0, 1);
                    drop(phase);
                    phases.enter(1, Signal::Panels).wait(0, 1)
                })
            };
            phases.stop();
            assert_eq!(worker.join().unwrap(), Err(Stopped));
        });
    }

    /// Two calls reach two processes in different order. Both serve them in that of process 0. With more
    /// than two preemptions of threads there would be too many interleavings.
    #[test]
    fn processes_serve_calls_in_one_order() {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(|| {
            let leader = Arc::new(Order::<_, ()>::default());
            let follower = Arc::new(Order::<_, ()>::default());
            let (announce, announced) = loom::sync::mpsc::channel();
            let leading = {
                let leader = leader.clone();
                thread::spawn(move || {
                    let mut served = Vec::new();
                    while let Some(ticket) = leader.first() {
                        announce.send(ticket).unwrap();
                        served.push(leader.take(ticket).unwrap().1);
                    }
                    served
                })
            };
            let following = {
                let follower = follower.clone();
                thread::spawn(move || {
                    let mut served = Vec::new();
                    while follower.first().is_some() {
                        served.push(follower.take(announced.recv().unwrap()).unwrap().1);
                    }
                    served
                })
            };
            assert_eq!(leader.arrive((5, 1), "one"), Ok(()));
            assert_eq!(follower.arrive((8, 2), "two"), Ok(()));
            assert_eq!(follower.arrive((8, 1), "one"), Ok(()));
            assert_eq!(leader.arrive((5, 2), "two"), Ok(()));
            leader.close(());
            follower.close(());
            let served = leading.join().unwrap();
            assert_eq!(served, ["one", "two"]);
            assert_eq!(served, following.join().unwrap());
            assert_eq!(leader.arrive((5, 3), "late"), Err(("late", ())));
        });
    }

    /// A call that is announced and never comes ends with the process.
    #[test]
    fn the_end_of_the_process_ends_a_wait_for_a_call() {
        loom::model(|| {
            let order = Arc::new(Order::<(), ()>::default());
            let waits = {
                let order = order.clone();
                thread::spawn(move || order.take(7))
            };
            order.arrive((5, 3), ()).unwrap();
            order.close(());
            assert_eq!(waits.join().unwrap(), None);
            assert_eq!(order.drain().len(), 1);
        });
    }

    /// A call of a failed run comes back once, whether it has arrived before or does later.
    #[test]
    fn the_failure_of_a_run_ends_its_other_calls() {
        loom::model(|| {
            let order = Arc::new(Order::default());
            let arrives = {
                let order = order.clone();
                thread::spawn(move || order.arrive((5, 2), "of the run"))
            };
            order.arrive((8, 3), "of another").unwrap();
            let ended = order.fail(5, &"singular");
            match arrives.join().unwrap() {
                Ok(()) => assert_eq!(ended, ["of the run"]),
                late => {
                    assert_eq!(late, Err(("of the run", "singular")));
                    assert!(ended.is_empty());
                }
            }
            assert_eq!(order.first(), Some(3));
            assert_eq!(order.take(3), Some((8, "of another")));
        });
    }
}
