//! `kernels/triangle.cu` and `kernels/fill.cu`.

use crate::kernels::emulator::small;
use crate::kernels::memory::Array;
use crate::transposition::Random;

type Mirror = unsafe extern "C" fn(*mut u8, u64, *const u8, u64, u64, u64, i32, i32);
type Clear = unsafe extern "C" fn(*mut u8, u64, u64, u64, i32);

const WHOLE: i32 = 0;
const LOWER: i32 = 1;
const UPPER: i32 = 2;

fn within(part: i32, i: usize, j: usize) -> bool {
    part == WHOLE || if part == LOWER { i >= j } else { i <= j }
}

/// The image of an element: the sign of its second half changes, or that half becomes zero.
fn image(element: &[u8], conjugated: bool, edge: bool) -> Vec<u8> {
    let mut image = element.to_vec();
    if conjugated && element.len() > 4 {
        match edge {
            true => image[element.len() / 2..].fill(0),
            false => image[element.len() - 1] ^= 0x80,
        }
    }
    image
}

const SHAPES: [(usize, usize); 12] = [
    (1, 1),
    (2, 3),
    (15, 17),
    (16, 16),
    (32, 33),
    (33, 32),
    (64, 64),
    (65, 1),
    (1, 65),
    (70, 129),
    (130, 40),
    (100, 100),
];

#[test]
fn blocks_mirrored() {
    let emulator = small();
    let mut random = Random(17);
    for (trial, (rows, cols)) in SHAPES.into_iter().enumerate() {
        for (part, size) in
            [WHOLE, LOWER, UPPER].into_iter().flat_map(|p| [(p, 4), (p, 8), (p, 16)])
        {
            let conjugated = (trial + part as usize).is_multiple_of(2);
            let (to_stride, from_stride) = (rows + trial % 3, cols + trial % 2);
            let mut to = Array::random(to_stride * cols * size, size, &mut random);
            let mut from = Array::random(from_stride * rows * size, size, &mut random);
            let (mut expected, unchanged) = (to.content().to_vec(), from.content().to_vec());
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                if within(part, i, j) {
                    let element = &unchanged[(j + i * from_stride) * size..][..size];
                    let image = image(element, conjugated, part != WHOLE && i == j);
                    expected[(i + j * to_stride) * size..][..size].copy_from_slice(&image);
                }
            }
            // SAFETY: the parameters of the source.
            let mirror: Mirror = unsafe { emulator.kernel(&format!("mirror_{size}")) };
            let (target, source) = (to.pointer(), from.pointer().cast_const());
            let (rows, cols, conjugated) = (rows as u64, cols as u64, conjugated as i32);
            let (to_stride, from_stride) = (to_stride as u64, from_stride as u64);
            emulator.launch(1 + trial as u32 % 3, 1, || {
                // SAFETY: blocks of these shapes.
                unsafe {
                    mirror(target, to_stride, source, from_stride, rows, cols, part, conjugated);
                }
            });
            to.check("mirror");
            from.check("mirror");
            assert!(to.content() == expected, "{rows} x {cols} of {size}, part {part}");
            assert!(from.content() == unchanged, "{rows} x {cols} of {size}, part {part}");
        }
    }
}

#[test]
fn one_triangle_from_the_other_in_place() {
    let emulator = small();
    let mut random = Random(19);
    for n in [1usize, 2, 15, 16, 17, 31, 33, 64, 65, 100, 130] {
        for (part, size) in [LOWER, UPPER].into_iter().flat_map(|p| [(p, 4), (p, 8), (p, 16)]) {
            let conjugated = n % 2 == 0;
            let stride = n + 3;
            let mut a = Array::random(stride * n * size, size, &mut random);
            let before = a.content().to_vec();
            let mut expected = before.clone();
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                if within(part, i, j) {
                    let element = &before[(j + i * stride) * size..][..size];
                    let image = image(element, conjugated, i == j);
                    expected[(i + j * stride) * size..][..size].copy_from_slice(&image);
                }
            }
            // SAFETY: the parameters of the source.
            let mirror: Mirror = unsafe { emulator.kernel(&format!("mirror_{size}")) };
            let data = a.pointer();
            let (order, stride) = (n as u64, stride as u64);
            emulator.launch(3, n as u64, || {
                // SAFETY: a block of this order.
                unsafe {
                    mirror(data, stride, data, stride, order, order, part, conjugated as i32);
                }
            });
            a.check("mirror");
            assert!(a.content() == expected, "{n} of {size}, part {part}");
        }
    }
}

#[test]
fn outside_of_triangles_cleared() {
    let emulator = small();
    let mut random = Random(23);
    for (trial, (rows, cols)) in SHAPES.into_iter().enumerate() {
        for (lower, size) in [true, false].into_iter().flat_map(|l| [(l, 4), (l, 8), (l, 16)]) {
            let stride = rows + trial % 4;
            let mut a = Array::random(stride * cols * size, size, &mut random);
            let mut expected = a.content().to_vec();
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                if !within(if lower { LOWER } else { UPPER }, i, j) {
                    expected[(i + j * stride) * size..][..size].fill(0);
                }
            }
            // SAFETY: the parameters of the source.
            let clear: Clear = unsafe { emulator.kernel(&format!("clear_outside_{size}")) };
            let data = a.pointer();
            emulator.launch(2, 1, || {
                // SAFETY: a block of this shape.
                unsafe { clear(data, stride as u64, rows as u64, cols as u64, lower as i32) };
            });
            a.check("clear_outside");
            assert!(a.content() == expected, "{rows} x {cols} of {size}, lower {lower}");
        }
    }
}

#[test]
fn blocks_filled() {
    fn check<T: Copy>(value: T) {
        type Fill<T> = unsafe extern "C" fn(*mut u8, u64, u64, u64, T);
        let size = size_of::<T>();
        let mut random = Random(29);
        // SAFETY: the parameters of the source.
        let fill: Fill<T> = unsafe { small().kernel(&format!("fill_{size}")) };
        for (trial, (rows, cols)) in SHAPES.into_iter().enumerate() {
            let stride = rows + trial % 4;
            let mut a = Array::random(stride * cols * size, size, &mut random);
            let mut expected = a.content().to_vec();
            let image = Array::of_value(value);
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                expected[(i + j * stride) * size..][..size].copy_from_slice(image.content());
            }
            let data = a.pointer();
            small().launch(2, 1, || {
                // SAFETY: a block of this shape.
                unsafe { fill(data, stride as u64, rows as u64, cols as u64, value) };
            });
            a.check("fill");
            assert!(a.content() == expected, "{rows} x {cols} of {size}");
        }
    }
    #[repr(C, align(16))]
    #[derive(Clone, Copy)]
    struct Quad([u32; 4]);
    check(0x7FA0_1234u32);
    check([0x1234u32, 0xFFF4_5678]);
    check(Quad([1, 0x7FF4_0000, 3, 0xFFF4_0000]));
}
