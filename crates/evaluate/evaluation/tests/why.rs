//! Doses of resources that are taken away from servers with a known cause: the elasticity names it.
#![forbid(unsafe_code)]

mod support;

use std::fs;

use forebay_evaluation::servers::server::{Options, why};
use support::late::late_server;
use support::turn;

/// Experiments that may not decide, on a machine with other work.
const ATTEMPTS_MAX: usize = 5;
/// The fewest for an interval that counts.
const ROUNDS: u16 = 3;

#[test]
fn a_late_dependency_binds_and_is_told_by_its_own_name() {
    let _turn = turn();
    let dependency = format!("127.0.0.1:{}", late_server());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/evaluate/planted.py");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    let description = format!(
        "title = \"t\"\nseconds = 0.3\nwarm_up = 0.1\n[any]\nname = \"asking\"\n\
         server = [\"python3\", {program:?}, \"ask\", \"{{port}}\", \"{{dependency_port}}\"]\n\
         dependency = {dependency:?}\nurl = \"http://127.0.0.1:{{port}}/\"\n"
    );
    fs::write(&path, description).unwrap();
    let options = Options::read(&path, &[]).unwrap();
    let mut said = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        let outcome = why(&options, ROUNDS, &mut |_| ()).unwrap();
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
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
    let error = why(&options, 1, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("answered no request"), "{error}");
}
