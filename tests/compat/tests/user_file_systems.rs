//! Programs on file systems that processes of users serve (FUSE): they find and copy the same with and without hints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_compat::guests::build;
use forebay_compat::mounted::{Mounted, launch, remote};
use forebay_compat::run::{Side, find_program};
use forebay_compat::{Scratch, in_some_run, root, scratch, skip};

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// Folders, files of several sizes, a link and an empty folder.
fn fill(folder: &Path) {
    for number in 0..4 {
        let folder = folder.join("tree").join(format!("folder{number}"));
        fs::create_dir_all(folder.join("empty")).expect("make a folder");
        for file in 0..60usize {
            let content = format!("{file} of {number}\n").repeat(1 + file * 7 % 900);
            fs::write(folder.join(format!("file{file}")), content).expect("write a file");
        }
        std::os::unix::fs::symlink("file1", folder.join("link")).expect("make a link");
    }
}

/// What a file system is made of: folders of the test.
struct Folders {
    /// The files, of all file systems that show some which lie elsewhere.
    files: PathBuf,
    /// Anything.
    aside: PathBuf,
    at: PathBuf,
}

/// Lists, searches, archives and copies a tree on a file system, which `mount` mounts anew for each side.
fn is_the_same(test: &str, tools: &[&str], mount: impl Fn(&Folders) -> Mounted) {
    if !root() {
        return skip(test, "only root may mount");
    }
    if let Some(tool) = tools.iter().find(|tool| find_program(tool.as_ref()).is_none()) {
        return skip(test, format!("{tool} is not installed: run `scripts/setup test`"));
    }
    let place = Scratch::fresh(scratch::base().join(format!("{test}-files")));
    let [files, aside, at] = ["files", "aside", "mounted"].map(|name| place.path().join(name));
    for folder in [&files, &aside, &at] {
        fs::create_dir(folder).expect("make a folder");
    }
    fill(&files);
    let folders = Folders { files, aside, at };
    let tree = folders.at.join("tree").display().to_string();
    let commands = [
        format!("find {tree} -printf '%P %y %m %s %T@ %l\\n' | sort"),
        format!("grep -rc 7 {tree} | sort"),
        format!("tar cf - --sort=name -C {tree} . | md5sum"),
        format!("cp -r {tree} copy"),
        format!("ls -lR {tree} | md5sum"),
    ];
    for command in &commands {
        let [without, with] = [Side::Without, Side::With].map(|side| {
            let _mounted = mount(&folders);
            launch(&Scratch::fresh(scratch::base().join(test)), side, &["sh", "-c", command])
        });
        assert_eq!(
            (
                without.status,
                String::from_utf8_lossy(&without.stdout),
                String::from_utf8_lossy(&without.stderr)
            ),
            (with.status, String::from_utf8_lossy(&with.stdout), String::from_utf8_lossy(&with.stderr)),
            "{command}"
        );
        assert_eq!(without.status, 0, "{command}");
        assert_eq!(without.tree, with.tree, "{command}");
    }
}

#[test]
fn bindfs_is_the_same() {
    is_the_same("bindfs_is_the_same", &["bindfs"], |folders| {
        Mounted::by(Command::new("bindfs").args([&folders.files, &folders.at]), &folders.at)
    });
}

#[test]
fn mergerfs_is_the_same() {
    is_the_same("mergerfs_is_the_same", &["mergerfs"], |folders| {
        let branches = format!("{}:{}", folders.files.display(), folders.aside.display());
        Mounted::by(Command::new("mergerfs").arg(branches).arg(&folders.at), &folders.at)
    });
}

#[test]
fn sshfs_is_the_same() {
    is_the_same("sshfs_is_the_same", &["sshfs", SFTP_SERVER], |folders| {
        // What would connect to another machine serves this one.
        let connect = folders.aside.join("connect");
        forebay_testkit::script(&connect, &format!("#!/bin/sh\nexec {SFTP_SERVER}\n"));
        let mut command = Command::new("sshfs");
        command.arg("-o").arg(format!("ssh_command={}", connect.display()));
        command.arg(format!("nowhere:{}", folders.files.display())).arg(&folders.at);
        Mounted::by(&mut command, &folders.at)
    });
}

#[test]
fn rclone_is_the_same() {
    is_the_same("rclone_is_the_same", &["rclone", "fusermount3"], |folders| {
        let mut command = Command::new("rclone");
        command.args(["mount", "--daemon", "--config", "/dev/null", "--cache-dir"]).arg(&folders.aside);
        command.arg(&folders.files).arg(&folders.at);
        Mounted::by(&mut command, &folders.at)
    });
}

#[test]
fn gocryptfs_is_the_same() {
    is_the_same("gocryptfs_is_the_same", &["gocryptfs"], |folders| {
        let gocryptfs = || {
            let mut command = Command::new("gocryptfs");
            command.args(["-q", "-extpass", "echo password"]);
            command
        };
        let is_new = !folders.aside.join("gocryptfs.conf").exists();
        if is_new {
            let made =
                gocryptfs().args(["-init", "-scryptn", "10"]).arg(&folders.aside).output().expect("start it");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let mounted = Mounted::by(gocryptfs().args([&folders.aside, &folders.at]), &folders.at);
        if is_new {
            fill(&folders.at);
        }
        mounted
    });
}

/// It fails for what was written, and the descriptor is free: of another thread's file, if that has opened one.
#[test]
fn a_close_that_fails_is_made_once() {
    const NAME: &str = "a_close_that_fails_is_made_once";
    let files = |root: &Path| {
        for number in 0..160 {
            fs::write(root.join(format!("file{number}")), [number; 4096]).expect("write a file");
        }
        fs::write(root.join("full"), "").expect("write a file");
    };
    let Some(disk) = remote(NAME, files) else { return };
    let guest = build("close_fails");
    let argv = [guest.as_path(), disk.mount_point()].map(|path| path.to_str().expect("a path in UTF-8"));
    let _ = in_some_run(|| {
        let [without, with] = [Side::Without, Side::With].map(|side| {
            disk.make_cold().expect("make the disk cold");
            launch(&Scratch::fresh(scratch::base().join(NAME)), side, &argv)
        });
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&without.stdout), text(&with.stdout));
        assert!(
            text(&without.stdout).contains("close -1 No space left on device"),
            "{}",
            text(&without.stdout)
        );
        with.wanted(|with| with.figure("forks") > 0.0)
    });
}
