//! Shared parts of the tests of transposition in place.
#![allow(dead_code)] // each test file uses its part

use meshsolve::transpose::{Algorithm, Plan, run_units};
use std::sync::Barrier;

pub const SIZES: [usize; 3] = [4, 8, 16];
const CANARY: u8 = 0xA5;
const MARGIN: usize = 192;

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for k in (1..list.len()).rev() {
            list.swap(k, self.below(k + 1));
        }
    }
}

/// Memory between canaries, `shift` bytes after the start of a cache line.
pub struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    pub fn new(len: usize, shift: usize) -> Self {
        let bytes = vec![CANARY; len + 2 * MARGIN];
        let start = 64 + bytes.as_ptr().align_offset(64) + shift;
        Guarded { bytes, start, len }
    }

    pub fn content(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }

    pub fn check(&self) {
        let (before, rest) = self.bytes.split_at(self.start);
        let around = before.iter().chain(&rest[self.len..]);
        assert!(around.into_iter().all(|byte| *byte == CANARY), "wrote outside");
    }
}

/// Random elements, many of them NaNs with a payload.
pub fn fill(data: &mut [u8], size: usize, random: &mut Random) {
    for (k, element) in data.chunks_mut(size).enumerate() {
        for part in element.chunks_mut(4) {
            part.copy_from_slice(&(random.next() as u32).to_le_bytes());
        }
        match (k % 3, size) {
            (0, 4) => element[2..].copy_from_slice(&[0xA0, 0x7F]), // signalling
            (0, _) => element[size - 2..].copy_from_slice(&[0xF4, 0xFF]),
            _ => {}
        }
    }
}

pub fn transposed(data: &[u8], rows: usize, cols: usize, size: usize) -> Vec<u8> {
    let mut out = vec![0; data.len()];
    for i in 0..rows {
        for j in 0..cols {
            let element = &data[(i * cols + j) * size..][..size];
            out[(j * rows + i) * size..][..size].copy_from_slice(element);
        }
    }
    out
}

#[derive(Clone, Copy)]
struct Address(*mut u8);
// SAFETY: the threads below only access it through `run_units`.
unsafe impl Send for Address {}

/// Runs a plan on `threads` threads with scratch of exactly the promised size.
pub fn run(plan: &Plan, data: *mut u8, threads: usize) {
    let barrier = Barrier::new(threads);
    let mut shared = Guarded::new(plan.shared_bytes(), 0);
    let common = Address(shared.content().as_mut_ptr());
    let worker = |k: usize, data: Address, common: Address| {
        let mut scratch = Guarded::new(plan.scratch_bytes(), 0);
        for phase in 0..plan.phases() {
            let units = plan.units(phase);
            let mine = units * k / threads..units * (k + 1) / threads;
            let scratch = scratch.content().as_mut_ptr();
            // SAFETY: each unit of a phase runs once, with a barrier between phases.
            unsafe { run_units(plan, phase, mine, data.0, scratch, common.0) };
            barrier.wait();
        }
        scratch.check();
    };
    std::thread::scope(|scope| {
        for k in 1..threads {
            let (worker, data) = (&worker, Address(data));
            scope.spawn(move || {
                let (data, common) = (data, common);
                worker(k, data, common)
            });
        }
        worker(0, Address(data), common);
    });
    shared.check();
}

/// Two transpositions are the identity. The data needs no alignment beyond that of its elements.
pub fn check(algorithm: Algorithm, rows: usize, cols: usize, size: usize, threads: usize) {
    check_shifted(algorithm, (rows, cols), size, threads, size);
}

/// With data `shift` bytes after the start of a line.
pub fn check_shifted(
    algorithm: Algorithm,
    (rows, cols): (usize, usize),
    size: usize,
    threads: usize,
    shift: usize,
) {
    let plan = Plan::forced(algorithm, rows, cols, size);
    let mut random = Random(88172645463325252 + (rows * 1000 + cols) as u64);
    let mut memory = Guarded::new(rows * cols * size, shift);
    fill(memory.content(), size, &mut random);
    let before = memory.content().to_vec();
    run(&plan, memory.content().as_mut_ptr(), threads);
    memory.check();
    assert!(memory.content() == transposed(&before, rows, cols, size), "{plan}, {threads} threads");
    if threads == 3 {
        return; // other numbers of threads test the way back
    }
    let back = Plan::forced(algorithm, cols, rows, size);
    run(&back, memory.content().as_mut_ptr(), threads);
    assert!(memory.content() == before, "{back} after {plan}");
}

/// 0, 1, 2, ... transposed by `plan`, the units of each phase one by one in random order.
pub fn in_any_order(plan: &Plan, random: &mut Random) -> Vec<u64> {
    let mut data: Vec<u64> = (0..(plan.rows() * plan.cols()) as u64).collect();
    let mut scratch = vec![0u8; plan.scratch_bytes()];
    let mut shared = vec![0u8; plan.shared_bytes()];
    for phase in 0..plan.phases() {
        let mut units: Vec<usize> = (0..plan.units(phase)).collect();
        for k in (1..units.len()).rev() {
            units.swap(k, random.below(k + 1));
        }
        for unit in units {
            let data = data.as_mut_ptr().cast();
            let (own, common) = (scratch.as_mut_ptr(), shared.as_mut_ptr());
            // SAFETY: each unit of a phase runs once, phases in order, with scratch of the plan's
            // sizes.
            unsafe { run_units(plan, phase, unit..unit + 1, data, own, common) };
        }
    }
    data
}
