//! Transposition in place of arrays past 2^31 and 2^32 elements, and of those with few long cycles,
//! with real memory: `make test-slow`, one after another. The memory has no room for a second
//! array, so every element is checked against a formula of its index. A test reports a case that it
//! skips for lack of memory.

use meshsolve::transpose::{Algorithm, Plan, transpose_with};

const THREADS: usize = 2;
const SIZE: usize = size_of::<u32>();

/// The value of element `index`: the low half of the index would repeat after 2^32 elements.
fn value(index: usize) -> u32 {
    ((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Runs a function on equal parts of the rows of an array of u32 in parallel.
fn each_row(data: &mut [u32], cols: usize, run: impl Fn(usize, &mut [u32]) + Sync) {
    let share = (data.len() / cols).div_ceil(THREADS) * cols;
    std::thread::scope(|scope| {
        for (part, rows) in data.chunks_mut(share).enumerate() {
            let run = &run;
            scope.spawn(move || {
                let first = part * share / cols;
                rows.chunks_mut(cols).enumerate().for_each(|(i, row)| run(first + i, row));
            });
        }
    });
}

/// Bytes that are available without swapping; `None` except on Linux.
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? * 1024)
}

fn check(plan: Plan) {
    let (rows, cols) = (plan.rows(), plan.cols());
    let scratch = plan.scratch_bytes() * THREADS + plan.shared_bytes();
    let needed = rows * cols * SIZE + scratch + (1 << 30);
    if available().is_none_or(|bytes| bytes < needed) {
        let gigabytes = needed as f64 / 1e9;
        return eprintln!("LEFT OUT, {gigabytes:.0} GB of memory are needed: {plan}");
    }
    let mut data = vec![0; rows * cols];
    each_row(&mut data, cols, |i, row| {
        row.iter_mut().enumerate().for_each(|(j, x)| *x = value(i * cols + j));
    });
    let start = std::time::Instant::now();
    transpose_with(&plan, &mut data, THREADS);
    eprintln!("{:.1} s: {plan}", start.elapsed().as_secs_f64());
    each_row(&mut data, rows, |j, row| {
        let wrong = row.iter().enumerate().position(|(i, x)| *x != value(i * cols + j));
        assert_eq!(wrong, None, "the first wrong element of row {j}: {plan}");
    });
}

fn chosen(rows: usize, cols: usize) -> Plan {
    Plan::new(rows, cols, SIZE)
}

fn forced(algorithm: Algorithm, rows: usize, cols: usize) -> Plan {
    Plan::forced(algorithm, rows, cols, SIZE)
}

/// Coprime, and both sides past 65536: so are their quotients by the common divisor.
#[test]
#[ignore = "18 GB of memory"]
fn past_2_to_32_elements_coprime() {
    check(forced(Algorithm::C2r, 65543, 65539));
    check(forced(Algorithm::R2c, 65539, 65543));
}

#[test]
#[ignore = "18 GB of memory"]
fn past_2_to_32_elements_with_a_common_divisor() {
    check(forced(Algorithm::C2r, 65700, 65600));
    check(chosen(65600, 65700));
}

#[test]
#[ignore = "10 GB of memory"]
fn past_2_to_31_elements() {
    check(chosen(46400, 46500));
    check(forced(Algorithm::C2r, 46400, 46500));
    check(chosen(46343, 46400));
}

#[test]
#[ignore = "10 GB of memory"]
fn past_2_to_31_elements_square() {
    check(chosen(46400, 46400));
}

#[test]
#[ignore = "14 GB of memory"]
fn past_2_to_31_elements_blocks() {
    check(chosen(32768, 98304));
    check(chosen(98304, 32768));
}

#[test]
#[ignore = "11 GB of memory"]
fn past_2_to_31_elements_panels() {
    for (rows, cols) in [(46351, 46349), (46349, 46351)] {
        check(forced(Algorithm::Panel { height: 512 }, rows, cols));
    }
}

#[test]
#[ignore = "16 GB of memory"]
fn past_2_to_31_elements_skinny() {
    check(chosen(3, 720_000_001));
    check(chosen(720_000_001, 3));
}

/// Sides of 12288 make 10 cycles of all segments; those of the chosen plan are shorter.
#[test]
#[ignore = "6 GB of memory"]
fn few_long_cycles_of_blocks() {
    check(chosen(12288, 98304));
    for (rows, cols) in [(12288, 98304), (98304, 12288)] {
        check(forced(Algorithm::Blocks { side: 12288 }, rows, cols));
    }
}

/// Chunks of 512 elements form two cycles of half the array each.
#[test]
#[ignore = "5 GB of memory"]
fn two_long_cycles_of_chunks() {
    check(chosen(9973, 79999));
    for height in [64, 512] {
        for (rows, cols) in [(9973, 79999), (79999, 9973)] {
            check(forced(Algorithm::Panel { height }, rows, cols));
        }
    }
}
