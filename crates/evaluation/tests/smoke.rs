//! The experiments from end to end, with tiny data and a stand-in for `forebay` that only runs the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use forebay_evaluation::{Error, Profile, Program, Scale, Side, demo, overhead, speculation};
use tempfile::TempDir;

const TINY: Scale = Scale { files: 40, objects: 12, array_bytes: 1 << 20, reads: 300 };

/// Takes the options of `forebay run`, leaves statistics, and then does `$last`.
fn stand_in(last: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forebay");
    let script = r#"#!/bin/sh
while [ "$1" != -- ]; do
    if [ "$1" = --json ]; then statistics=$2; fi
    shift
done
shift
if [ -n "$statistics" ]; then
    host='{"kernel": "k", "cpu": "c", "cores": 1, "memory_bytes": 1}'
    row='"subject": "run", "case": "total", "metric": "stalls", "unit": "1"'
    row="{$row, \"value\": 7, \"min\": 7, \"max\": 7, \"runs\": 1, \"tier\": \"software\"}"
    echo "{\"schema\": 1, \"revision\": \"r\", \"command\": \"c\", \"host\": $host, \"rows\": [$row]}" > "$statistics"
fi
"#;
    fs::write(&path, format!("{script}{last}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn tiny(forebay: PathBuf, program: Program) -> speculation::Options {
    let programs = vec![program];
    speculation::Options {
        programs,
        runs: 2,
        scale: TINY,
        ..speculation::Options::new(Profile::Local, forebay)
    }
}

#[test]
fn every_side_of_every_program_runs_in_every_round() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    for program in Program::ALL {
        let mut shares = Vec::new();
        let outcome =
            speculation::run(&tiny(forebay.clone(), program), &mut |progress| shares.push(progress.share))
                .unwrap();
        assert!(outcome.identical(), "{}", outcome.table());
        for side in Side::ALL {
            assert_eq!(outcome.measured[0].elapsed_s(side).values().len(), 2);
        }
        assert_eq!(shares.first(), Some(&0.0));
        assert_eq!(shares.last(), Some(&1.0));
        assert!(shares.is_sorted());
        let rows = outcome.rows();
        for (case, metric) in [
            ("local/original", "elapsed"),
            ("local/forebay", "elapsed"),
            ("local/hinted", "elapsed"),
            ("local/warm", "elapsed"),
            ("local/forebay", "speedup"),
            ("local/forebay", "stalls"),
            ("local/forebay", "output_identical"),
        ] {
            let found = rows.iter().find(|row| row.case == case && row.metric == metric);
            assert_eq!(found.map(|row| row.subject.as_str()), Some(program.name()), "{case} {metric}");
        }
    }
}

#[test]
fn a_side_that_prints_something_else_is_told() {
    let (_folder, forebay) = stand_in(r#""$@"; status=$?; echo more; exit $status"#);
    let outcome = speculation::run(&tiny(forebay, Program::Xds), &mut |_| ()).unwrap();
    assert!(!outcome.identical());
    assert_eq!(outcome.measured[0].differences.len(), 2);
    assert!(outcome.table().contains("forebay printed something else"), "{}", outcome.table());
}

#[test]
fn a_side_that_writes_another_file_is_told() {
    let (_folder, forebay) =
        stand_in(r#""$@" && if [ "$1" = ld ] && [ "$2" = -o ]; then echo more >> "$3"; fi"#);
    let outcome = speculation::run(&tiny(forebay, Program::Gnuld), &mut |_| ()).unwrap();
    assert!(outcome.table().contains("forebay wrote another file"), "{}", outcome.table());
}

#[test]
fn a_forebay_that_is_not_there_is_named() {
    let error =
        speculation::run(&tiny("/nonexistent/forebay".into(), Program::Xds), &mut |_| ()).unwrap_err();
    assert!(matches!(&error, Error::Start { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/forebay"), "{error}");
}

#[test]
fn overhead_is_measured_in_pairs() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let size = overhead::Size {
        files: 20,
        passes: 2,
        objects: 6,
        summed_bytes: 1 << 20,
        text_bytes: 1 << 16,
        turns: 1_000,
        processes: 3,
    };
    let options = overhead::Options { pairs: 3, start_pairs: 5, size, forebay };
    let outcome = overhead::run(&options, &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", outcome.table());
    assert!(outcome.cases.iter().all(|case| case.overhead().values().len() >= 3));
    assert!(outcome.rows().iter().any(|row| row.subject == "start of /bin/true" && row.metric == "extra"));
}

#[test]
fn the_demonstration_shows_every_program() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let options = demo::Options {
        budget: Duration::from_secs(1),
        slow_disk: false,
        scale: Some(TINY),
        ..demo::Options::new(forebay)
    };
    let outcome = demo::run(&options, &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", outcome.table());
    for program in Program::ALL {
        assert!(outcome.table().contains(program.description()), "{}", outcome.table());
    }
    assert!(outcome.table().contains("Left out: the disk with a latency of 1 ms"), "{}", outcome.table());
}
