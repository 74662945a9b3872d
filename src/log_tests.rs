use super::*;

/// One test, because all threads of the process share the queue.
#[test]
fn events_are_kept_while_somebody_listens() {
    let panel = |done| move || Event::Panel { done, total: LIMIT + 1 };
    tell(panel(7));
    assert!(next().is_none());
    listen(true);
    let fetched = std::thread::spawn(next);
    tell(panel(1));
    assert!(matches!(fetched.join().unwrap(), Some(Event::Panel { done: 1, .. })));
    (0..LIMIT + 1).for_each(|done| tell(panel(done)));
    let waits = std::thread::spawn(|| {
        let mut seen = Vec::new();
        while let Some(Event::Panel { done, .. }) = next() {
            seen.push(done);
        }
        seen
    });
    while !queue().is_empty() {
        std::thread::yield_now();
    }
    listen(false);
    assert_eq!(waits.join().unwrap(), (1..LIMIT + 1).collect::<Vec<_>>());
}
