//! Row interchanges on the emulated devices: the number of launches, and more rows than one launch
//! finds.

use meshsolve::call::Call;

use crate::common::{Map, buffer, int_scalar, int_vector};
use crate::kernels::called::scratch_of;
use crate::kernels::gpu::launches;
use crate::kernels::solve::run_alone;

fn count(name: &str, launched: &[String]) -> usize {
    launched.iter().filter(|one| one.starts_with(name)).count()
}

/// Six tile columns on one rank.
#[test]
fn what_interchanges_move_is_found_once_for_all_columns_of_a_stream() {
    launches();
    scratch_of("gesv", 96, 16);
    let launched = launches();
    // Four panels apply to all columns that are not next, on the caller's stream, and five to the next
    // one on the other stream. Five more apply to the rows of L, and all to x.
    assert_eq!(count("find_moves", &launched), 4 + 5 + 5 + 1, "{launched:?}");
    assert_eq!(count("permute_rows", &launched), 4 + 5 + 5 + 1, "{launched:?}");
}

/// The unit matrix with reordered rows: x is b in that order, or in the reverse one.
#[test]
fn interchanges_of_more_rows_than_one_launch_finds() {
    let n = 1100;
    for (trans, first) in [(0, "P b"), (1, "P^T b")] {
        let mut lu: Vec<f64> = (0..n * n).map(|e| f64::from(e % (n + 1) == 0)).collect();
        let mut pivots: Vec<i32> = (0..n).map(|i| (i + (i * 7919) % (n - i)) as i32).collect();
        let mut order: Vec<usize> = (0..n).collect();
        pivots.iter().enumerate().for_each(|(i, &p)| order.swap(i, p as usize));
        let b: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let (mut b_given, mut x, mut info) = (b.clone(), vec![0.0; n], 0);
        let args = vec![
            buffer(&mut lu, &[n, n]),
            int_vector(&mut pivots),
            int_scalar(&mut info),
            buffer(&mut b_given, &[n, 1]),
        ];
        let call = Call::new(0, 0, args, vec![buffer(&mut x, &[n, 1])]);
        let map = Map::routine("getrs", 1).text("rhs", "replicated").int("trans", trans);
        launches();
        run_alone(&map.int("tile", n as i64), call);
        let launched = launches();
        assert_eq!((count("find_moves", &launched), count("permute_rows", &launched)), (2, 2));
        let moved: Vec<f64> = order.iter().map(|&row| b[row]).collect();
        let mut back = vec![0.0; n];
        order.iter().enumerate().for_each(|(i, &row)| back[row] = b[i]);
        assert!(x == if trans == 0 { moved } else { back }, "{first}");
    }
}
