//! A file of the cache: the key of the compilation, its result, and a checksum of all. The file has
//! the whole key, so no two sources can be confused.
//!
//! `MAGIC`, the lengths of key, log and cubin (u64, little endian), the checksum (u128), key, log,
//! cubin.

use crate::device::cuda::nvrtc::Compiled;

const MAGIC: &[u8; 16] = b"meshsolve cubin1";
const HEAD: usize = 16 + 3 * 8 + 16;

pub fn encode(key: &[u8], compiled: &Compiled) -> Vec<u8> {
    let parts = [key, compiled.log.as_bytes(), &compiled.cubin];
    let mut head = MAGIC.to_vec();
    for part in parts {
        head.extend((part.len() as u64).to_le_bytes());
    }
    let mut sum = Hash::new();
    sum.add(&head);
    parts.iter().for_each(|part| sum.add(part));
    head.extend(sum.0.to_le_bytes());
    [&head[..], parts[0], parts[1], parts[2]].concat()
}

/// `None` if the bytes are not those of a whole entry.
pub fn decode(bytes: &[u8]) -> Option<(&[u8], Compiled)> {
    let (head, mut body) = bytes.split_at_checked(HEAD)?;
    let (described, checksum) = head.split_at(HEAD - 16);
    let mut sum = Hash::new();
    sum.add(described);
    sum.add(body);
    if !described.starts_with(MAGIC) || sum.0.to_le_bytes() != checksum {
        return None;
    }
    let mut parts = [&[][..]; 3];
    for (part, length) in parts.iter_mut().zip(described[MAGIC.len()..].as_chunks::<8>().0) {
        (*part, body) =
            body.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    let log = String::from_utf8(parts[1].to_vec()).ok()?;
    body.is_empty().then(|| (parts[0], Compiled { cubin: parts[2].to_vec(), log }))
}

/// FNV-1a of 128 bits. It need not resist attacks: a user who can write here owns the folder.
pub struct Hash(pub u128);

impl Hash {
    pub fn new() -> Hash {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    pub fn of(bytes: &[u8]) -> u128 {
        let mut hash = Hash::new();
        hash.add(bytes);
        hash.0
    }
}

impl Default for Hash {
    fn default() -> Self {
        Hash::new()
    }
}
