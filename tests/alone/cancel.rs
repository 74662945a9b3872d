//! Calls that are cancelled while they run. Cancelling ends all calls of the process.

use crate::alone;
use crate::common::{Map, arrive, collect, outcomes, positive_definite, posv_call, row_shards};
use meshsolve::error::Kind;
use meshsolve::rendezvous::cancel;
use meshsolve::sites::CallSite;

#[test]
fn every_rank_hears_of_it_and_the_next_call_works() {
    alone(|| {
        let (n, ranks) = (2000, 4);
        let a = positive_definite::<f64>(n, 9);
        let site = CallSite::new(&Map::routine("posv", ranks).text("rhs", "replicated")).unwrap();
        assert_eq!(cancel(), 0);
        for ends in [true, false] {
            let mut shards = row_shards(&a, ranks);
            let mut xs = vec![vec![1.0; n]; ranks];
            let mut infos = vec![-1; ranks];
            let (to, from) = outcomes();
            for r in 0..ranks {
                let call = posv_call(r, &mut shards[r], &mut xs[r], &mut infos[r], n, ranks, 1);
                arrive(&site, i64::from(ends), call, &to);
            }
            if ends {
                assert_eq!(cancel(), 1);
            }
            for (_, outcome) in collect(&from, ranks) {
                match outcome {
                    Ok(()) => assert!(!ends),
                    Err(e) => {
                        assert!(ends);
                        assert_eq!(e.kind, Kind::Cancelled);
                        assert_eq!(
                            e.message,
                            "meshsolve: the call was ended by meshsolve.cancel()"
                        );
                    }
                }
            }
            assert!(infos.iter().all(|&i| i == if ends { -1 } else { 0 }));
            assert_eq!(cancel(), 0);
        }
    });
}
