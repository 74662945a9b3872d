//! Elements more than 2^32 elements apart, in memory whose pages exist only where they are touched.

use crate::kernels::emulator::small;
use crate::kernels::rows::{Find, Move};

type Square = unsafe extern "C" fn(*mut u64, u64, u64);
type Mirror = unsafe extern "C" fn(*mut u64, u64, *const u64, u64, u64, u64, i32, i32);

const STRIDE: usize = (1 << 32) + 3;
const N: usize = 5;

/// N lines of N elements, STRIDE elements apart; element (i, j) is 10 * i + j.
struct Far(*mut u64);

impl Far {
    const BYTES: usize = N * STRIDE * 8;

    fn new() -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let kind = kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory, at any address.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, kind, -1, 0) };
        assert!(place != libc::MAP_FAILED, "no address space of {} bytes", Self::BYTES);
        let far = Far(place.cast());
        for (i, j) in places() {
            // SAFETY: within the mapping.
            unsafe { far.at(i, j).write((10 * i + j) as u64) };
        }
        far
    }

    fn at(&self, i: usize, j: usize) -> *mut u64 {
        self.0.wrapping_add(i * STRIDE + j)
    }

    fn check(&self, what: &str, expected: impl Fn(usize, usize) -> usize) {
        for (i, j) in places() {
            // SAFETY: within the mapping.
            let found = unsafe { self.at(i, j).read() };
            assert!(found == expected(i, j) as u64, "{what}: {found} at ({i}, {j})");
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.0.cast(), Self::BYTES) };
    }
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..N).flat_map(|i| (0..N).map(move |j| (i, j)))
}

#[test]
fn squares() {
    let far = Far::new();
    // SAFETY: the parameters of the source.
    let square: Square = unsafe { small().kernel("transpose_square_8") };
    // SAFETY: N lines, STRIDE elements apart.
    small().launch(2, 1, || unsafe { square(far.0, N as u64, STRIDE as u64) });
    far.check("transpose_square", |i, j| 10 * j + i);
}

#[test]
fn mirrors() {
    let far = Far::new();
    let (n, stride) = (N as u64, STRIDE as u64);
    // SAFETY: the parameters of the source.
    let mirror: Mirror = unsafe { small().kernel("mirror_8") };
    // SAFETY: N columns, STRIDE elements apart; 1 is the lower triangle.
    small().launch(2, 1, || unsafe { mirror(far.0, stride, far.0, stride, n, n, 1, 0) });
    far.check(
        "mirror",
        |column, row| if row >= column { 10 * row + column } else { 10 * column + row },
    );
}

#[test]
fn interchanges() {
    let far = Far::new();
    let (n, stride, pivots) = (N as u64, STRIDE as u64, [3, 1, 4]);
    // SAFETY: the parameters of the source.
    let find: Find = unsafe { small().kernel("find_moves") };
    // SAFETY: as above.
    let apply: Move = unsafe { small().kernel("permute_rows_8") };
    let (mut moves, list) = ([0; 12], pivots.as_ptr());
    let found = moves.as_mut_ptr();
    // SAFETY: three pivots, and two numbers for each of six slots.
    small().launch(1, 1, || unsafe { find(found, 0, list, 3, 0) });
    // First the columns are STRIDE elements apart, then the rows.
    for (down, across) in [(1, stride), (stride, 1)] {
        // SAFETY: N x N elements with these strides.
        small().launch(1, 1, || unsafe { apply(far.0.cast(), down, across, n, found, 6) });
    }
    // Rows 0 and 3, then 2 and 4.
    let source = [3, 1, 4, 0, 2];
    far.check("permute_rows", |i, j| 10 * source[i] + source[j]);
}
