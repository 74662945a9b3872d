//! Explores every interleaving of small uses of `Progress` and `Barrier`.

// The included file needs these items of its parent module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;
pub type Step<V = ()> = Result<V, Stopped>;

#[path = "../../../src/comm/progress.rs"]
pub mod progress;

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use crate::Stopped;
    use crate::progress::{Barrier, GroupBarrier, Progress};

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

    /// A value posted before a barrier is read after it. The same place is free at the next barrier
    /// but one.
    #[test]
    fn group_barriers_exchange_posts_in_two_places_by_turns() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let posts = || [UnsafeCell::new(0), UnsafeCell::new(0)];
            let shared = Arc::new((GroupBarrier::new(2), [posts(), posts()]));
            let member = |me: usize| {
                let shared = shared.clone();
                move || {
                    let (barrier, posts) = &*shared;
                    for number in 1..4 {
                        // SAFETY: before the last barrier the other thread has read the old value.
                        posts[me][number % 2].with_mut(|p| unsafe { *p = 10 * me + number });
                        barrier.wait(me, 0..2, number).unwrap();
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

    #[test]
    fn stop_releases_those_at_a_group_barrier() {
        loom::model(|| {
            let barrier = Arc::new(GroupBarrier::new(2));
            let member = {
                let barrier = barrier.clone();
                thread::spawn(move || barrier.wait(1, 0..2, 1))
            };
            barrier.stop();
            assert_eq!(member.join().unwrap(), Err(Stopped));
        });
    }
}
