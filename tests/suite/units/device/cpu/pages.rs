//! Large pages, as the system says it in `/proc/self/smaps`.

use std::fs;

use memmap2::MmapMut;
use meshsolve::device::cpu::pages::prefer_large;
use meshsolve::layout::Storage;

use crate::common::case::{Case, call};
use crate::common::{buffer, int_scalar, positive_definite, real_scalar};

const BYTES: usize = 6 << 20;

/// Pages of their own, without content.
fn memory() -> MmapMut {
    MmapMut::map_anon(BYTES).unwrap()
}

/// Whether large pages have been asked for, for the memory at an address.
fn is_asked(at: *const u8) -> bool {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_here = false;
    for line in maps.lines() {
        let range = line.split(' ').next().unwrap().split_once('-');
        let parts = range.map(|(from, to)| [from, to].map(|x| usize::from_str_radix(x, 16)));
        if let Some([Ok(from), Ok(to)]) = parts {
            is_here = (from..to).contains(&at.addr());
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
            return flags.split_whitespace().any(|flag| flag == "hg");
        }
    }
    panic!("no memory at {at:?}");
}

/// Some kernels have no large pages.
fn are_there() -> bool {
    fs::exists("/sys/kernel/mm/transparent_hugepage/enabled").unwrap()
}

#[test]
fn large_pages_are_for_large_memory() {
    let mut pages = memory();
    let first = pages.as_mut_ptr();
    prefer_large(first, 1 << 20);
    assert!(!is_asked(first));
    // Whole pages within it.
    prefer_large(first.wrapping_add(100), BYTES - 5000);
    assert!(!is_asked(first) && !is_asked(first.wrapping_add(BYTES - 1)));
    assert_eq!(is_asked(first.wrapping_add(BYTES / 2)), are_there());
    assert!(pages.iter().all(|byte| *byte == 0));
}

#[test]
fn a_result_in_memory_of_its_own_gets_them() {
    let (n, storage) = (800, ("rows", Storage::Rows));
    let case = Case { n, ranks: 1, storage, lower: true, trans: 0, order: "natural", at: None };
    let a = positive_definite::<f64>(n, 5);
    let (mut given, mut result) = (memory(), memory());
    let [from, to] = [&mut given, &mut result].map(|pages| {
        let numbers: &mut [f64] = bytemuck::cast_slice_mut(pages);
        &mut numbers[..n * n]
    });
    from.iter_mut().enumerate().for_each(|(at, x)| *x = a[(at / n, at % n)]);
    let (at_a, at_factor) = (from.as_ptr().cast::<u8>(), to.as_ptr().cast::<u8>());
    let (mut info, mut norm) = (-1, 0.0);
    case.run("potrf", |rank| {
        let results =
            vec![buffer(to, &[n, n]), int_scalar(&mut info), real_scalar::<f64>(&mut norm)];
        call(rank, vec![buffer(from, &[n, n])], results)
    });
    assert_eq!(info, 0);
    assert!(!is_asked(at_a), "of an operand, which has its content");
    assert_eq!(is_asked(at_factor), are_there());
}
