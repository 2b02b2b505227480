//! `forebay run` as a program sees it and as its caller sees it. Needs the agent library beside the test's build:
//! `cargo build -p forebay-agent --profile agent`.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use forebay_testkit::skip;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// `forebay run` with `arguments`.
fn forebay(arguments: &[&str]) -> Command {
    let agent = Path::new(FOREBAY).parent().unwrap().join("../agent/libforebay_agent.so");
    assert!(agent.is_file(), "build the agent first: cargo build -p forebay-agent --profile agent");
    let mut command = Command::new(FOREBAY);
    command.arg("run").args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    forebay(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Exit status and standard error.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(arguments);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Standard output of a shell script with and without forebay.
fn with_and_without(script: &str) -> (String, String) {
    let with = output(&["--", "sh", "-c", script]).stdout;
    let without = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap().stdout;
    (String::from_utf8(with).unwrap(), String::from_utf8(without).unwrap())
}

/// A file with this text and mode. Another process writes it: a descriptor of ours that is open for writing could be
/// inherited by a child of another test, and the file could not be executed meanwhile.
fn scratch(name: &str, text: &str, mode: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut install = Command::new("install");
    install.args(["-m", mode, "/dev/stdin"]).arg(&path).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success());
    (folder, path)
}

#[test]
fn the_exit_status_is_the_programs() {
    for status in [0, 1, 7, 125, 126, 127, 255] {
        let output = output(&["--", "sh", "-c", &format!("exit {status}")]);
        assert_eq!(output.status.code(), Some(status));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn a_signal_that_ends_the_program_ends_forebay() {
    for signal in [1, 2, 3, 6, 9, 11, 13, 15, 34] {
        let kill = format!("kill -{signal} $$");
        let output = output(&["--", "sh", "-c", &kill]);
        assert_eq!((output.status.signal(), output.status.core_dumped()), (Some(signal), false));
        assert!(output.stderr.is_empty(), "{:?}", String::from_utf8_lossy(&output.stderr));
        // A shell has the same status, and says the same ("Killed").
        let (with, without) = with_and_without_shell(&kill);
        assert_eq!(with, without, "signal {signal}");
        assert_eq!(with.0, format!("{}\n", 128 + signal));
    }
}

/// What a shell prints and says of a shell that runs `script`, with and without forebay.
fn with_and_without_shell(script: &str) -> ((String, String), (String, String)) {
    let shell = |prefix: &str| {
        let whole = format!("ulimit -c 0; {prefix} sh -c '{script}'; echo $?");
        let output = Command::new("sh").args(["-c", &whole]).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).into()
    };
    (shell(&format!("{FOREBAY} run --")), shell(""))
}

#[test]
fn signals_sent_to_forebay_reach_the_program() {
    for (name, number) in [("TERM", 15), ("HUP", 1), ("USR1", 10), ("USR2", 12), ("INT", 2), ("ALRM", 14)] {
        let script = format!("trap 'echo got; exit 3' {name}; echo ready; while :; do sleep 0.02; done");
        let mut child = forebay(&["--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::from_named_raw(number).unwrap()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "got", "{name}");
        assert_eq!(child.wait().unwrap().code(), Some(3), "{name}");
    }
}

#[test]
fn forebay_stops_and_goes_on_with_the_program() {
    let mut child = forebay(&["--", "sh", "-c", "echo $$; kill -STOP $$; echo on"])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().parse::<u32>().is_ok());
    let state =
        |pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().split(' ').nth(2).unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(20);
    while state(child.id()) != "T" {
        assert!(Instant::now() < deadline, "forebay does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "on");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn signal_dispositions_and_mask_are_those_that_forebay_was_given() {
    let (with, without) = with_and_without("grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status");
    assert_eq!(with, without);
    let (with, without) =
        with_and_without("trap '' PIPE CHLD USR1; exec grep -E '^Sig(Blk|Ign)' /proc/self/status");
    assert_eq!(with, without);
    // The same for forebay itself: it inherits what the shell ignores.
    for ignored in ["PIPE", "CHLD", "INT USR2", "HUP"] {
        let shell = |prefix: &str| {
            let script =
                format!("trap '' {ignored}; exec {prefix} grep -E '^Sig(Blk|Ign)' /proc/self/status");
            Command::new("sh").args(["-c", &script]).output().unwrap()
        };
        let (with, without) = (shell(&format!("{FOREBAY} run --")), shell(""));
        assert_eq!(with.status.code(), Some(0), "{ignored}");
        assert_eq!(String::from_utf8(with.stdout), String::from_utf8(without.stdout), "{ignored}");
    }
}

#[test]
fn a_broken_pipe_ends_the_program_and_not_its_output() {
    let script = format!(
        "{FOREBAY} run -- yes | head -n 1; {FOREBAY} run -- sh -c 'yes; echo status $? >&2' | head -n 1"
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "y\ny\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "status 141\n");
}

#[test]
fn no_descriptor_limit_or_variable_of_ours_reaches_the_program() {
    for script in
        ["ls /proc/self/fd", "ulimit -a", "env | grep -v ^_=", "umask; pwd; nice", "cat /proc/self/cmdline"]
    {
        let (with, without) = with_and_without(script);
        assert_eq!(with, without, "{script}");
        assert!(!with.is_empty(), "{script}");
    }
}

#[test]
fn the_users_own_preload_and_odd_variables_stay() {
    let script = "env | grep -v ^_= | sort; sh -c 'env | grep -v ^_= | sort'";
    let run = |mut command: Command| {
        let output =
            command.env("LD_PRELOAD", "/nowhere.so").env("A", "").env("B", "x=y\nz").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut plain = Command::new("sh");
    plain.args(["-c", script]);
    let with = run(forebay(&["--", "sh", "-c", script]));
    assert_eq!(with, run(plain));
    assert!(with.contains("LD_PRELOAD=/nowhere.so\n"));
}

#[test]
fn closed_standard_descriptors_stay_closed() {
    let run = |prefix: &str| {
        let script = format!("exec {prefix} sh -c 'ls /proc/$$/fd >&2' <&- >&-");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&format!("{FOREBAY} run --")), run(""));
}

#[test]
fn a_file_size_limit_is_the_programs_and_not_ours() {
    let script = format!("ulimit -S -f 8; {FOREBAY} run -- sh -c 'ulimit -f'");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "8\n");
}

#[test]
fn scripts_run_with_and_without_an_interpreter_line() {
    for text in ["#!/bin/sh\necho \"$@\"\n", "echo \"$@\"\n"] {
        let (_folder, path) = scratch("script", text, "755");
        let output = output(&["--", path.to_str().unwrap(), "a", "b c"]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a b c\n");
    }
}

#[test]
fn path_is_searched_as_a_shell_searches_it() {
    let (first, _) = scratch("prog", "#!/bin/sh\necho wrong\n", "644");
    let (second, _) = scratch("prog", "#!/bin/sh\necho right\n", "755");
    let path = format!("/nowhere:{}:{}:/bin:/usr/bin", first.path().display(), second.path().display());
    let output = forebay(&["--", "prog"]).env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "right\n");
}

#[test]
fn a_command_that_cannot_be_run_is_named_with_a_remedy() {
    let (_a, text) = scratch("plain", "echo no\n", "644");
    let (_b, binary) = scratch("binary", "\x7fELF\0\0\0\0", "755");
    let (_c, orphan) = scratch("orphan", "#!/nowhere/interpreter\n", "755");
    let cases = [
        ("no-such-command", 127, "'no-such-command' was not found in PATH; check the spelling"),
        ("./no/such/file", 127, "'./no/such/file' does not exist; check the path"),
        ("/tmp", 126, "'/tmp' is a folder; name a program in it"),
        (text.to_str().unwrap(), 126, "is not executable (Permission denied); allow it with: chmod +x"),
        (binary.to_str().unwrap(), 126, "cannot be executed (Exec format error); run a program made for"),
        (orphan.to_str().unwrap(), 127, "needs '/nowhere/interpreter', which does not exist; install it"),
    ];
    for (command, status, sentence) in cases {
        let (code, said) = refusal(&["--", command]);
        assert_eq!(code, Some(status), "{command}: {said}");
        assert!(
            said.starts_with("forebay: ") && said.contains(sentence) && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn a_command_line_without_sense_is_our_failure() {
    for (arguments, word) in [(&[][..], "<CMD>"), (&["--nosuch", "--", "true"][..], "--nosuch")] {
        let (code, said) = refusal(arguments);
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains(word) && said.contains("--help"), "{said}");
    }
    let output = Command::new(FOREBAY).arg("nosuch").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_json_path_that_cannot_be_written_is_told_before_the_program_starts() {
    let (code, said) = refusal(&["--json", "/nowhere/x.json", "--", "echo", "ran"]);
    assert_eq!(code, Some(125));
    assert!(
        said.contains("cannot write results to '/nowhere/x.json' (No such file or directory); name a file"),
        "{said}"
    );
    assert!(output(&["--json", "/nowhere/x.json", "--", "echo", "ran"]).stdout.is_empty());
}

#[test]
fn a_missing_agent_is_told_with_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let lonely = folder.path().join("forebay");
    assert!(Command::new("cp").arg(FOREBAY).arg(&lonely).status().unwrap().success());
    let output = Command::new(&lonely).args(["run", "--", "echo", "ran"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0));
    let beside = folder.path().join("libforebay_agent.so");
    assert!(
        said.contains(&format!("'{}'", beside.display()))
            && said.contains("build it with `make`, or install forebay anew"),
        "{said}"
    );
}

#[test]
fn without_room_for_shared_memory_the_program_runs_alone() {
    // Less address space than the shared memory takes.
    for (options, is_told) in [("", false), ("--stats", true)] {
        let script = format!("ulimit -v 98000; exec {FOREBAY} run {options} -- sh -c 'echo ran; exit 4'");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(4), &b"ran\n"[..]), "{said}");
        assert_eq!(said.contains("no shared memory") && said.contains("ulimit"), is_told, "{said}");
        assert_eq!(said.is_empty(), !is_told, "{said}");
    }
}

#[test]
fn statistics_go_to_standard_error_and_as_json_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    let output = output(&["--stats", "--json", json.to_str().unwrap(), "--", "sh", "-c", "echo out; exit 4"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(4), &b"out\n"[..]));
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(table.starts_with("forebay: sh ran for ") && table.contains("\ntotal "), "{table}");
    let report: forebay_results::Report = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report.schema, forebay_results::SCHEMA);
    assert!(report.command.starts_with("forebay run --stats --json "));
    let elapsed = report.rows.iter().find(|row| row.metric == "elapsed").unwrap();
    assert_eq!((elapsed.subject.as_str(), elapsed.case.as_str()), ("sh", "total"));
}

#[test]
fn statistics_tell_which_signal_ended_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    let output = output(&["--stats", "--json", json.to_str().unwrap(), "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(table.starts_with("forebay: sh was ended by signal 15 (SIGTERM) after "), "{table}");
    let report: forebay_results::Report = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let value = |metric: &str| report.rows.iter().find(|row| row.metric == metric).unwrap().value;
    assert_eq!(
        (value("exit_status"), value("ended_by_signal"), value("killed_for_memory")),
        (143.0, 15.0, 0.0)
    );
}

#[test]
fn a_program_that_never_stalls_has_no_figure_of_0_where_nothing_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    for command in [&["ls", "/"][..], &["sh", "-c", "ls /; ls /"]] {
        let arguments = [&["--stats", "--json", json.to_str().unwrap(), "--"], command].concat();
        let said = String::from_utf8(output(&arguments).stderr).unwrap();
        let report: forebay_results::Report =
            serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let value = |metric: &str| {
            report.rows.iter().find(|row| row.case == "total" && row.metric == metric).map(|row| row.value)
        };
        assert!(value("minor_faults").is_some_and(|count| count > 0.0), "{said}");
        assert!(value("max_rss").is_none_or(|bytes| bytes > 100e3), "{said}");
        assert!(!said.contains("max RSS 0 B") && said.contains("\nprogram      max RSS "), "{said}");
    }
}

#[test]
fn json_of_a_program_that_never_ran_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    assert_eq!(refusal(&["--json", json.to_str().unwrap(), "--", "no-such-command"]).0, Some(127));
    assert!(!json.exists());
}

/// Its main thread's wake-ups in two seconds, as told by a program whose memory is large enough for its page faults to be
/// looked at: about ten a second, wherever the machine is busy fewer.
#[test]
fn forebay_sleeps_while_a_large_program_has_no_need_of_it() {
    let program = r#"
        sub wakes {
            open my $status, "<", "/proc/" . getppid . "/status" or die;
            (join "", <$status>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m or die;
            return $1;
        }
        my $memory = "x" x (32 << 20);
        my $before = wakes;
        sleep 2;
        print wakes() - $before;
    "#;
    let output = output(&["--", "perl", "-e", program]);
    let wakes: u32 = String::from_utf8(output.stdout).unwrap().parse().unwrap();
    assert!((1..50).contains(&wakes), "{wakes} wake-ups in two seconds");
}

/// A process that has ended stays visible until its parent reaps it. In a container the first process is forebay.
#[test]
fn the_first_process_of_a_namespace_reaps_orphans() {
    let zombies = r#"sh -c "sleep 0.1 &"; sleep 1; grep -l "^State:.Z" /proc/[0-9]*/status"#;
    let namespace = ["--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare")
        .args(namespace)
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return skip("the_first_process_of_a_namespace_reaps_orphans", "only root may make a namespace");
    }
    let output = Command::new("unshare")
        .args(namespace)
        .args([FOREBAY, "run", "--", "sh", "-c", zombies])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{output:?}");
}

#[test]
fn forebay_returns_when_the_program_does_and_not_when_its_children_do() {
    let mut child = forebay(&["--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]);
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let status = child.wait().unwrap();
    assert!(status.signal().is_none());
    let mut sleeper = String::new();
    child.stdout.take().unwrap().read_to_string(&mut sleeper).unwrap();
    let pid = rustix::process::Pid::from_raw(sleeper.trim().parse().unwrap()).unwrap();
    // It still sleeps: there is a process to end.
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}
