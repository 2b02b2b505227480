//! `forebay evaluate meter` as its caller sees it.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

fn meter(arguments: &[&str]) -> Command {
    let mut command = Command::new(FOREBAY);
    command.args(["evaluate", "meter"]).args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = meter(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn status_and_output_are_the_program_s_and_the_table_is_beside_them() {
    let (status, stdout, stderr) = output(&["--", "sh", "-c", "echo words; exit 7"]);
    assert_eq!((status, stdout.as_str()), (Some(7), "words\n"));
    assert!(stderr.starts_with("sh for ") && stderr.contains("| minor_faults "), "{stderr}");
    assert!(stderr.contains("The counting took "), "{stderr}");
    assert_eq!(output(&["--", "sh", "-c", "kill -9 $$"]).0, Some(137));
}

#[test]
fn what_of_files_is_in_memory_is_told_of_named_ones_and_of_open_ones() {
    if !forebay_linux::has_cachestat() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), vec![7; 8 * 4096]).unwrap();
    let json = folder.path().join("meter.json").display().to_string();
    let pages = |files: &str, script: &str| {
        let arguments = ["--interval", "20ms", files, "--json", &json, "--", "sh", "-c", script];
        let ran = meter(&arguments).current_dir(folder.path()).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["metric"] == "file_pages_cached").unwrap();
        assert_eq!(row["tier"], "software");
        row["max"].as_f64().unwrap()
    };
    assert_eq!(pages("--files=data", "true"), 8.0);
    assert!(pages("--files", "exec 3<data; sleep 0.5") >= 8.0);
    let (status, _, stderr) = output(&["--files=/no/such", "--", "true"]);
    assert_eq!(status, Some(125));
    assert!(stderr.contains("cannot look at /no/such"), "{stderr}");
}

#[test]
fn results_are_rows_that_say_where_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meter.json");
    let json = path.to_str().unwrap();
    let arguments = [
        "--interval",
        "20ms",
        "--json",
        json,
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done",
    ];
    assert_eq!(output(&arguments).0, Some(0));
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = |metric: &str| {
        rows.iter().find(|row| row["metric"] == metric).unwrap_or_else(|| panic!("no {metric}"))
    };
    assert_eq!(
        (&row("minor_faults")["subject"], &row("minor_faults")["tier"]),
        (&"sh".into(), &"software".into())
    );
    assert!(row("minor_faults")["value"].as_f64().unwrap() > 1000.0);
    assert!(row("minor_faults_rate")["runs"].as_u64().unwrap() >= 1);
    assert!(row("meter_cpu")["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_memory_of_a_short_program_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meter.json");
    // Larger than this command, and over long before the first interval.
    let arguments =
        ["--interval", "1h", "--json", path.to_str().unwrap(), "--", "python3", "-c", "bytearray(96 << 20)"];
    assert_eq!(output(&arguments).0, Some(0));
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let row = |metric: &str| report["rows"].as_array().unwrap().iter().find(|row| row["metric"] == metric);
    let max_rss = row("max_rss").expect("its peak is told")["value"].as_f64().unwrap();
    assert!((96e6..256e6).contains(&max_rss), "{max_rss}");
    // What the shell had that became the program is not the program's.
    assert_eq!(row("resident_pages"), None);
}

#[test]
fn what_runs_already_is_measured_as_long_as_asked_or_until_it_ends() {
    let (status, stdout, stderr) = output(&["--machine", "--for", "200ms", "--interval", "50ms", "--every"]);
    assert_eq!(status, Some(0));
    assert!(stdout.starts_with("machine for ") && stdout.contains("cpu_idle"), "{stdout}");
    assert!(stderr.starts_with("     time") && stderr.lines().count() >= 2, "{stderr}");

    let mut sleeper = Command::new("sleep").arg("0.3").spawn().unwrap();
    let (status, stdout, _) = output(&["--pid", &sleeper.id().to_string(), "--tree"]);
    sleeper.wait().unwrap();
    assert_eq!(status, Some(0));
    assert!(stdout.contains("voluntary_switches"), "{stdout}");
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_what_was_counted() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", ready.display());
    let metering = meter(&["--", "sh", "-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready.exists() {
        assert!(Instant::now() < deadline, "the program does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let program = fs::read_to_string(&ready).unwrap();
    let interrupted = Command::new("kill").args(["-INT", &metering.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = metering.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(String::from_utf8(output.stderr).unwrap().contains("| minor_faults "));
    assert!(!fs::exists(format!("/proc/{}", program.trim())).unwrap());
}

#[test]
fn what_cannot_be_executed_is_told_in_a_sentence_and_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let lost = write("lost", b"#!/no/such/interpreter\n");
    let damaged = write("damaged", b"\0damaged");
    let plain = write("plain", b"exit 7\n");
    let json = folder.path().join("meter.json").display().to_string();
    for (program, status, said) in [
        ("/etc/passwd", 126, "'/etc/passwd' is not executable"),
        ("/tmp", 126, "'/tmp' is a folder"),
        (&damaged, 126, "cannot be executed"),
        (&lost, 127, "needs '/no/such/interpreter', which does not exist"),
        ("no-such-program", 127, "'no-such-program' was not found in PATH"),
    ] {
        let (code, stdout, stderr) = output(&["--json", &json, "--", program]);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(status), "", 1), "{stderr}");
        assert!(stderr.starts_with("forebay: ") && stderr.contains(said), "{program}: {stderr}");
        assert!(!fs::exists(&json).unwrap(), "{program}");
    }
    // A shell runs it as a script.
    assert_eq!(output(&["--", &plain]).0, Some(7));
}

#[test]
fn what_cannot_be_measured_is_told_with_what_to_do() {
    for (arguments, status, said) in [
        (&["--pid", "4194304"][..], 125, "there is no process 4194304; name one that runs"),
        (&["--cgroup", "/sys/fs/cgroup/no/such"], 125, "there is no control group '/sys/fs/cgroup/no/such'"),
        (&["--", "/no/such/program"], 127, "'/no/such/program' does not exist"),
        (&["--machine", "--interval", "1ms"], 125, "give an interval of 10ms"),
        (&["--machine", "--interval", "soon"], 2, "give a time of at most 7 days, such as 500ms"),
        (&[], 2, "required"),
    ] {
        let (code, stdout, stderr) = output(arguments);
        assert_eq!((code, stdout.as_str()), (Some(status), ""), "{arguments:?}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
}
