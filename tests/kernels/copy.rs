//! `kernels/copy.cu`.

use crate::kernels::emulator::small;
use crate::kernels::memory::Array;
use crate::transposition::Random;

#[test]
fn copies_keep_all_bits() {
    type Copy = unsafe extern "C" fn(*mut u8, *const u8, u64);
    let emulator = small();
    let mut random = Random(7);
    for size in [4, 8, 16] {
        // SAFETY: the parameters of the source.
        let copy: Copy = unsafe { emulator.kernel(&format!("copy_{size}")) };
        for count in (0..70).chain([127, 128, 129, 511, 512, 513, 1000, 4099]) {
            for blocks in [1, 2, 5] {
                let mut from = Array::random(count * size, size, &mut random);
                let mut to = Array::new(count * size, size);
                let before = from.content().to_vec();
                let (target, source) = (to.pointer(), from.pointer().cast_const());
                // SAFETY: `count` elements each.
                emulator.launch(blocks, 1, || unsafe { copy(target, source, count as u64) });
                assert!(to.content() == before && from.content() == before, "{count} of {size}");
                to.check("copy");
                from.check("copy");
            }
        }
    }
}
