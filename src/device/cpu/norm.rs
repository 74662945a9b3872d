//! Sums of moduli and of squares for norms, in binary64 for entries of any dtype. Loops take a few
//! entries at a time, so the compiler makes vector instructions. Squares that over- or underflow
//! are rare; the largest of these entries shows them.

use faer::MatRef;

use super::blas::column;
use crate::device::Moduli;
use crate::device::squares::{SAFE, Squares};
use crate::scalar::Scalar;

const CHUNK: usize = 16;

/// Columns of a group with sums of its own, and its rows: 64 KiB of sums.
const GROUP: usize = 32;
const SUMS_AT_A_TIME: usize = 8192;

/// Sums and largest entry of x, which has contiguous columns. Adds row sums to `rows`.
pub fn moduli<T: Scalar>(x: MatRef<T>, mut rows: Option<&mut [f64]>) -> Moduli {
    let of_column = |j| of_column(column(x, j), rows.as_deref_mut());
    (0..x.ncols()).map(of_column).fold(Moduli::default(), Moduli::and)
}

/// Adds sums over the rows of x to `sums`. x has contiguous columns or rows.
pub fn add_moduli<T: Scalar>(x: MatRef<T>, sums: &mut [f64]) {
    if x.row_stride() == 1 {
        return add_by_groups(x, sums);
    }
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum += of_column(column(x.transpose(), i), None).column;
    }
}

/// Adds sums over the rows of x, which has contiguous columns, to `sums`. It sums a few columns at
/// a time, so errors do not grow with each column.
fn add_by_groups<T: Scalar>(x: MatRef<T>, sums: &mut [f64]) {
    let mut group = [0.0; SUMS_AT_A_TIME];
    for (part, sums) in sums.chunks_mut(SUMS_AT_A_TIME).enumerate() {
        let x = x.subrows(part * SUMS_AT_A_TIME, sums.len());
        for first in (0..x.ncols()).step_by(GROUP) {
            let group = &mut group[..sums.len()];
            group.fill(0.0);
            for j in first..x.ncols().min(first + GROUP) {
                of_column(column(x, j), Some(group));
            }
            sums.iter_mut().zip(group).for_each(|(sum, part)| *sum += *part);
        }
    }
}

/// Sums of squared moduli of x, which has contiguous columns or rows.
pub fn squares<T: Scalar>(x: MatRef<T>) -> Squares {
    let x = if x.row_stride() == 1 { x } else { x.transpose() };
    let of_column = |j| squares_of_column(column(x, j));
    (0..x.ncols()).map(of_column).fold(Squares::default(), Squares::and)
}

/// Adds the contribution of a lower trapezoid to the column sums of the Hermitian matrix. Each
/// column's first entry is on the diagonal.
pub fn hermitian_moduli<T: Scalar>(x: MatRef<T>, sums: &mut [f64]) {
    for j in 0..x.ncols() {
        let (diagonal, below) = column(x, j)[j..].split_first().expect("a trapezoid");
        let sum = of_column(below, Some(&mut sums[j + 1..])).column;
        // The diagonal is real, whatever is stored.
        sums[j] += sum + diagonal.parts().0.abs();
    }
}

/// The moduli of one column, with wide vectors if the processor has them.
fn of_column<T: Scalar>(column: &[T], rows: Option<&mut [f64]>) -> Moduli {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { of_column_avx2(column, rows) };
    }
    of_column_portable(column, rows)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn of_column_avx2<T: Scalar>(column: &[T], rows: Option<&mut [f64]>) -> Moduli {
    of_column_portable(column, rows)
}

#[inline(always)]
fn of_column_portable<T: Scalar>(column: &[T], mut rows: Option<&mut [f64]>) -> Moduli {
    let (mut sums, mut largest) = ([0.0; CHUNK], [0.0; CHUNK]);
    if !T::IS_COMPLEX {
        // One pass over each chunk: all sums stay in registers.
        match rows {
            Some(rows) => {
                let chunks = column.chunks(CHUNK).zip(rows.chunks_mut(CHUNK));
                chunks.for_each(|(entries, rows)| {
                    let rows = Some(rows);
                    of_real_chunk(entries, rows, &mut sums, &mut largest);
                });
            }
            None => column.chunks(CHUNK).for_each(|entries| {
                of_real_chunk(entries, None, &mut sums, &mut largest);
            }),
        }
        return moduli_from(&sums, &largest);
    }
    let (chunks, rest) = column.as_chunks::<CHUNK>();
    for (c, entries) in chunks.iter().enumerate() {
        let found = moduli_of(entries, &mut largest);
        (0..CHUNK).for_each(|i| sums[i] += found[i]);
        if let Some(rows) = &mut rows {
            let rows = &mut rows[c * CHUNK..][..CHUNK];
            (0..CHUNK).for_each(|i| rows[i] += found[i]);
        }
    }
    let mut entries = [T::ZERO; CHUNK];
    entries[..rest.len()].copy_from_slice(rest);
    let found = moduli_of(&entries, &mut largest);
    (0..CHUNK).for_each(|i| sums[i] += found[i]);
    if let Some(rows) = &mut rows {
        rows[column.len() - rest.len()..].iter_mut().zip(found).for_each(|(row, x)| *row += x);
    }
    moduli_from(&sums, &largest)
}

#[inline(always)]
fn moduli_from(sums: &[f64; CHUNK], largest: &[f64; CHUNK]) -> Moduli {
    Moduli { column: sums.iter().sum(), entry: largest.iter().copied().fold(0.0, f64::max) }
}

/// Adds the moduli of at most [`CHUNK`] real entries to `rows` and to the sum of each place in a
/// chunk.
#[inline(always)]
fn of_real_chunk<T: Scalar>(
    entries: &[T],
    rows: Option<&mut [f64]>,
    sums: &mut [f64; CHUNK],
    largest: &mut [f64; CHUNK],
) {
    let mut add = |i: usize, row: Option<&mut f64>| {
        let modulus = entries[i].parts().0.abs();
        sums[i] += modulus;
        largest[i] = if modulus > largest[i] { modulus } else { largest[i] };
        row.into_iter().for_each(|row| *row += modulus);
    };
    match rows {
        Some(rows) if entries.len() == CHUNK && rows.len() == CHUNK => {
            (0..CHUNK).for_each(|i| add(i, Some(&mut rows[i])));
        }
        Some(rows) => {
            rows.iter_mut().take(entries.len()).enumerate().for_each(|(i, row)| add(i, Some(row)))
        }
        None if entries.len() == CHUNK => (0..CHUNK).for_each(|i| add(i, None)),
        None => (0..entries.len()).for_each(|i| add(i, None)),
    }
}

/// The moduli of complex entries. Raises `largest` to |Re| + |Im|.
#[inline(always)]
fn moduli_of<T: Scalar>(entries: &[T; CHUNK], largest: &mut [f64; CHUNK]) -> [f64; CHUNK] {
    let (mut moduli, mut sizes) = ([0.0; CHUNK], [0.0f64; CHUNK]);
    for i in 0..CHUNK {
        let (re, im) = entries[i].parts();
        (moduli[i], sizes[i]) = ((re * re + im * im).sqrt(), re.abs() + im.abs());
    }
    // Without branches, so that the compiler compares whole vectors.
    let unsafe_square = |size: f64| (size > SAFE.end) | ((size > 0.0) & (size < SAFE.start));
    if sizes.iter().fold(false, |any, &size| any | unsafe_square(size)) {
        (0..CHUNK).for_each(|i| moduli[i] = entries[i].modulus());
    }
    for i in 0..CHUNK {
        largest[i] = if sizes[i] > largest[i] { sizes[i] } else { largest[i] };
    }
    moduli
}

/// The squares of one column, with wide vectors if the processor has them.
fn squares_of_column<T: Scalar>(column: &[T]) -> Squares {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { squares_avx2(column) };
    }
    squares_portable(column)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn squares_avx2<T: Scalar>(column: &[T]) -> Squares {
    squares_portable(column)
}

#[inline(always)]
fn squares_portable<T: Scalar>(column: &[T]) -> Squares {
    let mut sums = [0.0; 2 * CHUNK];
    let (chunks, rest) = column.as_chunks::<{ 2 * CHUNK }>();
    let square = |entry: T| {
        let (re, im) = entry.parts();
        re * re + im * im
    };
    for entries in chunks {
        (0..2 * CHUNK).for_each(|i| sums[i] += square(entries[i]));
    }
    let medium = sums.iter().sum::<f64>() + rest.iter().map(|&entry| square(entry)).sum::<f64>();
    // Terms that underflow are negligible in such a sum.
    if (SAFE.start * SAFE.start..SAFE.end * SAFE.end).contains(&medium) {
        return Squares { medium, ..Squares::default() };
    }
    let mut found = Squares::default();
    for (re, im) in column.iter().map(|entry| entry.parts()) {
        found.add(re);
        found.add(im);
    }
    found
}
