//! The reference in `docs/reference/statistics.md` explains every figure of `run`, `share` and `serve`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_testkit::artifacts;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// The words between back quotes of the page.
fn explained() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/statistics.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[track_caller]
fn assert_explained(figures: &BTreeSet<String>, least: usize) {
    assert!(figures.len() >= least, "only {} figures: {figures:?}", figures.len());
    let explained = explained();
    let missing: Vec<_> = figures.iter().filter(|figure| !explained.contains(*figure)).collect();
    assert!(missing.is_empty(), "docs/reference/statistics.md does not explain {missing:?}");
}

/// The metrics that a command writes with `--json`.
fn metrics(arguments: &[&str]) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let (command, program) = arguments.split_first().unwrap();
    let output = Command::new("timeout")
        .args(["-k", "5", "120", FOREBAY, command, "--json"])
        .arg(&json)
        .args(program)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    rows.iter().map(|row| row["metric"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_figure_of_run_is_explained() {
    // A family is explained by its name, `family/REASON`, and each reason by itself.
    let families = |metric: String| match metric.split_once('/') {
        Some(("missing", _)) => vec!["missing/FEATURE".to_owned()],
        Some((family, reason)) => vec![format!("{family}/REASON"), reason.to_owned()],
        None => vec![metric],
    };
    let figures = metrics(&["run", "--", "sh", "-c", "ls / >&2"]).into_iter().flat_map(families).collect();
    assert_explained(&figures, 50);
}

#[test]
fn every_counter_of_share_is_explained() {
    let heat = artifacts::example("forebay-millipage", "heat").unwrap();
    assert_explained(&metrics(&["share", "-n", "1", "--", heat.to_str().unwrap()]), 15);
}

#[test]
fn every_metric_of_serve_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new("timeout")
        .args(["-k", "5", "60", FOREBAY, "serve", "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stderr.take().unwrap()).lines();
    // The address of RTSP comes first, the one of the status page last.
    let addresses = said.take(2).map(|line| line.unwrap().rsplit(' ').next().unwrap().to_owned());
    let mut stream = TcpStream::connect(addresses.last().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM)
        .unwrap();
    server.wait().unwrap();
    let types = answer.lines().filter_map(|line| line.strip_prefix("# TYPE forebay_")?.split(' ').next());
    assert_explained(&types.map(str::to_owned).collect(), 15);
}
