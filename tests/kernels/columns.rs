//! `kernels/columns.cu`: whole columns in another order, cut into chains and cycles.

use crate::common::part::part;
use crate::kernels::emulator::{Emulator, small};
use crate::kernels::memory::Array;
use crate::transposition::Random;

type Shift = unsafe extern "C" fn(*const *mut u8, *const u64, u64, u64);

/// Lists of columns by their addresses, and the start of each list.
#[derive(Default)]
struct Lists {
    columns: Vec<*mut u8>,
    begin: Vec<u64>,
}

impl Lists {
    fn push(&mut self, list: impl IntoIterator<Item = *mut u8>) {
        self.begin.push(self.columns.len() as u64);
        self.columns.extend(list);
    }

    /// Runs a kernel over all lists.
    fn run(mut self, emulator: &Emulator, name: &str, length: u64, seed: u64) {
        let lists = self.begin.len() as u64;
        self.begin.push(self.columns.len() as u64);
        // SAFETY: the parameters of the source.
        let shift: Shift = unsafe { emulator.kernel(name) };
        emulator.launch(1 + seed as u32 % 3, seed, || {
            // SAFETY: columns of `length` elements.
            unsafe { shift(self.columns.as_ptr(), self.begin.as_ptr(), lists, length) };
        });
    }
}

/// The cycles of two columns and more of a permutation.
fn cycles(source: &[usize]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; source.len()];
    let mut cycles = Vec::new();
    for start in 0..source.len() {
        if seen[start] || source[start] == start {
            continue;
        }
        let follow = |&p: &usize| Some(source[p]).filter(|&next| next != start);
        let cycle: Vec<usize> = std::iter::successors(Some(start), follow).collect();
        cycle.iter().for_each(|&p| seen[p] = true);
        cycles.push(cycle);
    }
    cycles
}

/// The columns of two devices in the order of a permutation. Cycles longer than `longest` are cut
/// into chains of that length.
fn check(columns: usize, rows: usize, size: usize, longest: usize, random: &mut Random) {
    let emulator = small();
    let mut source: Vec<usize> = (0..columns).collect();
    random.shuffle(&mut source);
    let half = columns.div_ceil(2);
    let bytes = rows * size;
    let mut devices = [half, columns - half].map(|n| Array::random(n * bytes, size, random));
    let column = |devices: &[Array; 2], p: usize| {
        devices[p / half].content()[p % half * bytes..][..bytes].to_vec()
    };
    let before: Vec<_> = (0..columns).map(|p| column(&devices, p)).collect();
    let mut saved = Array::new(columns * bytes, size);
    let (first, second) = (devices[0].pointer(), devices[1].pointer());
    let at = |p: usize| [first, second][p / half].wrapping_add(p % half * bytes);
    let staging = saved.pointer();

    let (mut firsts, mut chains, mut rotations) =
        (Lists::default(), Lists::default(), Lists::default());
    for cycle in cycles(&source) {
        if cycle.len() <= longest {
            rotations.push(cycle.iter().map(|&p| at(p)));
            continue;
        }
        let pieces: Vec<_> = cycle.chunks(longest).collect();
        let slot = firsts.begin.len();
        for (k, piece) in pieces.iter().enumerate() {
            firsts.push([staging.wrapping_add((slot + k) * bytes), at(piece[0])]);
            let successor = slot + (k + 1) % pieces.len();
            let last = staging.wrapping_add(successor * bytes);
            chains.push(piece.iter().map(|&p| at(p)).chain([last]));
        }
    }
    let (length, seed) = (rows as u64, random.next());
    firsts.run(emulator, &format!("shift_columns_{size}"), length, seed);
    chains.run(emulator, &format!("shift_columns_{size}"), length, seed);
    rotations.run(emulator, &format!("rotate_columns_{size}"), length, seed);

    saved.check("columns");
    devices.iter().for_each(|device| device.check("columns"));
    for p in 0..columns {
        let right = column(&devices, p) == before[source[p]];
        assert!(right, "column {p} of {columns} with {rows} rows of {size}, chains of {longest}");
    }
}

#[test]
fn columns_in_any_order() {
    let mut random = Random(11);
    let sizes = [4, 8, 16].into_iter().cycle();
    let cases = (2..=24).flat_map(|columns| [1, 2, 3, 100].map(|longest| (columns, longest)));
    let drawn = cases.zip(sizes).map(|(case, size)| {
        let rows = [1, 2, 31, 33, 127, 128, 129, 255, 256, 257, 600][random.below(11)];
        (case, size, rows, Random(random.next()))
    });
    for ((columns, longest), size, rows, mut random) in part(drawn) {
        check(columns, rows, size, longest, &mut random);
    }
}
