//! `forebay` is two programs: what runs other programs is small, and becomes the other one for all else.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use object::{Object, ObjectSegment};

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");
const COMMANDS: &str = env!("CARGO_BIN_EXE_forebay-commands");

/// What the kernel may map of it.
fn loaded(program: &str) -> u64 {
    let content = fs::read(program).unwrap();
    let file = object::File::parse(&*content).unwrap();
    file.segments().map(|segment| segment.file_range().1).sum()
}

fn output(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn what_stays_beside_a_program_is_a_small_part_of_all() {
    let (front, all) = (loaded(FOREBAY), loaded(COMMANDS));
    assert!(front * 3 < all, "{front} and {all} bytes");
}

#[test]
fn without_the_other_one_programs_run_and_commands_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let lonely = target.join("debug/forebay");
    fs::create_dir_all(target.join("debug")).unwrap();
    fs::create_dir(target.join("agent")).unwrap();
    forebay_testkit::copy_program(FOREBAY, &lonely);
    let agent = Path::new(FOREBAY).parent().unwrap().join("../agent/libforebay_agent.so");
    fs::copy(agent, target.join("agent/libforebay_agent.so")).unwrap();

    let run = output(&lonely, &["run", "--", "echo", "ran"]);
    assert_eq!((run.status.code(), &*run.stdout), (Some(0), &b"ran\n"[..]));
    for (arguments, status) in [(&["doctor"][..], 1), (&[], 1), (&["run", "--nosuch", "--", "true"], 125)] {
        let run = output(&lonely, arguments);
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(status), "{arguments:?}: {said}");
        let place = target.join("debug/forebay-commands");
        assert!(said.contains(&format!("is missing (looked for '{}'", place.display())), "{said}");
    }
}

#[test]
fn both_are_forebay_to_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let alias = folder.path().join("alias");
    std::os::unix::fs::symlink(FOREBAY, &alias).unwrap();
    for program in [Path::new(FOREBAY), Path::new(COMMANDS), &alias] {
        let help = String::from_utf8(output(program, &["--help"]).stdout).unwrap();
        assert!(help.contains("Usage: forebay <COMMAND>"), "{help}");
        let version = String::from_utf8(output(program, &["--version"]).stdout).unwrap();
        assert_eq!(version, format!("forebay {}\n", env!("FOREBAY_VERSION")));
    }
}

#[test]
fn the_version_is_followed_by_the_commit_where_there_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&root).output();
    let commit = git.ok().filter(|_| root.join(".git").exists()).filter(|output| output.status.success());
    let expected = match &commit {
        Some(output) => {
            let commit = String::from_utf8_lossy(&output.stdout);
            format!("forebay {} ({})\n", env!("CARGO_PKG_VERSION"), &commit[..7])
        }
        None => format!("forebay {}\n", env!("CARGO_PKG_VERSION")),
    };
    let version = output(Path::new(COMMANDS), &["--version"]).stdout;
    assert_eq!(String::from_utf8(version).unwrap(), expected);
}

#[test]
fn programs_find_what_was_inherited_whichever_of_the_two_runs_them() {
    let folder = tempfile::tempdir().unwrap();
    let run = |prefix: &str, pipe: &str| {
        // SigQ counts the queued signals of all processes of the user.
        let script =
            format!("{pipe} exec {prefix} sh -c 'grep Sig[^Q] /proc/self/status; ls /proc/$$/fd' <&-");
        let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // A name that is no text is nothing for the small one.
    let quickly = format!("{FOREBAY} run --");
    let slowly = format!("{FOREBAY} run --json \"$(printf 'x\\377')\" --");
    for pipe in ["", "trap '' PIPE;"] {
        let plain = run("", pipe);
        assert_eq!(run(&quickly, pipe), plain);
        assert_eq!(run(&slowly, pipe), plain);
    }
}
