//! `scripts/setup` beside another package manager: it waits for each of apt's locks, says so, and does not wait for ever.
//!
//! apt works in a folder of its own here, so this machine's packages and locks are not touched.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_tidy::workspace::Workspace;
use rustix::fs::{FlockOperation, fcntl_lock};
use tempfile::TempDir;

/// What each command of apt-get locks.
const LOCKS: &[(&str, &str)] = &[
    ("update", "state/lists/lock"),
    ("install", "dpkg/lock-frontend"),
    ("install", "dpkg/lock"),
    ("install", "cache/archives/lock"),
];

#[test]
fn set_up_waits_while_another_package_manager_holds_a_lock() {
    let Some(apt) = apt("set_up_waits_while_another_package_manager_holds_a_lock") else { return };
    for (command, lock) in LOCKS {
        let held = hold(apt.path(), lock);
        let mut child = start(apt.path(), "", command);
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let expected =
            format!("setup: waiting for another package manager (process {}, ", std::process::id());
        assert!(line.starts_with(&expected), "{lock}: {line}");
        drop(held);
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{lock}: {rest}");
        assert_eq!(rest, "", "{lock}");
    }
}

#[test]
fn set_up_gives_up_when_a_lock_is_held_for_too_long() {
    let Some(apt) = apt("set_up_gives_up_when_a_lock_is_held_for_too_long") else { return };
    for (command, lock) in LOCKS {
        let _held = hold(apt.path(), lock);
        let output = start(apt.path(), "LOCK_PATIENCE_SECONDS=0", command).wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("Could not get lock {}", apt.path().join(lock).display())), "{said}");
    }
}

#[test]
fn set_up_waits_for_nothing_else_that_fails() {
    let Some(apt) = apt("set_up_waits_for_nothing_else_that_fails") else { return };
    let output = start(apt.path(), "", "no-such-command").wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("E: Invalid operation no-such-command"), "{said}");
}

/// A folder in which apt knows no packages and no sources; none where there is no apt.
fn apt(test: &str) -> Option<TempDir> {
    if !Command::new("apt-get").arg("--version").output().is_ok_and(|output| output.status.success()) {
        forebay_testkit::skip(test, "apt-get is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["etc/parts", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "dpkg", "log"]
    {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    for name in ["etc/sources.list", "dpkg/status"] {
        File::create(folder.path().join(name)).unwrap();
    }
    let root = folder.path().display();
    let settings = format!(
        "Dir::Etc \"{root}/etc\";\nDir::Etc::parts \"{root}/etc/parts\";\nDir::State \"{root}/state\";\n\
         Dir::State::status \"{root}/dpkg/status\";\nDir::Cache \"{root}/cache\";\nDir::Log \"{root}/log\";\n\
         APT::Sandbox::User \"root\";\n"
    );
    fs::write(folder.path().join("apt.conf"), settings).unwrap();
    Some(folder)
}

/// Holds a lock of apt's until what is returned is dropped.
fn hold(folder: &Path, lock: &str) -> File {
    let file = File::options().create(true).truncate(false).write(true).open(folder.join(lock)).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

/// Starts `apt_get COMMAND` of scripts/setup after `before`, for a minute at most.
fn start(folder: &Path, before: &str, command: &str) -> Child {
    let script = Workspace::load().root.join("scripts/setup");
    let lines =
        format!("source '{}'; as_root() {{ \"$@\"; }}; {before}\napt_get {command}", script.display());
    let mut bash = Command::new("timeout");
    bash.args(["60", "bash", "-c", &lines]).env("APT_CONFIG", folder.join("apt.conf"));
    bash.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}
