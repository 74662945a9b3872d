use super::*;

// One test, because tests would share the kept pages.
#[test]
fn the_last_scratch_is_left_to_the_next_call() {
    let most = KEPT_BYTES / size_of::<f64>();
    let large = Scratch::<f64>::new(most).unwrap();
    let address = large.at(0);
    drop(large);
    let [next, extra] = [1000, 1000].map(|elements| Scratch::<f64>::new(elements).unwrap());
    assert_eq!((next.at(0), next.bytes()), (address, 8000));
    assert_ne!(extra.at(0), address, "two calls at a time");
    drop(next);
    drop(extra);
    assert_eq!(kept().as_ref().map(|pages| pages.len()), Some(KEPT_BYTES), "the longer one");
    drop(Scratch::<f64>::new(most + 1).unwrap());
    assert!(kept().is_none(), "too small for that call, which leaves nothing");
    let Err(error) = Scratch::<f64>::new(usize::MAX) else { panic!("no such memory") };
    let text = error.to_string();
    assert!(text.contains("bytes of scratch cannot be had"), "{text}");
}
