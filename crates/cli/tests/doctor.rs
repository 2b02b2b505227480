//! `forebay doctor`, as scripts use it.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use forebay_testkit::{copy_program, skip};
use serde_json::Value;
use tempfile::TempDir;

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
    let present = |name: &str| feature(&found, name)["present"] == true;
    let arguments = ["evaluate", "meter", "--hardware", "--", "true"];
    let meter = Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap();
    let refused = String::from_utf8(meter.stderr).unwrap().replace("\n  ", " ");
    let refused: String = refused.lines().filter(|line| line.starts_with("not counted")).collect();
    for (name, counter) in
        [("hardware counters", "cycles,"), ("delay accounting", "disk_wait:"), ("perf events", "task_time,")]
    {
        assert_eq!(present(name), !refused.contains(counter), "{name}: {refused}");
    }
}

/// What a user lacks is a right, not what is installed or mounted.
#[test]
fn a_user_is_told_to_become_root_where_that_is_all_that_is_missing() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "a_user_is_told_to_become_root_where_that_is_all_that_is_missing",
            "only root can ask as another",
        );
    }
    let (_shared, forebay) = for_others();
    let asked = |wrapper: &[&str]| -> Value {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(&forebay).args(["doctor", "evaluate", "--json", "-"]);
        serde_json::from_slice(&command.current_dir("/").output().unwrap().stdout).unwrap()
    };
    let user = ["setpriv", "--reuid", "64123", "--clear-groups"];
    let roots = asked(&["env"]);
    let users = asked(&user);
    for name in ["root", "control group of memory", "network namespaces"] {
        let (root, user) = (feature(&roots, name), feature(&users, name));
        if root["present"] == true {
            let remedy = user["remedy"].as_str().unwrap();
            assert!(user["present"] == false && remedy.contains("run the command with sudo"), "{user}");
            assert!(!remedy.contains("apt install") && !remedy.contains("mount"), "{remedy}");
        }
    }
    let namespace = [&user[..], &["unshare", "--user", "--map-root-user"]].concat();
    let can_have_one = Command::new(namespace[0]).args(&namespace[1..]).arg("true").status().unwrap();
    if can_have_one.success() {
        let root = asked(&namespace);
        assert_eq!(feature(&root, "root")["present"], false, "{root}");
    }
}

#[test]
fn a_machine_without_proc_is_told_to_have_none() {
    if !rustix::process::geteuid().is_root() {
        return skip("a_machine_without_proc_is_told_to_have_none", "only root can hide /proc");
    }
    let (_shared, forebay) = for_others();
    let script = r#"mount -t tmpfs none /proc && exec "$0" doctor evaluate"#;
    let asked = Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(&forebay).output().unwrap();
    let said = String::from_utf8(asked.stdout).unwrap();
    assert!(said.contains("MISSING  /proc: "), "{said}{:?}", asked.stderr);
    assert_eq!(asked.status.code(), Some(1));
}

fn feature<'a>(found: &'a Value, name: &str) -> &'a Value {
    let features = found["features"].as_array().unwrap();
    features.iter().find(|feature| feature["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// `forebay` where every user may execute it.
fn for_others() -> (TempDir, PathBuf) {
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let forebay = shared.path().join("forebay");
    copy_program(env!("CARGO_BIN_EXE_forebay"), &forebay);
    copy_program(env!("CARGO_BIN_EXE_forebay-commands"), shared.path().join("forebay-commands"));
    (shared, forebay)
}

/// Features of the kernel do not depend on the user. (perf events and real-time priority do.)
#[test]
fn a_user_and_root_learn_the_same_of_the_kernel() {
    if !rustix::process::geteuid().is_root() {
        return skip("a_user_and_root_learn_the_same_of_the_kernel", "only root can ask as another user");
    }
    let (_shared, forebay) = for_others();
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
        assert_eq!(feature(&users, name)["present"], feature(&roots, name)["present"], "{name}");
    }
}
