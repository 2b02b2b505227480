//! A program finds its files in the folder that is its root, from the moment at which its gate opens.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_lab::root::{Base, Root};
use forebay_lab::{Profile, SlowDevice, SlowDisk, cold};
use forebay_testkit::skip;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;

/// A folder with a program that needs no other file, and all that a root needs. Says why and returns nothing where there can be no
/// root.
fn folder(test: &str) -> Option<TempDir> {
    if let Err(error) = SlowDevice::supported() {
        skip(test, &error);
        return None;
    }
    let Some(program) = ["/usr/bin/busybox", "/bin/busybox"].iter().find(|path| Path::new(path).exists())
    else {
        skip(test, "there is no busybox");
        return None;
    };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["proc", "dev", "sys", "tmp", "mnt"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    forebay_testkit::copy_program(program, folder.path().join("busybox"));
    Some(folder)
}

fn root(base: Base) -> Root {
    Root { base, folders: Vec::new(), working_folder: "/mnt".into() }
}

/// What `script` prints in `root`.
fn said(root: &Root, script: &str) -> String {
    let program = ["/busybox", "sh", "-c", script].map(OsString::from);
    let environment = [("NAME".into(), "value".into())];
    let (mut command, gate) = root.command(&program, &environment).unwrap();
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    gate.wait().unwrap();
    gate.open().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mounts").unwrap()
}

#[test]
fn a_program_sees_its_folder_and_no_other_mount() {
    let Some(folder) = folder("a_program_sees_its_folder_and_no_other_mount") else { return };
    let seen = said(
        &root(Base::Folder(folder.path().into())),
        "/busybox ls / | /busybox tr '\\n' ' '; pwd; echo $NAME",
    );
    assert_eq!(seen, "busybox dev mnt proc sys tmp /mnt\nvalue");
    let points =
        said(&root(Base::Folder(folder.path().into())), "/busybox awk '{ print $5 }' /proc/self/mountinfo");
    let is_expected = |point: &str| {
        ["/", "/tmp"].contains(&point) || ["/proc", "/dev", "/sys"].iter().any(|of| point.starts_with(of))
    };
    assert!(points.lines().all(is_expected), "{points}");
    assert!(!mounts().contains(folder.path().to_str().unwrap()));
}

#[test]
fn what_is_written_to_an_overlay_is_gone_with_it() {
    let Some(folder) = folder("what_is_written_to_an_overlay_is_gone_with_it") else { return };
    let overlay = root(Base::Overlay(folder.path().into()));
    assert_eq!(
        said(&overlay, "echo text > file; /busybox cat file; /busybox grep -c ' / / ' /proc/self/mountinfo"),
        "text\n1"
    );
    assert!(!folder.path().join("mnt/file").exists());
}

#[test]
fn folders_are_seen_where_they_are_put() {
    let Some(folder) = folder("folders_are_seen_where_they_are_put") else { return };
    let other = tempfile::tempdir_in("/var/tmp").unwrap();
    let base = Base::Folder(folder.path().into());
    let with = Root { folders: vec![(other.path().into(), "/mnt".into())], ..root(base) };
    said(&with, "echo text > file");
    assert_eq!(fs::read_to_string(other.path().join("file")).unwrap(), "text\n");
    assert_eq!(fs::read_dir(folder.path().join("mnt")).unwrap().count(), 0);
}

#[test]
fn a_program_is_not_executed_while_its_gate_is_shut() {
    let Some(folder) = folder("a_program_is_not_executed_while_its_gate_is_shut") else { return };
    let program = ["/busybox", "touch", "made"].map(OsString::from);
    let (mut command, gate) = root(Base::Folder(folder.path().into())).command(&program, &[]).unwrap();
    let mut child = command.spawn().unwrap();
    gate.wait().unwrap();
    let name = fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    assert_ne!(name.trim(), "busybox");
    assert!(!folder.path().join("mnt/made").exists());
    gate.open().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(folder.path().join("mnt/made").exists());
}

#[test]
fn a_gate_that_is_dropped_lets_nothing_through() {
    let Some(folder) = folder("a_gate_that_is_dropped_lets_nothing_through") else { return };
    let program = ["/busybox", "touch", "made"].map(OsString::from);
    let (mut command, gate) = root(Base::Folder(folder.path().into())).command(&program, &[]).unwrap();
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // The socket's other end is the command's until then.
    drop(command);
    drop(gate);
    assert!(!child.wait().unwrap().success());
    assert!(!folder.path().join("mnt/made").exists());
}

#[test]
fn a_root_that_cannot_be_had_is_told_at_the_gate() {
    let Some(_folder) = folder("a_root_that_cannot_be_had_is_told_at_the_gate") else { return };
    let missing = root(Base::Folder(PathBuf::from("/no/such/folder")));
    let (mut command, gate) = missing.command(&["/busybox".into()], &[]).unwrap();
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let error = gate.wait().unwrap_err().to_string();
    assert!(error.contains("/no/such/folder"), "{error}");
    assert_eq!(child.wait().unwrap().code(), Some(125));
}

#[test]
fn a_disk_is_cold_while_another_namespace_has_it() {
    let test = "a_disk_is_cold_while_another_namespace_has_it";
    let Some(_folder) = folder(test) else { return };
    let disk = SlowDisk::start(Profile::Nvme, 128 * MIB).unwrap();
    let file = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&file, vec![7; MIB as usize])).unwrap().unwrap();
    let other = Command::new("unshare")
        .args(["--mount", "sh", "-c", "echo ready; read -r line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut other) = other else { return skip(test, "there is no unshare") };
    let mut ready = [0; 6];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let started = Instant::now();
    disk.make_cold().unwrap();
    assert!(started.elapsed() < PATIENCE);
    assert_eq!(cold::resident_pages(&file).unwrap(), Some(0));
    drop(other.stdin.take());
    other.wait().unwrap();
}
