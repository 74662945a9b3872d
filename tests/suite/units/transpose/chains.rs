//! Moves of pieces along chains of cycles.

use meshsolve::transpose::chains::Chains;
use meshsolve::transpose::memory::SubRows;

/// A permutation of `pieces` numbers: a shuffle that leaves one in `still` in its place.
fn shuffled(pieces: usize, still: usize) -> Vec<usize> {
    let (mut map, mut state): (Vec<usize>, u64) = ((0..pieces).collect(), 0x9E37_79B9);
    let moving: Vec<usize> = (0..pieces).filter(|k| k % still != still - 1).collect();
    for k in (1..moving.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        map.swap(moving[k], moving[(state >> 33) as usize % (k + 1)]);
    }
    map
}

/// Piece `i`: its number, repeated.
fn piece(i: usize, bytes: usize) -> impl Iterator<Item = u8> {
    (i as u32).to_le_bytes().into_iter().cycle().take(bytes)
}

fn moved(
    map: &[usize],
    (bytes, count): (usize, usize),
    order: impl Fn(usize) -> Vec<usize>,
) -> Vec<u8> {
    let chains = Chains { pieces: map.len(), bytes, count };
    let mut data: Vec<u8> = (0..map.len()).flat_map(|i| piece(i, bytes)).collect();
    let mut memory = vec![0xAA; chains.shared_bytes() + 8];
    let mut room = vec![0xAA; bytes];
    let shared = memory.as_mut_ptr().wrapping_add(3);
    let (base, stride, rows) = (data.as_mut_ptr(), bytes, map.len());
    let pieces = SubRows { base, stride, rows, bytes };
    // SAFETY: all memory is local, and large enough.
    unsafe {
        chains.mark(&pieces, |i| map[i], shared);
        for k in order(count) {
            chains.run(k, &pieces, |i| map[i], shared, room.as_mut_ptr());
        }
    }
    let outside = memory[..3].iter().chain(&memory[chains.shared_bytes() + 3..]);
    assert!(outside.into_iter().all(|x| *x == 0xAA), "memory of others");
    data
}

fn check(map: &[usize], bytes: usize) {
    let right: Vec<u8> = map.iter().flat_map(|&i| piece(i, bytes)).collect();
    for count in [1, 2, 7, 64, 1000].into_iter().filter(|count| *count <= map.len()) {
        let moved = |order: &dyn Fn(usize) -> Vec<usize>| moved(map, (bytes, count), order);
        let says = format!("{} pieces, {count} chains", map.len());
        assert!(moved(&|n| (0..n).collect()) == right, "{says}");
        assert!(moved(&|n| (0..n).rev().collect()) == right, "{says}, in reverse");
        let odd_first = |n| (0..n).filter(|k| k % 2 == 1).chain((0..n).step_by(2)).collect();
        assert!(moved(&odd_first) == right, "{says}, odd ones first");
    }
}

#[test]
fn one_cycle_of_all() {
    for pieces in [1, 2, 255, 511, 512, 513, 2047, 20_011] {
        let by = if pieces > 7 { 7 } else { 1 };
        check(&(0..pieces).map(|i| (i + by) % pieces).collect::<Vec<_>>(), 5);
    }
}

#[test]
fn short_cycles() {
    for length in [1, 2, 3, 64, 255, 256, 257, 300] {
        let next = |i: usize| if i % length == length - 1 { i + 1 - length } else { i + 1 };
        check(&(0..length * 1500usize.div_ceil(length)).map(next).collect::<Vec<_>>(), 4);
    }
}

#[test]
fn cycles_of_all_lengths() {
    for pieces in [1, 5, 700, 5003, 40_000] {
        for still in [2, 3, 100, pieces + 1] {
            check(&shuffled(pieces, still), 9);
        }
    }
}

/// Chains differ by a step at most, and together have all steps.
#[test]
fn chains_are_even() {
    for (pieces, count) in [(256, 1), (513, 256), (100_000, 64), (7 << 20, 255), (5, 5)] {
        let chains = Chains { pieces, bytes: 2048, count };
        let steps = |k: usize| chains.first(k + 1) - chains.first(k);
        let (least, most) = ((0..count).map(steps).min(), (0..count).map(steps).max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{pieces} in {count}");
        assert_eq!((chains.first(0), chains.first(count)), (0, pieces));
    }
}
