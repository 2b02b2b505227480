//! `forebay profile`: what runs left is listed, shown, removed, packed and merged. Needs the agent library beside the test's
//! build: `cargo build -p forebay-agent --profile agent`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use forebay_profile::Pack;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// A user with a home, and a folder of files on a disk.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let agent = Path::new(FOREBAY).parent().unwrap().join("../agent/libforebay_agent.so");
        assert!(agent.is_file(), "build the agent first: cargo build -p forebay-agent --profile agent");
        let user = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        fs::create_dir(user.at("files")).unwrap();
        fs::write(user.at("files/one"), [1; 9_000]).unwrap();
        fs::write(user.at("files/two"), [2; 100_000]).unwrap();
        user
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(FOREBAY);
        command.args(arguments).stdin(Stdio::null()).current_dir(self.at("files"));
        command.env("HOME", self.folder.path()).env_remove("XDG_STATE_HOME").env_remove("COLUMNS");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command whose profile is there when this returns.
    #[track_caller]
    fn record(&self, command: &[&str]) {
        let output = self.output(&[&["run", "--stats", "--"], command].concat());
        assert!(output.status.success(), "{output:?}");
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit status and standard error of one that fails.
    fn refusal(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.output(arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    fn packed(&self, arguments: &[&str]) -> Pack {
        let output = self.output(arguments);
        Pack::decode(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }
}

fn paths(pack: &Pack) -> Vec<String> {
    pack.entries().iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

#[test]
fn what_runs_left_is_listed_and_shown() {
    let user = User::new();
    assert!(user.said(&["profile", "list"]).starts_with("There are no profiles"));
    user.record(&["cat", "one"]);
    user.record(&["cat", "one"]);
    user.record(&["cat", "two", "one"]);
    let list = user.said(&["profile", "list"]);
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    for command in ["  cat one\n", "  cat two one\n", "  cat one ...\n", "  cat two ...\n", "  cat ...\n"] {
        assert!(list.contains(command), "{command}: {list}");
    }
    let runs = |line: &str| list.lines().find(|told| told.ends_with(line)).unwrap().trim()[..1].to_owned();
    assert_eq!((runs("  cat one"), runs("  cat ...")), ("2".into(), "3".into()), "{list}");

    let json: serde_json::Value =
        serde_json::from_str(&user.said(&["profile", "list", "--json", "-"])).unwrap();
    assert_eq!(json["profiles"].as_array().unwrap().len(), 5, "{json}");
    assert_eq!(json["off"], false);

    let shown = user.said(&["profile", "show", "--", "cat", "one"]);
    assert!(shown.starts_with("cat one, in /"), "{shown}");
    assert!(shown.contains("2 runs") && shown.contains("files/one"), "{shown}");
    assert!(shown.lines().skip(1).all(|line| line.chars().count() <= 80), "{shown}");
    let json = user.said(&["profile", "show", "--json", "-", "--", "cat", "one"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let files = json["files"].as_array().unwrap();
    let one = files.iter().find(|file| file["name"].as_str().unwrap().ends_with("/files/one")).unwrap();
    assert_eq!(one["bytes"], 9_000, "{json}");
}

#[test]
fn what_is_forgotten_is_gone_and_nothing_is_left_while_profiles_are_off() {
    let user = User::new();
    let count = || {
        let json: serde_json::Value =
            serde_json::from_str(&user.said(&["profile", "list", "--json", "-"])).unwrap();
        json["profiles"].as_array().unwrap().len()
    };
    let path = user.said(&["profile", "path"]);
    assert_eq!(Path::new(path.trim_end()), user.folder.path().join(".local/state/forebay/profiles"));
    user.record(&["cat", "one"]);
    user.record(&["cat", "two"]);
    assert_eq!(count(), 5);
    user.said(&["profile", "forget", "--", "cat", "one"]);
    assert_eq!(count(), 2, "also the one of all that cat does");
    let (status, said) = user.refusal(&["profile", "forget", "--", "cat", "one"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("has no profile; 'forebay profile list'"), "{said}");

    user.said(&["profile", "off"]);
    user.record(&["cat", "one"]);
    assert_eq!(count(), 2);
    assert!(user.said(&["profile", "list"]).starts_with("Profiles are off"));
    user.said(&["profile", "on"]);
    user.record(&["cat", "one"]);
    assert_eq!(count(), 5);
    user.said(&["profile", "forget", "--all"]);
    assert_eq!(count(), 0);
}

#[test]
fn what_cannot_be_had_is_told_with_a_remedy() {
    let user = User::new();
    for (arguments, status, part) in [
        (&["profile", "show", "--", "cat", "one"][..], 1, "make one with: forebay run -- cat one"),
        (&["profile", "show", "--", "no-such-command"], 1, "no-such-command"),
        (&["profile", "pack", "--last"], 1, "make one with: forebay run"),
        (&["profile", "pack", "--", "no-such-command"], 127, "no-such-command"),
        (&["profile", "pack", "--root", "/nowhere", "--", "cat", "one"], 125, "name a folder with --root"),
        (
            &["profile", "pack", "--root", "/root/..//proc", "--", "cat", "one"],
            125,
            "another folder with --root",
        ),
        (&["profile", "pack", "-o", "/nowhere/x", "--", "cat", "one"], 125, "/nowhere/x"),
        (&["profile", "merge", "one"], 1, "make it anew with 'forebay profile pack'"),
        (&["profile", "merge", "missing"], 1, "name a file that 'forebay profile pack' made"),
    ] {
        let (found, said) = user.refusal(arguments);
        assert_eq!(found, Some(status), "{arguments:?}: {said}");
        assert!(said.contains(part) && said.lines().count() <= 1 + usize::from(status == 125), "{said}");
    }
    let homeless = user.command(&["profile", "list"]).env_remove("HOME").output().unwrap();
    assert_eq!(homeless.status.code(), Some(1));
    assert!(String::from_utf8(homeless.stderr).unwrap().contains("set HOME"));
}

#[test]
fn a_pack_goes_where_the_program_does_not_write_and_the_exit_status_is_the_programs() {
    let user = User::new();
    let root = user.at("files");
    let root = root.to_str().unwrap();
    let script = "cat one; exit 3";
    let output = user.output(&["profile", "pack", "--root", root, "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(3));
    assert!(paths(&Pack::decode(&output.stdout).unwrap()).contains(&"/one".into()));
    assert!(output.stderr.windows(9_000).any(|part| part == [1; 9_000]), "what the program printed");

    let file = user.at("app.profile");
    let name = file.to_str().unwrap();
    let output = user.output(&["profile", "pack", "--root", root, "-o", name, "--", "sh", "-c", script]);
    assert_eq!((output.status.code(), output.stdout), (Some(3), vec![1; 9_000]));
    assert!(paths(&Pack::decode(&fs::read(&file).unwrap()).unwrap()).contains(&"/one".into()));

    let killed = user.output(&["profile", "pack", "--root", root, "--", "sh", "-c", "cat one; kill -9 $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
    assert!(paths(&Pack::decode(&killed.stdout).unwrap()).contains(&"/one".into()));
}

#[test]
fn packs_are_made_of_profiles_merged_and_cut_off() {
    let user = User::new();
    let root = user.at("files");
    let root = root.to_str().unwrap();
    user.record(&["cat", "one"]);
    let last = user.packed(&["profile", "pack", "--last", "--root", root]);
    assert_eq!(paths(&last), ["/one"]);
    let link = user.at("link");
    std::os::unix::fs::symlink(root, &link).unwrap();
    let by_link = user.packed(&["profile", "pack", "--last", "--root", link.to_str().unwrap()]);
    assert_eq!(by_link.entries(), last.entries());

    fs::write(user.at("first"), last.encode()).unwrap();
    let two = user.packed(&["profile", "pack", "--root", root, "--", "cat", "two"]);
    fs::write(user.at("second"), two.encode()).unwrap();
    let merged = user.packed(&["profile", "merge", "../first", "../second"]);
    assert_eq!(paths(&merged), ["/one", "/two"]);
    assert_eq!(merged.costs().total.bytes, 109_000);
    let cut = user.packed(&["profile", "merge", "--max", "64K", "../first", "../second"]);
    assert_eq!(paths(&cut), ["/one", "/two"], "all look-ups stay");
    assert!(cut.costs().total.bytes <= 64 << 10);
}
