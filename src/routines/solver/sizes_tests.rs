use super::*;
use crate::routines::solver::verbs;

fn verb(name: &str) -> &'static Verb {
    verbs().find(|verb| verb.name == name).expect("a routine")
}

#[test]
fn sums_of_moduli_are_scratch_too_and_doubles() {
    let problem = Problem { n: 256, ranks: 2, rhs: 1, dtype: DType::F32 };
    let options = plain(verb("lange"), Storage::Rows, true, Rhs::Replicated);
    let sizes = Sizes::new(&options, &problem, &Machine::host::<f32>(&options, &problem));
    let expected = 4 * sizes.scratch() + sizes.workers * 256 * 8;
    assert_eq!(sizes.scratch_bytes::<f32>(), expected);
}

#[test]
fn a_block_cyclic_factor_has_the_same_tiles_for_all_routines() {
    // With 128 threads, every worker has enough columns for wide tiles.
    let problem = Problem { n: 1 << 19, ranks: 2, rhs: 1, dtype: DType::F64 };
    let width = |name: &str, distribution: Option<Distribution>| {
        let verb = verb(name);
        let options = Options { distribution, ..plain(verb, Storage::Rows, true, Rhs::Replicated) };
        Machine::host::<f64>(&options, &problem).tile
    };
    let routines = ["getrf", "getrs", "getri", "gecon", "potrf", "potrs", "potri"];
    assert!(routines.iter().all(|name| width(name, Some(Distribution::BlockCyclic)) == 128));
    assert_eq!((width("getrf", None), width("getri", None)), (256, 128));
}
