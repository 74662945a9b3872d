//! Events of calls for a listener: the process has one queue.

use crate::alone;
use meshsolve::log::{Event, Progress, Task, is_empty, listen, next, tell};

/// The most events that the queue keeps.
const LIMIT: usize = 4096;

/// One test, because all threads of the process share the queue.
#[test]
fn events_are_kept_while_somebody_listens() {
    alone(|| {
        let task = Task { routine: "posv", n: 8, stage: "factor", before: 0.0, part: 1.0 };
        let panel = |done: usize| {
            move || Event::Progress(Progress { task, share: 0.0, seconds: done as f64 })
        };
        tell(panel(7));
        assert!(next().is_none());
        listen(true);
        let fetched = std::thread::spawn(next);
        tell(panel(1));
        let fetched = fetched.join().unwrap();
        assert!(matches!(fetched, Some(Event::Progress(Progress { seconds: 1.0, .. }))));
        (0..LIMIT + 1).for_each(|done| tell(panel(done)));
        let waits = std::thread::spawn(|| {
            let mut seen = Vec::new();
            while let Some(Event::Progress(Progress { seconds, .. })) = next() {
                seen.push(seconds as usize);
            }
            seen
        });
        while !is_empty() {
            std::thread::yield_now();
        }
        listen(false);
        assert_eq!(waits.join().unwrap(), (1..LIMIT + 1).collect::<Vec<_>>());
    });
}
