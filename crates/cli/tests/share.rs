//! `forebay share` as its caller and its hosts see it. The hosts here are shells, which share nothing.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");
const LIMIT: Duration = Duration::from_secs(60);

/// `forebay share` of so many shells with this script.
fn share(hosts: u16, script: &str) -> Command {
    let mut command = Command::new(FOREBAY);
    command.args(["share", "-n", &hosts.to_string(), "--", "sh", "-c", script]).stdin(Stdio::null());
    command
}

fn output(hosts: u16, script: &str) -> Output {
    share(hosts, script).output().unwrap()
}

/// The job, and the first lines that its hosts write.
fn start(hosts: u16, script: &str) -> (Child, Vec<String>) {
    let mut child = share(hosts, script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = (0..hosts).map(|_| lines.next().unwrap().unwrap()).collect();
    (child, lines)
}

/// Waits until these processes are gone.
fn assert_gone(pids: &[String]) {
    let deadline = Instant::now() + LIMIT;
    while let Some(pid) = pids.iter().find(|pid| Path::new("/proc").join(pid).exists()) {
        assert!(Instant::now() < deadline, "process {pid} is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn hosts_know_their_numbers_and_what_they_print_comes_as_it_is() {
    let output = output(
        3,
        "echo $FOREBAY_SHARE_RANK of $FOREBAY_SHARE_HOSTS; test -S /proc/self/fd/$FOREBAY_SHARE_SOCKET",
    );
    assert_eq!(output.status.code(), Some(0));
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3", "1 of 3", "2 of 3"]);
    assert!(output.stderr.is_empty());
}

#[test]
fn options_reach_the_hosts() {
    let script = "echo $FOREBAY_SHARE_SIZE $FOREBAY_SHARE_VIEWS $FOREBAY_SHARE_TRANSPORT \
        $FOREBAY_SHARE_SEPARATE $FOREBAY_SHARE_FORESIGHT";
    let share = |options: &[&str]| {
        let arguments = [&["share", "-n", "1"], options, &["--", "sh", "-c", script]].concat();
        String::from_utf8(Command::new(FOREBAY).args(arguments).output().unwrap().stdout).unwrap()
    };
    assert_eq!(share(&["--size", "64M", "--views", "8", "--transport", "tcp"]), "67108864 8 tcp\n");
    assert_eq!(share(&["--size", "1M", "--views", "2", "--separate"]), "1048576 2 auto 1\n");
    assert_eq!(share(&["--size", "1M", "--views", "2", "--no-foresight"]), "1048576 2 auto 0\n");
}

#[test]
fn neighbouring_hosts_count_as_on_one_machine() {
    let machines = |hosts: &str, machines: &str| {
        let arguments = ["share", "-n", hosts, "--machines", machines, "--", "sh", "-c"];
        let script = "echo $FOREBAY_SHARE_RANK ${FOREBAY_SHARE_MACHINE-none}";
        let output = Command::new(FOREBAY).args(arguments).arg(script).output().unwrap();
        let mut lines: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.join(", ")
    };
    assert_eq!(machines("4", "2"), "0 0, 1 0, 2 1, 3 1");
    assert_eq!(machines("3", "2"), "0 0, 1 0, 2 1");
    assert_eq!(machines("2", "9"), "0 0, 1 1");
    assert_eq!(machines("2", "1"), "0 none, 1 none");
}

#[test]
fn when_one_fails_the_others_are_ended_and_its_status_is_that_of_the_job() {
    let script = "test $FOREBAY_SHARE_RANK != 1 || exit 3; sleep 600 & echo $!; wait";
    let output = output(3, script);
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("host 1") && stderr.contains("ended with status 3"), "{stderr}");
    let left: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(left.len(), 2);
    assert_gone(&left);
}

#[test]
fn a_signal_goes_to_all_hosts() {
    let (mut child, pids) = start(2, "trap 'exit 9' USR1; echo $$; while :; do sleep 0.01; done");
    kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_gone(&pids);
}

#[test]
fn no_host_outlives_the_launcher() {
    let (mut child, pids) = start(2, "echo $$; exec sleep 600");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_gone(&pids);
}

#[test]
fn what_cannot_be_started_is_said() {
    for (program, status, says) in [("nosuchprogram", 127, "was not found"), ("/", 126, "is a folder")] {
        let output = Command::new(FOREBAY).args(["share", "--", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says), "{stderr}");
    }
    let output = Command::new(FOREBAY).args(["share", "-n", "0", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn figures_are_written_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.json");
    let status =
        Command::new(FOREBAY).args(["share", "--stats", "--json"]).arg(&path).args(["--", "true"]).status();
    assert!(status.unwrap().success());
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    // These hosts have shared nothing.
    assert_eq!(json["rows"], serde_json::json!([]));
}

#[test]
fn a_second_interrupt_ends_hosts_that_ignore_it() {
    let script = "trap 'echo heard' INT; trap '' TERM; echo $$; while :; do sleep 0.01; done";
    let mut child = share(2, script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pids: Vec<String> = lines.by_ref().take(2).collect();
    let interrupt = || kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    interrupt();
    assert_eq!(lines.by_ref().take(2).collect::<Vec<_>>(), ["heard", "heard"]);
    interrupt();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("interrupted twice; 2 hosts that go on are ended"), "{stderr}");
    assert_gone(&pids);
}

#[test]
fn a_job_that_a_host_starts_is_a_job_of_its_own() {
    let inner =
        "echo $FOREBAY_SHARE_SIZE. $FOREBAY_SHARE_SEPARATE. $FOREBAY_SHARE_RANK of $FOREBAY_SHARE_HOSTS";
    let outer = format!("test $FOREBAY_SHARE_RANK = 1 || exec {FOREBAY} share -n 1 -- sh -c '{inner}'");
    let arguments = ["share", "-n", "2", "--separate", "--size", "64M", "--", "sh", "-c", &outer];
    let output = Command::new(FOREBAY).args(arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), ". . 0 of 1\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_host_that_failed_first_is_told_and_no_consequence_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("process");
    // Both have ended when the launcher looks again, which host 0 has stopped.
    let consequence = "until test -s F; do sleep 0.01; done; kill -STOP $PPID
        (until grep -q '^State:.Z' /proc/$(cat F)/status; do sleep 0.01; done; kill -CONT $PPID) & exit 70";
    let cause = "echo $$ > F; until grep -q '^State:.T' /proc/$PPID/status; do sleep 0.01; done; kill -9 $$";
    let script = format!("if test $FOREBAY_SHARE_RANK = 0; then {consequence}; else {cause}; fi");
    let output = output(2, &script.replace(" F", &format!(" {}", file.display())));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("host 1") && stderr.contains("was ended by signal 9"), "{stderr}");
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn a_transport_that_authenticates_nothing_comes_with_a_warning() {
    let said = |transport: &str| {
        let arguments = ["share", "-n", "1", "--transport", transport, "--", "true"];
        String::from_utf8(Command::new(FOREBAY).args(arguments).output().unwrap().stderr).unwrap()
    };
    assert!(said("ucx").contains("UCX authenticates no message"));
    assert_eq!(said("tcp"), "");
}

/// The launcher stops when all hosts are stopped. One that was stopped and goes on is not, when it is the last.
#[test]
fn a_host_that_was_stopped_and_goes_on_ends_the_job_as_the_last() {
    const TIMES: u32 = 20;
    let folder = tempfile::tempdir().unwrap();
    let [waking, stopping] =
        ["waking", "stopping"].map(|name| folder.path().join(name).display().to_string());
    let wakes = format!(
        "echo $$ > {waking}; until test -s {stopping}; do sleep 0.01; done; host=$(cat {stopping}); n=0
        while test $n -lt {TIMES}; do
            until grep -q '^State:.T' /proc/$host/status; do sleep 0.01; done; kill -CONT $host; n=$((n + 1))
        done"
    );
    let stops = format!(
        "until test -s {waking}; do sleep 0.01; done; echo $$ > {stopping}; n=0
        while test $n -lt {TIMES}; do kill -STOP $$; n=$((n + 1)); done
        while test -e /proc/$(cat {waking}); do sleep 0.01; done; echo last"
    );
    let script = format!("if test $FOREBAY_SHARE_RANK = 0; then {wakes}; else {stops}; fi");
    let mut job = share(2, &script).stdout(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + LIMIT;
    while job.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", job.id())).unwrap_or_default();
        let goes_on = !status.contains("State:\tT") && Instant::now() < deadline;
        if !goes_on {
            let _ = job.kill();
        }
        assert!(goes_on, "the launcher waits for nothing: {status}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = job.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"last\n"[..]));
}
