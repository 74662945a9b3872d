//! Files of the cache: whole ones come back, others do not.

use meshsolve::device::cuda::cache::entry::{Hash, decode, encode};
use meshsolve::device::cuda::nvrtc::Compiled;

#[test]
fn hash_of_known_texts() {
    // Published values of FNV-1a.
    assert_eq!(Hash::of(b""), 0x6c62272e07bb014262b821756295c58d);
    assert_eq!(Hash::of(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    assert_eq!(Hash::of(b"foobar"), 0x343e1662793c64bf6f0d3597ba446f18);
}

#[test]
fn an_entry_comes_back_and_no_changed_byte_does() {
    let compiled = Compiled { cubin: vec![0, 1, 255, 7], log: "warning: x".into() };
    let whole = encode(b"key", &compiled);
    assert_eq!(decode(&whole), Some((&b"key"[..], compiled)));
    for i in 0..whole.len() {
        assert_eq!(decode(&whole[..i]), None, "{i} bytes of it");
        let mut changed = whole.clone();
        changed[i] ^= 1 << (i % 8);
        assert_eq!(decode(&changed), None, "byte {i} changed");
    }
    assert_eq!(decode(&[&whole[..], b"x"].concat()), None);
}
