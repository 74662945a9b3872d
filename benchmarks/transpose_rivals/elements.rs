//! Elements of every size, and arrays whose elements encode their index.

use crate::threads::{parts, shared_out};
use bytemuck::NoUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub trait Element: NoUninit + Send + Sync + PartialEq {
    /// Distinct for distinct indices, as far as the type has values.
    fn from_index(k: usize) -> Self;
}

impl Element for u32 {
    fn from_index(k: usize) -> Self {
        k as u32
    }
}

impl Element for u64 {
    fn from_index(k: usize) -> Self {
        k as u64
    }
}

impl Element for u128 {
    fn from_index(k: usize) -> Self {
        k as u128 | !(k as u128) << 64
    }
}

/// Runs the block with the type of elements of `$size` bytes.
macro_rules! with_elements {
    ($size:expr, $E:ident => $block:block) => {
        match $size {
            4 => {
                type $E = u32;
                $block
            }
            8 => {
                type $E = u64;
                $block
            }
            16 => {
                type $E = u128;
                $block
            }
            size => panic!("elements of {size} bytes"),
        }
    };
}
pub(crate) use with_elements;

pub fn fill<E: Element>(data: &mut [E], threads: usize) {
    let piece = data.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (part, data) in data.chunks_mut(piece).enumerate() {
            scope.spawn(move || {
                for (k, element) in data.iter_mut().enumerate() {
                    *element = E::from_index(part * piece + k);
                }
            });
        }
    });
}

/// The number of elements that differ from the transpose of a filled rows x cols array.
pub fn misplaced<E: Element>(data: &[E], (rows, cols): (usize, usize), threads: usize) -> usize {
    let wrong = AtomicUsize::new(0);
    shared_out(parts(cols, threads), |columns| {
        for j in columns {
            let line = data[j * rows..][..rows].iter().enumerate();
            let count = line.filter(|(i, x)| **x != E::from_index(i * cols + j)).count();
            wrong.fetch_add(count, Relaxed);
        }
    });
    wrong.into_inner()
}
