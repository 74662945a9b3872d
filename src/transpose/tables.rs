//! What a transposition in registers does, as data ([`registers`](super::registers)).

use super::maps::Maps;

/// The most elements of a structure.
pub const MOST: usize = 32;

/// Words of 4 bytes in the widest register.
const WORDS: usize = 16;

/// Bits of the amount of a rotation: less than 16 lanes.
pub const BITS: usize = 4;

/// Rows of `lines.len()` elements, and the same elements as lines of `height`, in different memory.
pub struct Turn<'a> {
    pub rows: *mut u8,
    pub lines: &'a [*mut u8],
    pub height: usize,
    /// From rows to lines.
    pub split: bool,
    /// Memory of the size of the rows that will be needed next.
    pub soon: *const u8,
}

/// One value for every word of a register.
pub type Words = [u32; WORDS];

/// The steps of the registers, for registers of `lanes` elements.
pub struct Tables {
    pub lanes: usize,
    /// The row of the matrix that a register takes, and the row that it becomes.
    pub load: [usize; MOST],
    pub store: [usize; MOST],
    /// The words from which a register's words are taken.
    pub shuffle: [Words; MOST],
    pub rotations: [Rotation; 2],
}

/// Lane by lane, register k takes from register k + amount.
#[derive(Clone, Copy)]
pub struct Rotation {
    pub bits: usize,
    /// All bits set where a bit of the amount is.
    pub masks: [Words; BITS],
}

impl Rotation {
    fn new(amounts: impl Iterator<Item = usize>, words: usize) -> Self {
        let mut rotation = Rotation { bits: 0, masks: [[0; WORDS]; BITS] };
        for (lane, amount) in amounts.enumerate() {
            rotation.bits = rotation.bits.max((usize::BITS - amount.leading_zeros()) as usize);
            for (k, mask) in rotation.masks.iter_mut().enumerate() {
                let set = if amount >> k & 1 == 1 { u32::MAX } else { 0 };
                mask[lane * words..][..words].fill(set);
            }
        }
        rotation
    }
}

impl Tables {
    /// Tables for structures of `short` elements of `size` bytes and registers of `bytes`.
    pub fn new(short: usize, size: usize, bytes: usize, split: bool) -> Self {
        let (lanes, words) = (bytes / size, size / 4);
        let maps = Maps::new(short, lanes);
        // R2C rotates down. Upside down, that is up.
        let flip = |k: usize| if split { short - 1 - k } else { k };
        let mut tables = Tables {
            lanes,
            load: [0; MOST],
            store: [0; MOST],
            shuffle: [[0; WORDS]; MOST],
            rotations: [
                Rotation::new((0..lanes).map(|j| maps.rotation(j)), words),
                Rotation::new((0..lanes).map(|j| j % short), words),
            ],
        };
        for i in 0..short {
            // Eq. 33: the permutation of the rows, as eq. 26 for column 0.
            let permuted = flip(maps.source_row(i, 0));
            if split {
                (tables.load[permuted], tables.store[flip(i)]) = (i, i);
            } else {
                (tables.load[i], tables.store[permuted]) = (i, i);
            }
            for lane in 0..lanes {
                let from = if split { maps.shuffled(i, lane) } else { maps.unshuffled(i, lane) };
                for w in 0..words {
                    tables.shuffle[flip(i)][lane * words + w] = (from * words + w) as u32;
                }
            }
        }
        if split {
            tables.rotations.reverse();
        }
        tables
    }
}
