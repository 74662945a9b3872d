//! With any attributes, the call site is made or the error names a wrong one.

use meshsolve::error::Kind;
use meshsolve::routines::solver::{Family, OWN_ATTRIBUTES, solvers};
use meshsolve::sites::CallSite;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any};
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::{prop_assert, prop_assert_eq, prop_oneof};

use super::check;
use crate::common::Map;

#[derive(Clone, Debug)]
enum Value {
    Int(i64),
    Text(String),
}

/// The valid values of an attribute.
#[derive(Clone, Copy)]
enum Good {
    Texts(&'static [&'static str]),
    /// From 0 to this.
    Ints(i64),
}
use Good::{Ints, Texts};

impl Good {
    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Texts(known), Value::Text(text)) => known.contains(&text.as_str()),
            (Ints(last), Value::Int(int)) => (0..=last).contains(int),
            _ => false,
        }
    }

    fn values(self) -> BoxedStrategy<Value> {
        match self {
            Texts(known) => select(known).prop_map(|text| Value::Text(text.into())).boxed(),
            Ints(last) => (0..=last).prop_map(Value::Int).boxed(),
        }
    }
}

/// The solvers' attributes.
const ATTRIBUTES: [(&str, Good); 13] = [
    ("storage", Texts(&["rows", "columns", "column-major"])),
    ("lower", Ints(1)),
    ("structure", Texts(&["general", "hermitian", "symmetric", "triangular"])),
    ("unit_diagonal", Ints(1)),
    ("trans", Ints(2)),
    ("norm", Texts(&["1", "inf", "fro"])),
    ("rhs", Texts(&["replicated", "columns"])),
    ("order", Texts(&["auto", "natural", "cyclic"])),
    ("tile", Ints(1 << 20)),
    ("engine", Texts(&["meshsolve", "cusolvermg"])),
    ("order_of_a", Ints(i64::MAX)),
    ("on_failure", Texts(&["nan", "raise"])),
    ("alone", Ints(1)),
];

/// No value, a valid value of this attribute, one of another attribute, or an invalid one.
fn value(of: (&str, Good)) -> impl Strategy<Value = Option<Value>> {
    let others = ATTRIBUTES.map(|(_, good)| good.values());
    prop_oneof![
        4 => Just(None),
        4 => of.1.values().prop_map(Some),
        1 => prop_oneof![
            Union::new(others),
            (-2..4i64).prop_map(Value::Int),
            any::<i64>().prop_map(Value::Int),
            (8190..8195i64).prop_map(Value::Int),
            "\\PC{0,6}".prop_map(Value::Text),
        ].prop_map(Some)
    ]
}

#[test]
fn a_call_site_is_made_or_the_error_names_what_is_wrong() {
    let cases = (
        select(solvers().collect::<Vec<_>>()),
        ATTRIBUTES.map(value),
        prop_oneof![6 => 1..=(1i64 << 16), 1 => any::<i64>()],
        proptest::option::weighted(0.1, "[a-z]{1,8}"),
    );
    check(3000, &cases, |(routine, values, world, unknown)| {
        let mut map = Map::routine(routine.name, 1).int("world", world);
        let mut wrong = Vec::new();
        let foreign =
            |name: &str| OWN_ATTRIBUTES.contains(&name) && !routine.attributes.contains(&name);
        let given =
            ATTRIBUTES.iter().zip(&values).filter_map(|(a, value)| Some((a, value.as_ref()?)));
        for ((name, good), value) in given {
            map = match value {
                Value::Int(value) => map.int(name, *value),
                Value::Text(value) => map.text(name, value),
            };
            let elsewhere = *name == "structure"
                && routine.family != Family::Residual
                && matches!(value, Value::Text(text) if text == "triangular");
            if foreign(name) || elsewhere || !good.holds(value) {
                wrong.push(*name);
            }
        }
        if routine.has_rhs() && values[6].is_none() {
            wrong.push("rhs");
        }
        if !(1..=1 << 16).contains(&world) {
            wrong.push("world");
        }
        let known = |name: &String| ATTRIBUTES.iter().any(|(known, _)| known == name);
        if let Some(unknown) = unknown.filter(|name| !known(name) && name != "world") {
            map = map.int(&unknown, 1);
            wrong.push("attributes were given, of which only");
        }
        let made = CallSite::new(&map);
        prop_assert_eq!(made.is_ok(), wrong.is_empty(), "{:?}", wrong);
        let Err(error) = made else { return Ok(()) };
        prop_assert_eq!(error.kind, Kind::InvalidArgument);
        let start = format!("meshsolve.{}: ", routine.name);
        prop_assert!(error.message.starts_with(&start), "{}", error.message);
        // One of the wrong type counts as unknown.
        wrong.push("of the right type (int64 or string)");
        prop_assert!(wrong.iter().any(|name| error.message.contains(name)), "{}", error.message);
        Ok(())
    });
}
