//! Packing of a factor of a product.

use faer::MatRef;

use crate::scalar::Scalar;

/// A factor in units: element p of all lines of the first unit for each p, then the next unit.
pub struct Packed<'a, T> {
    elements: &'a [T],
    unit: usize,
    lines: usize,
    depth: usize,
}

impl<'a, T: Scalar> Packed<'a, T> {
    /// Elements of a packed factor.
    pub fn elements(unit: usize, lines: usize, depth: usize) -> usize {
        lines.next_multiple_of(unit) * depth
    }

    /// Packs the rows of a left factor, or of the transpose of a right one, into the first elements
    /// of `memory`.
    pub fn new(rows: MatRef<T>, conjugated: bool, unit: usize, memory: &'a mut [T]) -> Self {
        let (lines, depth) = rows.shape();
        let memory = &mut memory[..Self::elements(unit, lines, depth)];
        let whole = lines / unit * unit;
        if depth > 0 && whole < lines {
            memory[whole * depth..].fill(T::ZERO);
        }
        match (rows.row_stride(), rows.col_stride()) {
            (1, _) if !(conjugated && T::IS_COMPLEX) => along_lines(rows, unit, memory),
            _ => along_depth(rows, conjugated, unit, memory),
        }
        Packed { elements: memory, unit, lines, depth }
    }

    pub fn unit(&self) -> usize {
        self.unit
    }

    pub fn lines(&self) -> usize {
        self.lines
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    pub fn units(&self) -> impl Iterator<Item = &'a [T]> {
        self.elements.chunks_exact((self.unit * self.depth).max(1))
    }
}

/// Packs rows that are next to each other: a column at a time, for the processor's own prefetches.
fn along_lines<T: Scalar>(rows: MatRef<T>, unit: usize, memory: &mut [T]) {
    // With a size that the compiler knows, a copy is some moves instead of a call.
    match unit * size_of::<T>() {
        24 => copy_units::<T, 24>(rows, unit, memory),
        32 => copy_units::<T, 32>(rows, unit, memory),
        48 => copy_units::<T, 48>(rows, unit, memory),
        64 => copy_units::<T, 64>(rows, unit, memory),
        192 => copy_units::<T, 192>(rows, unit, memory),
        _ => copy_units::<T, 0>(rows, unit, memory),
    }
}

/// BYTES are those of a unit, or 0.
fn copy_units<T: Scalar, const BYTES: usize>(rows: MatRef<T>, unit: usize, memory: &mut [T]) {
    let (lines, depth) = rows.shape();
    let whole = lines / unit;
    for p in 0..depth {
        let column = super::super::blas::column(rows, p);
        for (index, from) in column[..whole * unit].chunks_exact(unit).enumerate() {
            let at = (index * depth + p) * unit;
            let to = &mut memory[at..at + unit];
            match BYTES {
                0 => to.copy_from_slice(from),
                _ => {
                    let (from, to) = (from.as_ptr().cast(), to.as_mut_ptr().cast::<[u8; BYTES]>());
                    // SAFETY: both have BYTES bytes.
                    unsafe { to.write_unaligned(std::ptr::read_unaligned(from)) };
                }
            }
        }
        let (at, rest) = ((whole * depth + p) * unit, &column[whole * unit..]);
        if !rest.is_empty() {
            memory[at..at + rest.len()].copy_from_slice(rest);
        }
    }
}

/// Packs rows of any strides, a unit at a time: its lines side by side, so that writes are in order.
fn along_depth<T: Scalar>(rows: MatRef<T>, conjugated: bool, unit: usize, memory: &mut [T]) {
    let (lines, depth) = rows.shape();
    let (stride, step) = (rows.row_stride(), rows.col_stride());
    for (memory, first) in
        memory.chunks_exact_mut((unit * depth).max(1)).zip((0..lines).step_by(unit))
    {
        let own = unit.min(lines - first);
        let top = rows.as_ptr().wrapping_offset(first as isize * stride);
        for (p, memory) in memory.chunks_exact_mut(unit).enumerate() {
            let at = top.wrapping_offset(p as isize * step);
            for (line, to) in memory[..own].iter_mut().enumerate() {
                // SAFETY: `line` is in this unit and p below the depth, so the element is there.
                let from = unsafe { *at.wrapping_offset(line as isize * stride) };
                *to = if conjugated { T::conj_impl(&from) } else { from };
            }
        }
    }
}
