//! Doses of resources that are taken away from servers with a known cause: the elasticity names it.
#![forbid(unsafe_code)]

mod support;

use std::fs;

use forebay_evaluation::servers::server::{Options, Resource, Told, WhyAsked, why};
use support::late::late_server;
use support::turn;

/// Experiments that may not decide, or get no answer in their time, on a machine with other work. Each takes longer than the one
/// before.
const ATTEMPTS_MAX: u16 = 5;
/// The fewest for an interval that counts.
const ROUNDS: u16 = 3;

fn asked(only: &[Resource]) -> WhyAsked {
    WhyAsked { rounds: ROUNDS, only: only.to_vec() }
}

#[test]
fn a_late_dependency_binds_and_is_told_by_its_own_name() {
    let _turn = turn();
    let dependency = format!("127.0.0.1:{}", late_server());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/evaluate/planted.py");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    let mut said = Vec::new();
    for attempt in 1..=ATTEMPTS_MAX {
        let seconds = 0.3 * f64::from(attempt);
        let description = format!(
            "title = \"t\"\nseconds = {seconds}\nwarm_up = 0.1\n[any]\nname = \"asking\"\n\
             server = [\"python3\", {program:?}, \"ask\", \"{{port}}\", \"{{dependency_port}}\"]\n\
             dependency = {dependency:?}\nurl = \"http://127.0.0.1:{{port}}/\"\n"
        );
        fs::write(&path, description).unwrap();
        let options = Options::read(&path, &[]).unwrap();
        let outcome = match why(&options, &asked(&[Resource::Dependency]), &mut |_| ()) {
            Ok(outcome) => outcome,
            Err(error) => {
                said.push(error.to_string());
                continue;
            }
        };
        if let Some(stopped) = &outcome.stopped {
            said.push(format!("{stopped:?}"));
            continue;
        }
        let table = outcome.table();
        if table.contains(&format!("By experiment: dependency {dependency} binds")) {
            let metric = format!("elasticity/{dependency} +50 %");
            assert!(outcome.rows().iter().any(|row| row.metric == metric && row.runs == 6), "{table}");
            return;
        }
        said.push(table);
    }
    panic!("the dependency does not bind: {}", said.join("\n"));
}

#[test]
fn a_dependency_is_asked_and_named_whatever_program_makes_the_load() {
    let _turn = turn();
    let dependency = format!("127.0.0.1:{}", late_server());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/evaluate/planted.py");
    let load = "import sys, urllib.request; [urllib.request.urlopen(sys.argv[1]).read() for _ in range(20)]";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    let description = format!(
        "title = \"t\"\nseconds = 0.3\nwarm_up = 0\n[any]\nname = \"asking\"\n\
         server = [\"python3\", {program:?}, \"ask\", \"{{port}}\", \"{{dependency_port}}\"]\n\
         dependency = {dependency:?}\nload = [\"python3\", \"-c\", {load:?}, \"http://127.0.0.1:{{port}}/\"]\n"
    );
    fs::write(&path, description).unwrap();
    let options = Options::read(&path, &[]).unwrap();
    let asked = WhyAsked { rounds: 1, only: vec![Resource::Dependency] };
    let outcome = why(&options, &asked, &mut |_| ()).unwrap();
    let table = outcome.table();
    assert!(outcome.rows().iter().any(|row| row.runs == 2), "{table}");
    let mut told = table.match_indices("127.0.0.1:");
    assert!(told.all(|(place, _)| table[place..].starts_with(&dependency)), "{table}");
}

/// Doses of a server that reads a file of 1 MiB, past what is in memory: each is measured, or refused with its reason.
#[test]
fn every_dose_is_measured_or_refused_with_a_reason() {
    let _turn = turn();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/evaluate/planted.py");
    // Where files are on a disk.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("data"), vec![7; 1 << 20]).unwrap();
    let path = folder.path().join("experiment.toml");
    let options = |attempt: u16| {
        let seconds = 0.2 * f64::from(attempt);
        let description = format!(
            "title = \"t\"\nseconds = {seconds}\nwarm_up = 0\n[any]\nname = \"reading\"\nfiles = {files:?}\n\
             server = [\"python3\", {program:?}, \"read\", \"{{port}}\", \"{{files}}\"]\n\
             url = \"http://127.0.0.1:{{port}}/\"\n"
        );
        fs::write(&path, description).unwrap();
        Options::read(&path, &[]).unwrap()
    };
    let only =
        [Resource::PageCache, Resource::Bandwidth, Resource::LastCache, Resource::Disk, Resource::Dependency];
    let asked = WhyAsked { rounds: 1, only: only.to_vec() };
    let mut outcomes =
        (1..=ATTEMPTS_MAX).filter_map(|attempt| why(&options(attempt), &asked, &mut |_| ()).ok());
    let outcome = outcomes.find(|outcome| outcome.stopped.is_none()).expect("a whole experiment");
    let (table, rows, statements) = (outcome.table(), outcome.rows(), outcome.statements());
    for resource in only {
        let name = resource.name();
        let measured = |of: &str| {
            let (found, fixed) = (format!("{of}/{name}"), format!("{of}/{name} "));
            let is_of = |metric: &str| metric == found || metric.starts_with(&fixed);
            rows.iter().any(|row| is_of(&row.metric) && row.runs == 2)
        };
        let words = match resource {
            Resource::PageCache => "less page cache: ",
            Resource::Bandwidth => "less throughput of memory: ",
            Resource::LastCache => "less of the last cache: ",
            Resource::Disk => "a later disk: ",
            _ => "a later dependency: ",
        };
        let refused = statements.iter().any(|one| one.text.starts_with(words));
        assert!(measured("elasticity") != refused, "{name}: {table}");
        assert_eq!(measured("elasticity"), measured("elasticity_of_p99"), "{name}: {table}");
    }
    // It says nothing of another server.
    assert!(table.contains("not measured: a later dependency: the experiment has no dependency"), "{table}");
}

#[test]
fn a_server_that_answers_nothing_is_told_before_any_dose() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    // It takes connections and reads nothing.
    let server = "import socket, sys, time; listener = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)";
    let description = format!(
        "title = \"t\"\nseconds = 0.2\nwarm_up = 0\n[any]\nname = \"mute\"\n\
         server = [\"python3\", \"-c\", {server:?}, \"{{port}}\"]\nurl = \"http://127.0.0.1:{{port}}/\"\n"
    );
    fs::write(&path, description).unwrap();
    let options = Options::read(&path, &[]).unwrap();
    let error = why(&options, &asked(&[]), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("answered no request"), "{error}");
}
