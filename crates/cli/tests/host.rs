//! `forebay evaluate host`, and the model by its results, as their caller sees them.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, Output};

use forebay_results::{Report, Row};

fn evaluate(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("evaluate")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_a_host_costs_is_what_the_model_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let only_calls = ["host", "--quick", "--only", "calls", "--json", "calls.json"];
    let (status, table, said) = evaluate(folder.path(), &only_calls);
    assert!(status == Some(0) && table.contains("getppid"), "{table}{said}");
    let (status, _, said) =
        evaluate(folder.path(), &["model", "--host", "calls.json", "--json", "model.json"]);
    assert!(status == Some(1) && said.contains("evaluate host --only"), "{said}");
    assert!(!folder.path().join("model.json").exists());

    let packets = ["host", "--quick", "--only", "packets,calls", "--json", "host.json", "--svg", "figures"];
    let (status, table, said) = evaluate(folder.path(), &packets);
    assert!(status == Some(0) && table.contains("TCP write:"), "{table}{said}");
    assert!(std::fs::read_dir(folder.path().join("figures")).unwrap().count() >= 1);

    let path = folder.path().join("host.json");
    let mut measured: Report = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    measured.rows.push(Row::once("memory block copy", "128 MiB", "throughput", "MB/s", 10_000.0));
    std::fs::write(&path, serde_json::to_string(&measured).unwrap()).unwrap();
    let (status, table, said) = evaluate(folder.path(), &["model", "--host", "host.json", "--copies", "1"]);
    assert!(
        status == Some(0) && table.contains("memory 20000 MB/s") && table.contains("gain"),
        "{table}{said}"
    );
}

#[test]
fn what_cannot_be_measured_is_told_and_leaves_no_results() {
    let folder = tempfile::tempdir().unwrap();
    let disk = ["host", "--only", "disk", "--dir", "/proc", "--json", "disk.json"];
    let (status, table, _) = evaluate(folder.path(), &disk);
    assert!(status == Some(1) && table.contains("Left out: disk: cannot write a file"), "{table}");
    assert!(!folder.path().join("disk.json").exists());

    let (status, _, said) = evaluate(folder.path(), &["host", "--dir", "/nowhere"]);
    assert!(status == Some(1) && said.contains("/nowhere"), "{said}");
    let (status, _, said) = evaluate(folder.path(), &["host", "--svg", "/proc/figures"]);
    assert!(status == Some(1) && said.contains("cannot write figures to '/proc/figures'"), "{said}");
    let (status, _, said) = evaluate(folder.path(), &["host", "--only", "memory,cache"]);
    assert!(status == Some(2) && said.contains("unknown probe 'cache'"), "{said}");
}
