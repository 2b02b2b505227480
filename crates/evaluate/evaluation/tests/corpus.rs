//! The corpus from end to end, with a stand-in for `forebay` that only runs the program.

mod stand_in;

use forebay_evaluation::run::corpus::{self, Case, Options, Outcome};
use forebay_evaluation::{Profile, Side};
use forebay_lab::SlowDevice;
use forebay_testkit::skip;
use stand_in::stand_in;

/// What comes of these command lines with a stand-in that does `last`; says why and returns nothing where they cannot be had.
fn outcome(test: &str, last: &str, names: &[&str]) -> Option<Outcome> {
    if let Err(error) = SlowDevice::supported() {
        skip(test, &error);
        return None;
    }
    let (_folder, forebay) = stand_in(last);
    let named = |name: &&str| corpus::all().iter().find(|case| case.name == *name).unwrap();
    let cases: Vec<&'static Case> = names.iter().map(named).collect();
    let options = Options {
        profile: Profile::Nvme,
        cases,
        runs: 1,
        forebay_cold: false,
        control: true,
        second_run: false,
        tools: "absent".into(),
        forebay,
        agent: None,
    };
    let mut lines = 0;
    let outcome = corpus::run(&options, &mut |_| (), &mut |_| lines += 1).unwrap();
    assert!(outcome.stopped.is_none());
    assert_eq!(lines + outcome.left_out.len(), names.len());
    Some(outcome)
}

#[test]
fn every_side_runs_and_a_missing_package_is_told() {
    let test = "every_side_runs_and_a_missing_package_is_told";
    let Some(outcome) = outcome(test, r#"exec "$@""#, &["du", "sort", "container-grep", "polars-csv"]) else {
        return;
    };
    assert!(outcome.agrees(), "{}", outcome.table());
    let names: Vec<&str> = outcome.measured.iter().map(|measured| measured.case.name).collect();
    assert_eq!(names, ["du", "sort", "container-grep"]);
    for measured in &outcome.measured {
        for side in [Side::Original, Side::Forebay, Side::Control, Side::Warm] {
            assert_eq!(measured.elapsed_s(side).values().len(), 1);
        }
        assert_eq!(measured.counters.get("stalls_before").unwrap().values(), [7.0]);
    }
    let table = outcome.table();
    assert!(
        table.contains("Left out: polars-csv") && table.contains("absent/python/bin/pip install polars"),
        "{table}"
    );
    let figures = |line: &&str| line.starts_with('|');
    assert!(table.lines().filter(figures).all(|line| line.chars().count() <= 80), "{table}");
    let rows = outcome.rows();
    let has = |subject: &str, metric: &str| {
        rows.iter().any(|row| (&*row.subject, &*row.metric) == (subject, metric))
    };
    assert!(table.contains("By chance, alone against alone: 3 command lines"), "{table}");
    for (subject, metric) in [("du", "elapsed"), ("sort", "share_stalled"), ("corpus", "geometric_mean")] {
        assert!(has(subject, metric), "{subject} {metric}");
    }
}

#[test]
fn a_program_that_prints_or_writes_something_else_with_forebay_is_told() {
    let test = "a_program_that_prints_or_writes_something_else_with_forebay_is_told";
    let last = r#""$@" || exit; if [ "$2" = -o ]; then echo more >> "$3"; else echo more; fi"#;
    let Some(outcome) = outcome(test, last, &["du", "sort"]) else { return };
    assert!(!outcome.agrees());
    let table = outcome.table();
    assert!(table.contains("du: a run of the side forebay printed something else"), "{table}");
    assert!(table.contains("sort: a run of the side forebay wrote other files"), "{table}");
}

#[test]
fn a_program_that_fails_with_forebay_is_told_and_does_not_end_the_others() {
    let test = "a_program_that_fails_with_forebay_is_told_and_does_not_end_the_others";
    let Some(outcome) =
        outcome(test, r#"case "$1" in */du) exit 3 ;; *) exec "$@" ;; esac"#, &["du", "sort"])
    else {
        return;
    };
    assert!(!outcome.agrees());
    assert!(outcome.table().contains("du: a run of the side forebay ended with"), "{}", outcome.table());
    assert_eq!(outcome.measured[1].differences, [""; 0]);
}
