//! `forebay doctor`, as scripts use it.
#![forbid(unsafe_code)]

use std::process::{Command, Output};

use forebay_testkit::{copy_program, skip};
use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn what_a_machine_reads_is_what_a_person_reads() {
    let (text, json) = (doctor(&[]), doctor(&["--json", "-"]));
    assert_eq!(text.status, json.status);
    let text = String::from_utf8(text.stdout).unwrap();
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(found["schema"], 1);
    let features = found["features"].as_array().unwrap();
    let mut missing_required = false;
    for feature in features {
        let [name, purpose, remedy] = ["name", "purpose", "remedy"].map(|key| feature[key].as_str().unwrap());
        let (is_present, is_required) = (feature["present"] == true, feature["need"] == "required");
        missing_required |= is_required && !is_present;
        let mark = if is_present {
            "yes"
        } else if is_required {
            "MISSING"
        } else {
            "no"
        };
        let line = format!("  {mark:8} {name}: {purpose}\n");
        assert!(text.contains(&line), "{line}");
        assert!(is_present || text.contains(remedy), "{remedy}");
    }
    assert_eq!(json.status.code(), Some(i32::from(missing_required)));
}

#[test]
fn only_what_was_asked_for_counts() {
    for command in ["run", "share", "serve", "evaluate"] {
        let json = doctor(&[command, "--json", "-"]);
        let found: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(found["features"].as_array().unwrap().iter().all(|feature| feature["command"] == command));
    }
    let unknown = doctor(&["sing"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("possible values: run, share, serve, evaluate")
    );
}

#[test]
fn what_the_meter_cannot_count_the_doctor_names() {
    let json = doctor(&["evaluate", "--json", "-"]);
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    let features = found["features"].as_array().unwrap();
    let present = |name: &str| {
        let feature = features.iter().find(|feature| feature["name"] == name);
        feature.unwrap_or_else(|| panic!("{name}"))["present"] == true
    };
    let arguments = ["evaluate", "meter", "--hardware", "--", "true"];
    let meter = Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap();
    let refused = String::from_utf8(meter.stderr).unwrap().replace("\n  ", " ");
    let refused: String = refused.lines().filter(|line| line.starts_with("not counted")).collect();
    for (feature, counter) in
        [("hardware counters", "cycles,"), ("delay accounting", "disk_wait:"), ("perf events", "task_time,")]
    {
        assert_eq!(present(feature), !refused.contains(counter), "{feature}: {refused}");
    }
}

/// Features of the kernel do not depend on the user. (perf events and real-time priority do.)
#[test]
fn a_user_and_root_learn_the_same_of_the_kernel() {
    if !rustix::process::geteuid().is_root() {
        return skip("a_user_and_root_learn_the_same_of_the_kernel", "only root can ask as another user");
    }
    let shared = tempfile::tempdir().unwrap();
    Command::new("chmod").arg("755").arg(shared.path()).status().unwrap();
    let forebay = shared.path().join("forebay");
    copy_program(env!("CARGO_BIN_EXE_forebay"), &forebay);
    copy_program(env!("CARGO_BIN_EXE_forebay-commands"), shared.path().join("forebay-commands"));
    let asked = Command::new("setpriv")
        .args(["--reuid", "64123", "--clear-groups"])
        .arg(&forebay)
        .args(["doctor", "run", "--json", "-"])
        .current_dir("/")
        .output()
        .unwrap();
    let users: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let roots: Value = serde_json::from_slice(&doctor(&["run", "--json", "-"]).stdout).unwrap();
    for name in ["cachestat", "RWF_NOWAIT", "openat2 RESOLVE_CACHED", "PAGEMAP_SCAN", "PSI"] {
        let present = |found: &Value| {
            let features = found["features"].as_array().unwrap();
            features.iter().find(|feature| feature["name"] == name).unwrap()["present"].clone()
        };
        assert_eq!(present(&users), present(&roots), "{name}");
    }
}
