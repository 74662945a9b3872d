//! Arrays between canaries, filled with random bits, many of which are NaNs with a payload.

use crate::transposition::Random;

const CANARY: u8 = 0xA5;
const MARGIN: usize = 256;

/// `len` bytes at a multiple of `alignment`, and of nothing larger.
pub struct Array {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Array {
    pub fn new(len: usize, alignment: usize) -> Self {
        let bytes = vec![CANARY; len + 2 * MARGIN];
        let start = 64 + bytes.as_ptr().align_offset(64) + alignment;
        Array { bytes, start, len }
    }

    pub fn random(len: usize, alignment: usize, random: &mut Random) -> Self {
        let mut array = Array::new(len, alignment);
        for (k, word) in array.content_mut().chunks_mut(4).enumerate() {
            word.copy_from_slice(&(random.next() as u32).to_le_bytes());
            match k % 5 {
                0 => word[2..].copy_from_slice(&[0xA0, 0x7F]), // signalling, of 4 bytes
                1 => word[2..].copy_from_slice(&[0xF4, 0xFF]), // of 8 bytes
                _ => {}
            }
        }
        array
    }

    /// The same bytes at another place.
    pub fn of(content: &[u8], alignment: usize) -> Self {
        let mut array = Array::new(content.len(), alignment);
        array.content_mut().copy_from_slice(content);
        array
    }

    pub fn of_value<T: Copy>(value: T) -> Self {
        let mut array = Array::new(size_of::<T>(), align_of::<T>());
        // SAFETY: the array has as many bytes.
        unsafe { array.pointer().cast::<T>().write_unaligned(value) };
        array
    }

    pub fn zeros(len: usize, alignment: usize) -> Self {
        let mut array = Array::new(len, alignment);
        array.content_mut().fill(0);
        array
    }

    pub fn content(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    pub fn content_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.content_mut().as_mut_ptr()
    }

    pub fn check(&self, what: &str) {
        let (before, rest) = self.bytes.split_at(self.start);
        let around = before.iter().chain(&rest[self.len..]);
        assert!(around.into_iter().all(|byte| *byte == CANARY), "{what} wrote outside");
    }
}
