//! `forebay evaluate corpus` as its user sees it: the list, a wrong name, and nothing left after Ctrl-C.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use forebay_testkit::skip;
use rustix::process::{Pid, Signal, kill_process_group};

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["evaluate", "corpus"]).args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    forebay(arguments).output().unwrap()
}

#[test]
fn the_list_fits_a_terminal_and_names_what_is_to_be_installed() {
    let listed = output(&["--list", "--tools", "packages"]);
    assert!(listed.status.success());
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("| ")).count();
    assert!(lines > 60, "{text}");
    for part in
        ["grep-r", "apt-get install", "packages/python/bin/pip install", "npm install --prefix packages/node"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_name_that_is_not_in_the_list_is_refused() {
    let refused = output(&["--only", "no-such-program"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--list prints all"));
}

#[test]
fn nothing_is_mounted_after_an_interrupt() {
    let test = "nothing_is_mounted_after_an_interrupt";
    if !rustix::process::geteuid().is_root() || !fs::exists("/dev/fuse").unwrap() {
        return skip(test, "there is no slow disk without root and FUSE");
    }
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(test, "there is no strace");
    }
    // A process group of its own, as a terminal gives to each command.
    let mut running = forebay(&["--only", "tar-create", "--runs", "50"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let rig = format!("/forebay-rig.{}.", running.id());
    let has_rig = || fs::read_to_string("/proc/mounts").unwrap().contains(&rig);
    let started = Instant::now();
    while !has_rig() {
        assert!(started.elapsed() < PATIENCE && running.try_wait().unwrap().is_none(), "there is no disk");
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = Pid::from_raw(running.id() as i32).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    let status = loop {
        assert!(started.elapsed() < PATIENCE, "it goes on after an interrupt");
        match running.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(status.code(), Some(1));
    assert!(!has_rig());
}
