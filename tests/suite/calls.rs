//! Whole calls through a call site, without XLA: results, rendezvous, failures, messages.

use std::collections::HashSet;

use crate::common::{
    Map, arrive, at, buffer, collect, diagnose, diagnose_call, errors, int_scalar, launch,
    outcomes, positive_definite, posv_call, row_shards, run_diagnose,
};
use meshsolve::call::Call;
use meshsolve::error::Kind;
use meshsolve::routines::table;
use meshsolve::scalar::DType;
use meshsolve::sites::CallSite;

#[test]
fn every_routine_has_a_name_of_its_own_and_says_what_it_does() {
    let mut names = HashSet::new();
    for routine in table() {
        assert!(names.insert(routine.name()), "{} twice", routine.name());
        let summary = routine.description().summary;
        assert!(summary.contains(' '), "{}: {summary:?}", routine.name());
    }
    assert!(names.contains("posv") && names.contains("transpose"));
}

fn posv(world: usize) -> Map {
    Map::routine("posv", world).text("rhs", "replicated")
}

/// Solves with all ranks arriving in the given order; checks all ranks' answers.
fn solve(
    attributes: Map,
    n: usize,
    order: &[usize],
    run: i64,
    site: Option<&CallSite>,
) -> Vec<f64> {
    let ranks = order.len();
    let a = positive_definite::<f64>(n, 9);
    let mut shards = row_shards(&a, ranks);
    let mut xs = vec![vec![1.0; n * 2]; ranks];
    let mut infos = vec![-1; ranks];
    let own = CallSite::new(&attributes).unwrap();
    let site = site.unwrap_or(&own);
    let (to, from) = outcomes();
    // Each is borrowed once, because all of them are in use until the answers.
    let mut info: Vec<_> = infos.iter_mut().collect();
    for &r in order {
        let call = posv_call(r, &mut shards[r], &mut xs[r], info[r], n, ranks, 2);
        arrive(site, run, call, &to);
    }
    for (_, outcome) in collect(&from, ranks) {
        outcome.unwrap();
    }
    assert!(infos.iter().all(|&i| i == 0));
    for x in &xs {
        assert_eq!(x, &xs[0], "all ranks hold the same solution");
    }
    for i in 0..n {
        let row: f64 = (0..n).map(|j| a[(i, j)] * xs[0][2 * j]).sum();
        assert!((row - 1.0).abs() < 1e-9, "row {i}: {row}");
    }
    xs.swap_remove(0)
}

#[test]
fn any_order_of_arrival_gives_the_same_bits() {
    let reference = solve(posv(4), 96, &[0, 1, 2, 3], 1, None);
    for order in [[3, 2, 1, 0], [2, 0, 3, 1]] {
        assert_eq!(solve(posv(4), 96, &order, 1, None), reference);
    }
    assert_eq!(solve(posv(4).int("lower", 1), 96, &[0, 1, 2, 3], 1, None).len(), 192);
}

#[test]
fn block_cyclic_columns_give_the_same_answer() {
    for n in [96, 260, 516] {
        let cyclic = posv(4).text("order", "cyclic").int("tile", 24);
        solve(cyclic, n, &[0, 1, 2, 3], 1, None);
    }
}

/// Small enough for an interpreter (`make test-miri`).
#[test]
fn twelve_by_twelve() {
    for routine in ["posv", "gesv"] {
        for ranks in [1, 2, 3] {
            let map = Map::routine(routine, ranks).text("rhs", "replicated").int("tile", 3);
            let arrival: Vec<_> = (0..ranks).rev().collect();
            solve(map.text("order", "cyclic"), 12, &arrival, 1, None);
        }
    }
}

#[test]
fn one_run_id_many_times_as_in_a_loop() {
    let site = CallSite::new(&posv(2)).unwrap();
    for _ in 0..50 {
        solve(posv(2), 16, &[1, 0], 7, Some(&site));
    }
}

#[test]
fn two_groups_with_one_run_id_do_not_mix() {
    // Rank 0 of both groups arrives before rank 1 of either.
    let (n, a) = (8, positive_definite::<f64>(8, 3));
    let site = CallSite::new(&posv(2)).unwrap();
    let (to, from) = outcomes();
    let mut parts: Vec<_> =
        (0..2).map(|_| (row_shards(&a, 2), vec![vec![1.0; n]; 2], [0; 2])).collect();
    for rank in 0..2 {
        for (group, (shards, xs, infos)) in parts.iter_mut().enumerate() {
            let call = posv_call(rank, &mut shards[rank], &mut xs[rank], &mut infos[rank], n, 2, 1);
            let (to, rank) = (to.clone(), call.rank);
            let reply = Box::new(move |o| to.send((rank, o)).unwrap());
            site.arrive(1, group as i64, None, meshsolve::rendezvous::Arrival { call, reply });
        }
    }
    assert!(collect(&from, 4).into_iter().all(|(_, o)| o.is_ok()));
}

#[test]
fn a_panic_and_an_error_reach_every_rank_and_the_next_call_works() {
    for (fault, text) in [
        ("panic", "a panic in worker 1 of a call was caught: rank 1 was asked to panic"),
        ("error", "meshsolve.diagnose: rank 1 was asked to fail"),
    ] {
        let site = diagnose(3, fault);
        for _ in 0..3 {
            let errors = errors(run_diagnose(&site, launch(), &[0, 1, 2]));
            assert!(errors.iter().all(|e| e.message.contains(text)), "{errors:?}");
            assert!(errors.iter().all(|e| e.kind == Kind::Internal));
        }
        solve(posv(2), 16, &[0, 1], 1, None);
    }
}

#[test]
fn equal_ranks_and_ranks_out_of_range_are_errors_for_all() {
    let site = diagnose(3, "none");
    let twice = errors(run_diagnose(&site, launch(), &[0, 2, 2]));
    let text = "meshsolve.diagnose: operand `place`: devices 12 and 12 both claim rank 2 of 3";
    assert!(twice.iter().all(|e| e.message.starts_with(text)), "{twice:?}");
    let outside = errors(run_diagnose(&site, launch(), &[0, 1, 7]));
    let text = "operand `place` of device 17: expected a rank below world = 3, got 7";
    assert!(outside.iter().all(|e| e.message.contains(text)), "{outside:?}");
    assert!(run_diagnose(&site, launch(), &[0, 1, 2]).into_iter().all(|(_, o)| o.is_ok()));
}

/// A device that has an error may not come to the other calls of its program.
#[test]
fn a_failure_ends_the_calls_of_its_run_at_all_sites() {
    let (failing, site) = (diagnose(2, "error"), diagnose(2, "none"));
    let (run, other) = (launch(), launch());
    let (to, from) = outcomes();
    let mut data = [[0.5f32; 4]; 4];
    let [first, of_other, late, last] = &mut data;
    arrive(&site, run, diagnose_call(0, first), &to);
    arrive(&site, other, diagnose_call(0, of_other), &to);
    let cause = errors(run_diagnose(&failing, run, &[0, 1])).remove(0).message;
    assert_eq!(cause, "meshsolve.diagnose: rank 1 was asked to fail");
    assert_eq!(errors(collect(&from, 1)).remove(0).message, cause);
    arrive(&site, run, diagnose_call(1, late), &to);
    assert_eq!(errors(collect(&from, 1)).remove(0).message, cause);
    arrive(&diagnose(2, "none"), run, diagnose_call(1, first), &to);
    assert_eq!(errors(collect(&from, 1)).remove(0).message, cause, "a site without a rank");
    arrive(&site, other, diagnose_call(1, last), &to);
    assert!(collect(&from, 2).into_iter().all(|(_, o)| o.is_ok()));
}

#[test]
fn shapes_and_dtypes_are_checked_again() {
    let n = 8;
    let site = CallSite::new(&posv(2)).unwrap();
    let messages = |change: &dyn Fn(&mut Call)| {
        let run = launch();
        let (to, from) = outcomes();
        let mut shards = vec![vec![1.0f64; n * n / 2]; 2];
        let (mut xs, mut infos) = (vec![vec![1.0; n]; 2], [0; 2]);
        for rank in 0..2 {
            let mut call =
                posv_call(rank, &mut shards[rank], &mut xs[rank], &mut infos[rank], n, 2, 1);
            if rank == 1 {
                change(&mut call);
            }
            arrive(&site, run, call, &to);
        }
        errors(collect(&from, 2)).into_iter().map(|e| e.message).collect::<Vec<_>>()
    };
    type Change<'a> = &'a dyn Fn(&mut Call);
    let cases: [(Change, &str); 4] = [
        (
            &|c| c.args[0] = at(c.args[0].as_ptr(), DType::F64, &[4, 4]),
            "meshsolve.posv: a of rank 1: expected float64[4,8], got float64[4,4]",
        ),
        (
            &|c| c.args[1] = at(c.args[1].as_ptr(), DType::F32, &[8, 1]),
            "meshsolve.posv: b of rank 1: expected float64[8,1], got float32[8,1]",
        ),
        (
            &|c| c.rets[2] = at(c.rets[2].as_ptr(), DType::S32, &[1]),
            "meshsolve.posv: info of rank 1: expected int32[], got int32[1]",
        ),
        (
            &|c| drop(c.rets.pop()),
            "meshsolve.posv: rank 1: expected operands place, a, b and results work, x, info; got 3 \
             operands and 2 results",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(messages(change), [expected, expected]);
    }
}

/// Factorisations need square matrices by whole rows or columns; the table says so.
#[test]
fn requirements_are_declared_and_checked() {
    for routine in meshsolve::routines::table() {
        let expected: &[&str] = match routine.name() {
            "lange" | "transpose" | "ticket" | "diagnose" => &[],
            "gels" | "gelsr" | "tsreduce" => &["whole rows", "tall"],
            "geqr" | "tsqr" | "tsqrf" | "tsrest" => &["whole rows", "tall shards"],
            "geqrf" | "qr_triangle" | "ormqr" => &["whole columns, or square"],
            "orgqr" | "qr_solve" | "qr_rcond" => &["whole columns, or square", "tall"],
            _ => &["square", "whole columns"],
        };
        assert_eq!(routine.description().requires, expected, "{}", routine.name());
    }
    let n = 8;
    let message = |grid_rows: i64| {
        let site = CallSite::new(&posv(4).int("grid_rows", grid_rows)).unwrap();
        let run = launch();
        let (to, from) = outcomes();
        let mut shards = vec![vec![1.0f64; n * n / 4]; 4];
        let (mut xs, mut infos) = (vec![vec![1.0; n]; 4], [0; 4]);
        for rank in 0..4 {
            let call = posv_call(rank, &mut shards[rank], &mut xs[rank], &mut infos[rank], n, 4, 1);
            arrive(&site, run, call, &to);
        }
        errors(collect(&from, 4)).remove(0).message
    };
    assert_eq!(
        message(2),
        "meshsolve.posv: a: expected whole rows or whole columns on each device, got a grid of 2 x 2 \
         devices; reshard A along one axis"
    );
    let of_geqr = |storage: &str, dims: [usize; 2], ranks: usize| {
        let map = Map::routine("geqr", ranks).text("storage", storage);
        let site = CallSite::new(&map.only_own()).unwrap();
        let run = launch();
        let (to, from) = outcomes();
        let mut shards = vec![vec![1.0f64; dims[0] * dims[1]]; ranks];
        let (mut r, mut infos) = (vec![vec![0.0f64; 64]; ranks], vec![0; ranks]);
        for rank in 0..ranks {
            let rets = vec![buffer(&mut r[rank], &[8, 8]), int_scalar(&mut infos[rank])];
            let args = vec![buffer(&mut shards[rank], &dims)];
            arrive(&site, run, Call::new(rank, rank as i32, args, rets), &to);
        }
        errors(collect(&from, ranks)).remove(0).message
    };
    assert_eq!(
        of_geqr("columns", [16, 4], 2),
        "meshsolve.geqr: a: expected whole rows on each device, got columns, or a grid of 1 x 2 \
         devices; reshard A by rows"
    );
    assert_eq!(
        of_geqr("rows", [3, 8], 2),
        "meshsolve.geqr: a: expected at least as many rows on each device as columns, got 3 rows and 8 \
         columns; reshard A by columns, and use geqrf"
    );
    let of_qr = |name: &str, storage: &str, dims: [usize; 2], counts: [usize; 2]| {
        let map = Map::routine(name, 2).text("storage", storage);
        let site = CallSite::new(&map.only_own()).unwrap();
        let run = launch();
        let (to, from) = outcomes();
        let mut shards = vec![vec![1.0f64; dims[0] * dims[1]]; 2];
        for (rank, shard) in shards.iter_mut().enumerate() {
            let array = buffer(shard, &dims);
            let [args, rets] = counts.map(|count| vec![array.clone(); count]);
            arrive(&site, run, Call::new(rank, rank as i32, args, rets), &to);
        }
        errors(collect(&from, 2)).remove(0).message
    };
    assert_eq!(
        of_qr("geqrf", "rows", [3, 8], [1, 3]),
        "meshsolve.geqrf: a: expected whole columns on each device, or whole rows of a square matrix, \
         got 6 x 8 on a grid of 2 x 1 devices; reshard A by columns"
    );
    // The factor of a matrix by columns is an array of its columns.
    assert_eq!(
        of_qr("orgqr", "columns", [4, 5], [2, 1]),
        "meshsolve.orgqr: a: expected at least as many rows as columns, got 5 x 8"
    );
    // Posv's operand is by rows, which a grid of one row contradicts.
    assert!(message(1).contains("got a grid of 1 x 4 devices; reshard A along one axis"));
    assert_eq!(
        message(3),
        "meshsolve.posv: attribute `grid_rows`: expected a divisor of the 4 devices, got 3"
    );
}

#[test]
fn eigenvectors_that_a_does_not_have_are_refused() {
    let map = Map::routine("eigenvectors", 1).text("storage", "rows").int("order_of_a", 5);
    let message = |map: Map| {
        let site = CallSite::new(&map).unwrap();
        let run = launch();
        let (to, from) = outcomes();
        let (mut a, mut v, mut w, mut info) = ([1.0; 36], [0.0; 36], [0.0; 6], -1);
        let mut work = a;
        let square = |x: &mut [f64]| buffer(x, &[6, 6]);
        let (args, rets) = (vec![square(&mut a)], vec![square(&mut work), square(&mut v)]);
        let rets = rets.into_iter().chain([buffer(&mut w, &[6]), int_scalar(&mut info)]).collect();
        arrive(&site, run, Call::new(0, 0, args, rets), &to);
        errors(collect(&from, 1)).remove(0).message
    };
    assert_eq!(
        message(map.clone().int("first", 2).int("vectors", 4)),
        "meshsolve.eigenvectors: attribute `vectors`: expected at most the 3 eigenvectors from 2 on, got 4"
    );
    let first = CallSite::new(&map.clone().int("first", 2)).err().unwrap().message;
    assert_eq!(
        first,
        "meshsolve.eigenvectors: attribute `first`: expected 0 without the attribute `vectors`, got 2"
    );
    let text = message(map.int("first", i64::MAX).int("vectors", i64::MAX));
    assert!(
        text.contains("expected at most the 0 eigenvectors from 9223372036854775807 on"),
        "{text}"
    );
}

#[test]
fn attributes_are_checked_when_the_program_is_compiled() {
    let message = |map: Map| CallSite::new(&map).err().expect("refused").message;
    let pots = Map::routine("pots", 2); // adds the tests' own routine to the table
    let names: Vec<_> = table().map(|routine| routine.name()).collect();
    assert!(names.len() > 20 && names.contains(&"gesv"));
    let unknown = format!("attribute `routine`: expected a string, one of {names:?}, got \"pots\"");
    let cases = [
        (pots, unknown.as_str()),
        (
            Map::routine("posv", 0),
            "attribute `world`: expected the number of devices on the mesh axis as an int64, got 0",
        ),
        (
            Map::routine("posv", 2),
            "attribute `rhs`: expected \"replicated\" or \"columns\", got None",
        ),
        (
            posv(2).text("storage", "diagonals"),
            "attribute `storage`: expected \"rows\", \"columns\" or \"column-major\", got \
             \"diagonals\"",
        ),
        (
            Map::routine("lange", 2).text("norm", "2"),
            "meshsolve.lange: attribute `norm`: expected \"1\", \"inf\" or \"fro\", got \"2\"",
        ),
        (posv(2).int("order_of_a", -3), "attribute `order_of_a`: expected an order, or 0, got -3"),
        (posv(2).int("lower", 2), "attribute `lower`: expected 0 or 1, got 2"),
        (
            posv(2).text("structure", "general"),
            "meshsolve.posv: attribute `structure`: expected a routine with this attribute, and not one that \
             has `rhs`, `trans`, `lower` as its own, got it; leave it out",
        ),
        (
            Map::routine("lu_to_scipy", 2).int("lower", 1),
            "and not one that has none of its own, got it; leave it out",
        ),
        (
            posv(2).int("grid_rows", -1),
            "attribute `grid_rows`: expected rows of a grid of devices, or 0, got -1",
        ),
        (
            posv(2).text("order", "up"),
            "attribute `order`: expected \"auto\", \"natural\" or \"cyclic\", got \"up\"",
        ),
        (
            posv(2).int("tile", -1),
            "attribute `tile`: expected a width from 1 to 1048576, or 0, got -1",
        ),
        (
            posv(2).int("tle", 8),
            "4 attributes were given, of which only [\"routine\", \"world\", \"rhs\"] are known",
        ),
    ];
    for (map, expected) in cases {
        let got = message(map);
        assert!(got.contains(expected), "{got}");
    }
}

#[test]
fn the_job_is_gone_before_anybody_is_answered() {
    // Repeated calls of one site: nothing accumulates, at any timing.
    let site = CallSite::new(&posv(3)).unwrap();
    for run in 0..200 {
        solve(posv(3), 12, &[2, 0, 1], run, Some(&site));
    }
}

/// ScaLAPACK serves calls that have a ticket, once it has been started.
#[test]
fn calls_over_processes_need_a_ticket_and_an_engine() {
    let message = |ticket: Option<i32>, rank: usize, map: Map| {
        let site = CallSite::new(&map.text("engine", "scalapack")).unwrap();
        let run = launch();
        let (to, from) = outcomes();
        let (mut shard, mut x, mut info) = (vec![1.0f64; 32], vec![1.0; 8], 0);
        let call = posv_call(rank, &mut shard, &mut x, &mut info, 8, 2, 1);
        let reply = Box::new(move |outcome| to.send((0, outcome)).unwrap());
        site.arrive(run, 0, ticket, meshsolve::rendezvous::Arrival { call, reply });
        errors(collect(&from, 1)).remove(0).message
    };
    assert_eq!(
        message(None, 0, posv(2)),
        "meshsolve.posv: operand `place`: expected int32[3] with rank, group and ticket for engine \
         \"scalapack\", got int32[2]; draw a ticket (docs/design/processes.md)"
    );
    let early = "meshsolve: expected MPI and ScaLAPACK to be started, got a call before that; call a \
                 function of meshsolve, which starts them";
    assert_eq!(message(Some(0), 0, posv(2)), early);
}

/// A device's own call has a ticket, too, where processes agree on its failure. Without MPI it is -1.
#[test]
fn a_call_of_one_device_fails_by_itself_before_mpi_has_started() {
    let site = CallSite::new(&posv(1).text("on_failure", "raise")).unwrap();
    let (to, from) = outcomes();
    let (mut singular, mut x, mut info) = (vec![1.0f64; 64], vec![1.0; 8], 0);
    let call = posv_call(0, &mut singular, &mut x, &mut info, 8, 1, 1);
    let reply = Box::new(move |outcome| to.send((0, outcome)).unwrap());
    site.arrive(launch(), 0, Some(-1), meshsolve::rendezvous::Arrival { call, reply });
    let error = errors(collect(&from, 1)).remove(0);
    assert!(error.message.contains("minor of order 2"), "{}", error.message);
}
