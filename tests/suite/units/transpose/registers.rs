//! Transpositions in registers, against the definition.

#[cfg(target_arch = "x86_64")]
use meshsolve::transpose::kernels;
#[cfg(target_arch = "x86_64")]
use meshsolve::transpose::tables::Tables;
use meshsolve::transpose::tables::{MOST, Turn};

/// Transposes rows of structures to lines with gaps between them, or back. Compares with the
/// definition.
fn check<const S: usize>(run: impl Fn(&Turn)) {
    for short in 2..=MOST {
        for height in [0, 1, 3, 15, 16, 17, 40] {
            for (split, shift) in [(true, 5), (false, 0), (true, 0), (false, 7)] {
                let pitch = (height + 2) * S;
                let bytes = |k: usize, by: usize| (0..k).map(|x| (x * by % 251) as u8).collect();
                let mut rows: Vec<u8> = bytes(height * short * S + shift, 37);
                let mut lines: Vec<u8> = bytes(pitch * short + shift, 41);
                let (mut rows_after, mut lines_after) = (rows.clone(), lines.clone());
                for (t, c) in (0..height).flat_map(|t| (0..short).map(move |c| (t, c))) {
                    let (x, y) = (shift + (t * short + c) * S, shift + c * pitch + t * S);
                    if split {
                        lines_after[y..][..S].copy_from_slice(&rows[x..][..S]);
                    } else {
                        rows_after[x..][..S].copy_from_slice(&lines[y..][..S]);
                    }
                }
                let base = lines.as_mut_ptr().wrapping_add(shift);
                let at: Vec<*mut u8> = (0..short).map(|c| base.wrapping_add(c * pitch)).collect();
                let rows_at = rows.as_mut_ptr().wrapping_add(shift);
                run(&Turn { rows: rows_at, lines: &at, height, split, soon: rows_at });
                let right = rows == rows_after && lines == lines_after;
                assert!(right, "{S} bytes, {height} structures of {short}, split: {split}");
            }
        }
    }
}

#[test]
fn element_by_element() {
    // SAFETY: `check` owns the memory.
    unsafe {
        check::<4>(|turn| turn.plain::<4>(0));
        check::<8>(|turn| turn.plain::<8>(0));
        check::<16>(|turn| turn.plain::<16>(0));
    }
}

#[cfg(target_arch = "x86_64")]
fn check_kernel(bytes: usize, kernel: unsafe fn(&Turn, &Tables)) {
    // SAFETY: `check` owns the memory; the caller has tested for the instruction set.
    unsafe {
        check::<4>(|turn| turn.with::<4>(bytes, kernel));
        check::<8>(|turn| turn.with::<8>(bytes, kernel));
        check::<16>(|turn| turn.with::<16>(bytes, kernel));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn in_registers_of_avx2() {
    if is_x86_feature_detected!("avx2") {
        check_kernel(32, kernels::avx2);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn in_registers_of_avx512() {
    if is_x86_feature_detected!("avx512f") {
        check_kernel(64, kernels::avx512);
    }
}
