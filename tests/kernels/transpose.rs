//! Transposition in place on a device against its definition, bit for bit.

use meshsolve::device::cuda::sources;
use meshsolve::transpose::device::Argument::Integer;
use meshsolve::transpose::device::Launch;
use meshsolve::transpose::{Algorithm, Plan};

use crate::kernels::device::Device;
use crate::kernels::emulator::{full, older, small};
use crate::kernels::memory::Array;
use crate::transposition::{Random, SIZES, transposed};

type Square = unsafe extern "C" fn(*mut u8, u64, u64);
type Shards = unsafe extern "C" fn(*const *mut u8, u64, u64, u64, u64);

fn check(device: Device, algorithm: Algorithm, rows: usize, cols: usize, size: usize) {
    check_plan(device, &Plan::forced(algorithm, rows, cols, size));
}

fn check_plan(device: Device, plan: &Plan) {
    check_launches(device, plan, |alignment| plan.launches(alignment));
}

fn check_launches(device: Device, plan: &Plan, launches: impl Fn(usize) -> Vec<Launch>) {
    check_at(device, plan, plan.element_size(), launches);
}

/// At a multiple of `alignment`, and of nothing larger.
fn check_at(
    device: Device,
    plan: &Plan,
    alignment: usize,
    launches: impl Fn(usize) -> Vec<Launch>,
) {
    let (rows, cols, size) = (plan.rows(), plan.cols(), plan.element_size());
    let mut random = Random(88172645463325252 + (rows * 1000 + cols) as u64);
    let mut memory = Array::random(rows * cols * size, alignment, &mut random);
    let before = memory.content().to_vec();
    let data = memory.pointer();
    device.transpose(plan, &launches(1 << data.addr().trailing_zeros()), data);
    memory.check(&plan.to_string());
    let right = memory.content() == transposed(&before, rows, cols, size);
    assert!(right, "{plan}, {} blocks, seed {}", device.blocks, device.seed);
}

/// An argument of the kernel `name`.
fn integer(plan: &Plan, name: &str, place: usize) -> u64 {
    let launch = plan.launches(16).into_iter().find(|x| x.name == name).expect("a launch");
    let Integer(x) = launch.arguments[place] else { panic!("an integer") };
    x
}

fn divisors(x: usize, y: usize) -> impl Iterator<Item = usize> {
    (1..=x.min(y)).filter(move |d| x.is_multiple_of(*d) && y.is_multiple_of(*d))
}

#[test]
fn squares_of_any_side() {
    for n in (0..=70).chain([96, 127, 128, 129, 191, 193, 256, 331]) {
        for (k, size) in SIZES.into_iter().enumerate() {
            let device =
                Device { emulator: small(), blocks: 1 + (n + k) as u32 % 4, seed: n as u64 };
            check(device, Algorithm::Square, n, n, size);
        }
    }
}

/// Arrays and lines at multiples of 16 bytes, accessed 16 bytes at a time, and others.
#[test]
fn small_elements_by_16_bytes() {
    for (k, n) in [4usize, 8, 36, 64, 66, 68, 132, 200].into_iter().enumerate() {
        for size in [4, 8] {
            let device = Device { emulator: small(), blocks: 1 + k as u32 % 3, seed: n as u64 };
            let forced = |how, rows, cols| Plan::forced(how, rows, cols, size);
            let mut plans = vec![
                forced(Algorithm::Square, n, n),
                forced(Algorithm::Blocks { side: n }, n, 2 * n),
                forced(Algorithm::Blocks { side: n }, 2 * n, n),
            ];
            for (long, height) in [(3 * n + 4, n), (2 * n, n), (2 * n + 5, n - 1)] {
                for short in [n, n + 1] {
                    plans.push(forced(Algorithm::Panel { height }, long, short));
                    plans.push(forced(Algorithm::Panel { height }, short, long));
                }
            }
            for plan in plans {
                for alignment in [16, size] {
                    check_at(device, &plan, alignment, |given| plan.launches(given));
                }
            }
        }
    }
}

#[test]
fn squares_with_space_between_their_rows() {
    let emulator = small();
    let mut random = Random(3);
    for (n, stride) in [(2usize, 3usize), (33, 40), (65, 67), (70, 128)] {
        for size in SIZES {
            // SAFETY: the parameters of the source.
            let square: Square = unsafe { emulator.kernel(&format!("transpose_square_{size}")) };
            let mut memory = Array::random(n * stride * size, size, &mut random);
            let mut expected = memory.content().to_vec();
            for i in 0..n {
                for j in 0..n {
                    let element = &memory.content()[(j * stride + i) * size..][..size];
                    expected[(i * stride + j) * size..][..size].copy_from_slice(element);
                }
            }
            let data = memory.pointer();
            // SAFETY: n rows of `stride` elements.
            emulator.launch(2, 5, || unsafe { square(data, n as u64, stride as u64) });
            memory.check("transpose_square");
            assert!(memory.content() == expected, "{n} with {stride} of {size}");
        }
    }
}

#[test]
fn shards_as_a_whole_by_several_devices() {
    let emulator = small();
    let mut random = Random(5);
    for (order, parts) in
        [(2usize, 2usize), (4, 1), (6, 3), (40, 4), (66, 2), (130, 2), (195, 3), (132, 4)]
    {
        for size in SIZES {
            // SAFETY: the parameters of the source.
            let shards: Shards = unsafe { emulator.kernel(&format!("transpose_shards_{size}")) };
            let whole = Array::random(order * order * size, size, &mut random);
            let expected = transposed(whole.content(), order, order, size);
            let bytes = order / parts * order * size;
            let part = |p: usize| Array::of(&whole.content()[p * bytes..][..bytes], size);
            let mut memory: Vec<_> = (0..parts).map(part).collect();
            let table: Vec<*mut u8> = memory.iter_mut().map(Array::pointer).collect();
            let tiles = (parts * (order / parts).div_ceil(256 / size)) as u64;
            let pairs = tiles * (tiles + 1) / 2;
            for device in 0..parts as u64 {
                let share = |device: u64| pairs * device / parts as u64;
                let (first, end) = (share(device), share(device + 1));
                let (parts, order) = (parts as u64, order as u64);
                // SAFETY: the table has all parts, in order.
                emulator.launch(2, 1, || unsafe {
                    shards(table.as_ptr(), parts, order, first, end);
                });
            }
            for (p, part) in memory.iter().enumerate() {
                part.check("transpose_shards");
                assert!(part.content() == &expected[p * bytes..][..bytes], "{order} in {parts}");
            }
        }
    }
}

#[test]
fn blocks_of_all_sides_in_all_small_shapes() {
    for (rows, cols) in (2..=40).flat_map(|i| (2..=40).map(move |j| (i, j))) {
        // Small blocks cause many barriers each: in small arrays only.
        for side in divisors(rows, cols).filter(|side| rows * cols <= 36 * side * side) {
            let size = SIZES[(rows + cols + side) % 3];
            let device = Device { emulator: small(), blocks: 2, seed: (rows * cols) as u64 };
            check(device, Algorithm::Blocks { side }, rows, cols, size);
        }
    }
}

#[test]
fn blocks_in_larger_shapes() {
    let shapes = [
        (66, 99, 33),
        (128, 192, 64),
        (67, 201, 67),
        (260, 130, 130),
        (7, 700, 7),
        (514, 257, 257), // segments of more than one slice
        (300, 900, 300),
        (5, 2000, 5),
        (160, 480, 16),
    ];
    for (x, y, side) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            for size in SIZES {
                let device = Device { emulator: small(), blocks: 3, seed: 1 };
                check(device, Algorithm::Blocks { side }, rows, cols, size);
            }
        }
    }
}

/// One long cycle, many warps on it, in many orders.
#[test]
fn claims_in_many_orders() {
    for seed in 0..120 {
        let device = Device { emulator: small(), blocks: 1 + seed as u32 % 8, seed };
        let size = SIZES[seed as usize % 3];
        check(device, Algorithm::Blocks { side: 4 }, 4 * 23, 4 * 3, size);
        check(device, Algorithm::Blocks { side: 1 }, 7, 11, size);
    }
}

/// Pieces of 16-byte elements that hold a slice and more, by bulk copies and without.
#[test]
fn long_pieces_in_many_orders() {
    let plans = |size: usize| {
        let (unit, forced) = (16 / size, Plan::forced);
        let blocks = Algorithm::Blocks { side: 130 * unit };
        let panels = |height: usize| Algorithm::Panel { height: height * unit };
        let skinny = |height: usize| Algorithm::Skinny { height: height * unit };
        [
            forced(blocks, 260 * unit, 130 * unit, size),
            forced(panels(128), 128 * 5 * unit + 3 * unit, 7, size),
            forced(panels(300), 6, 300 * 4 * unit + unit, size),
            forced(skinny(280), 280 * 6 * unit + 2 * unit, 3, size),
            forced(skinny(140), 5, 140 * 7 * unit, size),
        ]
    };
    for seed in 0..16 {
        let emulator = if seed % 4 == 3 { older() } else { small() };
        let device = Device { emulator, blocks: 1 + seed as u32 % 5, seed };
        let size = SIZES[seed as usize % 3];
        for plan in plans(size) {
            for alignment in if size == 16 { vec![16] } else { vec![16, size] } {
                check_at(device, &plan, alignment, |given| {
                    let launches = plan.launches(given);
                    let moves = launches.iter().find(|x| x.name.starts_with("move_"));
                    let bulk = given >= 16;
                    assert!(moves.is_some_and(|x| (x.width == 16) == bulk), "{plan} at {given}");
                    launches
                });
            }
        }
    }
}

#[test]
fn panels_of_all_small_shapes() {
    for (rows, cols) in (2..=40).flat_map(|i| (2..=40).map(move |j| (i, j))) {
        let long = rows.max(cols);
        let heights = [1, 2, 3, 7, 8, long / 2, long - 1, long];
        let height = heights[(rows * 7 + cols) % 8].clamp(1, long);
        if long / height > 12 {
            continue; // many launches; the larger shapes include some
        }
        let size = SIZES[(rows + cols) % 3];
        let device = Device { emulator: small(), blocks: 1 + cols as u32 % 3, seed: rows as u64 };
        check(device, Algorithm::Panel { height }, rows, cols, size);
    }
}

#[test]
fn panels_of_larger_shapes() {
    let shapes =
        [(97, 89, 16), (300, 70, 64), (641, 35, 300), (131, 130, 65), (53, 2, 1), (600, 3, 259)];
    for (x, y, height) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            for size in SIZES {
                let device = Device { emulator: small(), blocks: 3, seed: x as u64 };
                check(device, Algorithm::Panel { height }, rows, cols, size);
            }
        }
    }
}

#[test]
fn skinny_arrays() {
    let heights = [1, 2, 3, 7, 31, 32, 33, 40, 64];
    for short in 2..=32 {
        for (k, long) in [short, short + 1, 40, 67, 100, 129, 257].into_iter().enumerate() {
            let height = heights[(short * 5 + k) % 9].min(long);
            if long < short || long / height > 40 {
                continue;
            }
            let size = SIZES[(short + k) % 3];
            let blocks = 1 + k as u32 % 4;
            let device = Device { emulator: small(), blocks, seed: short as u64 };
            for (rows, cols) in [(long, short), (short, long)] {
                check(device, Algorithm::Skinny { height }, rows, cols, size);
            }
        }
    }
}

/// Where no chunk reaches out of its panel's place, every panel is a run. Long arrays have more
/// runs than short ones.
#[test]
fn skinny_arrays_with_runs_for_many_blocks() {
    for (long, short, height, expected) in
        [(40, 5, 8, 5), (2000, 3, 4, 500), (2001, 3, 4, 256), (9001, 2, 2, 281)]
    {
        for (rows, cols) in [(long, short), (short, long)] {
            let plan = Plan::forced(Algorithm::Skinny { height }, rows, cols, 8);
            let runs = integer(&plan, "turn_registers", 7);
            assert_eq!(runs, expected, "{plan}");
            check_plan(Device { emulator: small(), blocks: 7, seed: long as u64 }, &plan);
        }
    }
}

#[test]
fn skinny_arrays_with_runs_of_several_panels() {
    for (long, short, height) in [(1031, 2, 2), (611, 5, 2), (1501, 3, 4), (2050, 4, 7)] {
        for (rows, cols) in [(long, short), (short, long)] {
            for size in SIZES {
                let plan = Plan::forced(Algorithm::Skinny { height }, rows, cols, size);
                let turn = plan.launches(size).into_iter().find(|x| x.name == "turn_registers");
                let arguments = turn.expect("panels are turned").arguments;
                let [.., Integer(count), Integer(rest), Integer(runs)] = arguments[..] else {
                    panic!("the last integers")
                };
                assert!(runs < count && rest > 0, "several panels in a run, and a tail");
                let device = Device { emulator: small(), blocks: 5, seed: long as u64 };
                check(device, Algorithm::Skinny { height }, rows, cols, size);
            }
        }
    }
}

/// Structures of all sizes, turned as planned and by the plain form, in a few runs and in many.
#[test]
fn skinny_arrays_in_registers_and_plainly() {
    let mut random = Random(11);
    for (short, size) in (2..=32).flat_map(|short| SIZES.map(|size| (short, size))) {
        for runs in [1, 2, 3, 5] {
            let height =
                [1, 5, 31, 32, 33, 64, 70][random.below(7)].min((32 << 10) / (short * size));
            let count = runs.max(1 + random.below(5));
            let rest = [0, 1, height - 1][random.below(3)].min(height - 1);
            let long = (count * height + rest).max(short);
            let blocks = 1 + random.below(4) as u32;
            let device = Device { emulator: small(), blocks, seed: random.next() };
            for (rows, cols) in [(long, short), (short, long)] {
                let plan = Plan::forced(Algorithm::Skinny { height }, rows, cols, size);
                let names: Vec<_> = plan.launches(size).iter().map(|x| x.name).collect();
                let registers = names.contains(&"turn_registers");
                assert_eq!(registers, short * size <= 128, "{plan}");
                for plain in [false, true] {
                    check_launches(device, &plan, |alignment| {
                        let mut launches = plan.launches(alignment);
                        launches.retain(|x| !plain || x.name != "turn_held");
                        for x in &mut launches {
                            if plain && x.name == "turn_registers" {
                                x.name = "turn_panels";
                            }
                            if x.name.starts_with("hold_") || x.name.starts_with("turn_") {
                                let last = x.arguments.last_mut().expect("the number of runs");
                                let Integer(planned) = *last else { panic!("an integer") };
                                *last = Integer(planned.min(runs as u64));
                            }
                        }
                        launches
                    });
                }
            }
        }
    }
}

/// Every number of elements has a file, and enough registers for the structures of a planned panel.
#[test]
fn files_for_structures_of_all_sizes() {
    for (short, size) in (2..=32).flat_map(|short| SIZES.map(|size| (short, size))) {
        for (rows, cols) in [(1 << 20, short), (short, 1 << 20)] {
            let plan = Plan::on_device(rows, cols, size, 1 << 22).expect("a plan");
            let launches = plan.launches(256);
            let turn = launches.iter().find(|x| x.name.starts_with("turn_")).expect("a turn");
            if short * size <= 128 {
                assert_eq!(turn.name, "turn_registers", "{plan}");
                assert_eq!(turn.file, format!("transpose_registers_{short}"));
            } else {
                assert_eq!((turn.name, turn.file), ("turn_panels", "transpose_skinny"), "{plan}");
            }
            let program = sources::kernel(turn.file).expect("a file");
            let option = format!("-DELEMENTS={short}");
            assert_eq!(program.options.contains(&&*option), short * size <= 128, "{plan}");
        }
    }
    for name in ["transpose_registers_1", "transpose_registers_33", "transpose_registers_x"] {
        assert!(sources::kernel(name).is_none(), "{name}");
    }
}

/// The plans of users' calls, with scratch that is always enough, and with less.
#[test]
fn any_small_shape_as_planned() {
    let mut seen = std::collections::HashSet::new();
    for (rows, cols) in (0..=30).flat_map(|i| (0..=30).map(move |j| (i * i % 97, j * 8))) {
        let size = SIZES[(rows + cols) % 3];
        let bytes = rows * cols * size;
        let plan = Plan::on_device(rows, cols, size, bytes + bytes / 8 + 64);
        let plan = plan.unwrap_or_else(|| panic!("no plan for {rows} x {cols} of {size}"));
        seen.insert(std::mem::discriminant(&plan.algorithm()));
        let device = Device { emulator: small(), blocks: 2, seed: bytes as u64 };
        check_plan(device, &plan);
        let least = rows.min(cols) * size * 16;
        if let Some(plan) = Plan::on_device(rows, cols, size, least) {
            assert!(plan.device_bytes() + plan.claim_bytes(size) <= least, "{plan}");
            check_plan(device, &plan);
        }
    }
    assert!(seen.len() == 5, "every algorithm but C2R and R2C");
}

#[test]
fn plans_of_large_arrays() {
    let shapes = [
        (1 << 17, 1 << 15, "blocks"),
        (100_003, 50_021, "panels"),
        (3, 1 << 33, "skinny"),
        (65_537, 65_537, "square"),
        (1 << 20, 1, "trivial"),
    ];
    for (rows, cols, name) in shapes {
        for size in SIZES {
            let offered = (rows * cols * size / 32).max(1 << 20);
            let plan = Plan::on_device(rows, cols, size, offered).expect("a plan");
            assert!(plan.to_string().starts_with(name), "{plan}");
            assert!(plan.launches(256).len() < 64, "{plan}");
        }
    }
    assert!(Plan::on_device(7919, 4001, 8, 1 << 10).is_none(), "no scratch to speak of");
}

#[test]
fn decompositions_of_all_small_shapes() {
    for (rows, cols) in (2..=40).flat_map(|i| (2..=40).map(move |j| (i, j))) {
        let size = SIZES[(rows + cols) % 3];
        let device = Device { emulator: small(), blocks: 1 + cols as u32 % 3, seed: rows as u64 };
        check(device, Algorithm::C2r, rows, cols, size);
        check(device, Algorithm::R2c, rows, cols, size);
    }
}

/// Groups of full width, several of them, sides with common divisors of all kinds.
#[test]
fn decompositions_of_larger_shapes() {
    let shapes =
        [(97, 89), (64, 256), (256, 64), (130, 131), (96, 144), (200, 30), (66, 330), (67, 1300)];
    for (x, y) in shapes {
        for (rows, cols) in [(x, y), (y, x)] {
            for size in SIZES {
                let device = Device { emulator: small(), blocks: 3, seed: x as u64 };
                check(device, Algorithm::C2r, rows, cols, size);
                check(device, Algorithm::R2c, rows, cols, size);
            }
        }
    }
}

/// Slabs sweep long columns; scratch holds the shuffle of long rows.
#[test]
fn decompositions_with_long_sides() {
    for (rows, cols) in [(2100, 21), (2112, 18)] {
        for (algorithm, rows, cols) in [(Algorithm::C2r, rows, cols), (Algorithm::R2c, cols, rows)]
        {
            let plan = Plan::forced(algorithm, rows, cols, 16);
            assert!(integer(&plan, "sweep_columns", 5) == 2, "slabs");
            check_plan(Device { emulator: small(), blocks: 3, seed: 2 }, &plan);
        }
    }
    for (rows, cols) in [(3, 9001), (6, 8400), (130, 8193)] {
        for (algorithm, rows, cols) in [(Algorithm::C2r, rows, cols), (Algorithm::R2c, cols, rows)]
        {
            let plan = Plan::forced(algorithm, rows, cols, 4);
            assert!(integer(&plan, "shuffle_rows", 7) > 0, "rows in scratch");
            check_plan(Device { emulator: small(), blocks: 3, seed: 2 }, &plan);
        }
    }
}

#[test]
fn decompositions_in_many_orders() {
    for seed in 0..60 {
        let device = Device { emulator: small(), blocks: 1 + seed as u32 % 8, seed };
        let size = SIZES[seed as usize % 3];
        check(device, Algorithm::C2r, 35, 21, size);
        check(device, Algorithm::R2c, 18, 48, size);
    }
}

/// Passes over memory, apart from those in scratch: three for coprime sides, else four. There are
/// five where the first rotation differs within groups.
#[test]
fn launches_of_decompositions() {
    let names = |algorithm, rows, cols| -> Vec<_> {
        let plan = Plan::forced(algorithm, rows, cols, 8);
        plan.launches(8).iter().map(|launch| launch.name).collect()
    };
    let (sweep, rows, coarse) = (["hold_rows", "sweep_columns"], "shuffle_rows", "move_rows");
    let coprime = [&[rows][..], &sweep, &[coarse]].concat();
    assert_eq!(names(Algorithm::C2r, 10007, 9973), coprime);
    let back: Vec<_> = [&[coarse][..], &sweep, &[rows]].concat();
    assert_eq!(names(Algorithm::R2c, 10007, 9973), back);
    let common = [&[coarse][..], &coprime].concat();
    assert_eq!(names(Algorithm::C2r, 10000, 9600), [&sweep[..], &common].concat());
    assert_eq!(names(Algorithm::C2r, 21, 448), common, "groups that rotate alike");
}

#[test]
#[should_panic(expected = "too long for a device")]
fn decompositions_of_sides_past_two_to_the_31() {
    Plan::forced(Algorithm::C2r, 3, 1 << 31, 4).launches(4);
}

#[test]
#[should_panic(expected = "panels too large for a device")]
fn panels_of_skinny_arrays_lie_in_shared_memory() {
    Plan::forced(Algorithm::Skinny { height: 2049 }, 3000, 2, 8).launches(8);
}

#[test]
fn blocks_of_threads_as_on_a_device() {
    for size in SIZES {
        let device = Device { emulator: full(), blocks: 3, seed: 9 };
        check(device, Algorithm::Square, 200, 200, size);
        check(device, Algorithm::Blocks { side: 66 }, 132, 198, size);
        check(device, Algorithm::Blocks { side: 3 }, 300, 9, size);
        check(device, Algorithm::Panel { height: 70 }, 150, 67, size);
        check(device, Algorithm::Skinny { height: 1024 / size }, 2300 / size, 32, size);
        for short in [2, 3, 8, 17, 32] {
            // All of a block's registers.
            let height = 128 / (short * size) * 256;
            if height > 0 {
                check(device, Algorithm::Skinny { height }, 2 * height + 5, short, size);
                check(device, Algorithm::Skinny { height }, short, 2 * height, size);
            }
        }
        check(device, Algorithm::C2r, 150, 66, size);
        check(device, Algorithm::R2c, 150, 66, size);
    }
}
