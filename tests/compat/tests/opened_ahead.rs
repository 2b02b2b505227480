//! Files on FUSE that the executor opens ahead: a program that takes one sees what its own open would have given.

use std::fs;
use std::path::Path;

use forebay_compat::case::Case;
use forebay_compat::guests::build;
use forebay_compat::mounted::{Mounted, launch, remote};
use forebay_compat::run::Side;
use forebay_compat::{Outcome, Scratch, in_some_run, scratch};
use forebay_lab::{Opens, SlowDisk};

const FILES: usize = 160;
/// A replay opens none of those that it has come to before the program waits for its first one: about a second's worth, where
/// the program starts slowly.
const REPLAYED: usize = 3 * FILES;

fn files(root: &Path) {
    write_files(root, FILES);
}

fn replayed_files(root: &Path) {
    write_files(root, REPLAYED);
}

/// Files as they are at first. Those that have not been changed stay the same ones.
fn write_files(root: &Path, count: usize) {
    let folder = root.join("files");
    fs::create_dir_all(&folder).expect("make a folder");
    for number in 0..count {
        let content = format!("{number} of many\n").repeat(1 + number * 13 % 300);
        let path = folder.join(format!("file{number}"));
        if fs::read_to_string(&path).is_ok_and(|before| before == content) {
            continue;
        }
        fs::write(&path, content).expect("write a file");
    }
}

/// What the guest tells alone, and with forebay, of the same files.
fn both(disk: &SlowDisk, test: &str, mode: &str) -> [Outcome; 2] {
    let guest = build("opens_in_turn");
    let folder = disk.mount_point().join("files");
    let [guest, folder] = [&guest, &folder].map(|path| path.to_str().expect("a path in UTF-8"));
    [Side::Without, Side::With].map(|side| {
        disk.fill(files).expect("write the files");
        disk.make_cold().expect("make the disk cold");
        let argv = [guest, mode, folder, &FILES.to_string()];
        launch(&Scratch::fresh(scratch::base().join(test)), side, &argv)
    })
}

/// That the guest sees the same, also where the kernel forgets data when a file is opened again. How many files it took is as
/// `is_wanted` says, in some run.
fn sees_the_same(test: &str, mode: &str, is_wanted: fn(f64) -> bool) {
    let Some(disk) = remote(test, files) else { return };
    for keep_data in [true, false] {
        disk.set_opens(Opens { keep_data, ..Opens::default() }).expect("say what opens are");
        let _ = in_some_run(|| {
            let [without, with] = both(&disk, test, mode);
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(&without.stdout), text(&with.stdout), "{mode}");
            assert_eq!((without.status, text(&without.stderr)), (with.status, text(&with.stderr)), "{mode}");
            assert_eq!(without.status, 0, "{mode}");
            with.wanted(|with| with.figure("forks") > 0.0 && is_wanted(with.figure("opens_taken")))
        });
    }
}

#[test]
fn what_is_taken_is_what_an_open_gives() {
    sees_the_same("what_is_taken_is_what_an_open_gives", "plainly", |taken| taken > FILES as f64 / 8.0);
}

/// A timer of the program changes files that its speculator has come to.
#[test]
fn what_has_changed_is_not_taken() {
    sees_the_same("what_has_changed_is_not_taken", "changes", |taken| taken > FILES as f64 / 16.0);
}

/// Root gives up its user half way.
#[test]
fn who_has_other_rights_than_at_the_fork_takes_nothing() {
    let test = "who_has_other_rights_takes_nothing";
    sees_the_same(test, "drops", |taken| taken > 0.0 && taken <= FILES as f64 / 2.0);
}

#[test]
fn threads_open_files_themselves() {
    sees_the_same("threads_open_files_themselves", "threads", |_| true);
}

/// That the guest sees the same where a replay opens files for it, and it has no speculator.
fn sees_the_same_replayed(test: &str, mode: &str, is_wanted: fn(f64) -> bool) {
    let Some(disk) = remote(test, replayed_files) else { return };
    let state = Scratch::fresh(scratch::base().join(format!("{test}-state")));
    let state = state.path().to_str().expect("a path in UTF-8");
    let guest = build("opens_in_turn");
    let folder = disk.mount_point().join("files");
    let [guest, folder] = [&guest, &folder].map(|path| path.to_str().expect("a path in UTF-8"));
    let run = |side| {
        disk.fill(replayed_files).expect("write the files that were changed");
        disk.make_cold().expect("make the disk cold");
        let case = Case::new(test, [guest, mode, folder, &REPLAYED.to_string(), "attached"]);
        case.env("XDG_STATE_HOME", state).with_statistics().run(side)
    };
    let _recorded = run(Side::With);
    let _ = in_some_run(|| {
        let [without, with] = [Side::Without, Side::With].map(run);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&without.stdout), text(&with.stdout), "{mode}");
        assert_eq!((without.status, text(&without.stderr)), (with.status, text(&with.stderr)), "{mode}");
        assert_eq!(without.status, 0, "{mode}");
        with.wanted(|with| with.figure("forks") == 0.0 && is_wanted(with.figure("opens_taken")))
    });
}

/// Of four opens one has flags that are not foretold.
#[test]
fn what_a_replay_opens_is_what_an_open_gives() {
    let test = "what_a_replay_opens_is_what_an_open_gives";
    sees_the_same_replayed(test, "plainly", |taken| taken > REPLAYED as f64 / 8.0);
}

#[test]
fn what_has_changed_since_a_replay_opened_it_is_not_taken() {
    sees_the_same_replayed("what_has_changed_since_a_replay", "changes", |taken| {
        taken > REPLAYED as f64 / 32.0
    });
}

#[test]
fn who_has_other_rights_than_a_replay_takes_nothing() {
    sees_the_same_replayed("who_has_other_rights_than_a_replay", "drops", |taken| {
        taken > 0.0 && taken <= REPLAYED as f64 / 2.0
    });
}

#[test]
fn threads_open_files_themselves_beside_a_replay() {
    sees_the_same_replayed("threads_open_files_themselves_replayed", "threads", |_| true);
}

/// A program reads fewer files than a replay opens for it, and has the file system unmounted by a program without an agent.
#[test]
fn what_is_open_ahead_keeps_no_file_system_busy() {
    let test = "what_is_open_ahead_keeps_nothing_busy";
    let Some(disk) = remote(test, files) else { return };
    let scratch = Scratch::fresh(scratch::base().join(format!("{test}-state")));
    let [state, at] = ["state", "at"].map(|name| scratch.path().join(name).display().to_string());
    let guest = build("opens_in_turn").display().to_string();
    let source = disk.mount_point().join("files").display().to_string();
    let run = |side, read: usize, unmounts: bool| {
        disk.make_cold().expect("make the disk cold");
        let _mounted = Mounted::new(&["--bind", &source], Path::new(&at));
        let case = Case::new(test, [&guest, "unmounts", &at, &FILES.to_string()]);
        let case = case.env("XDG_STATE_HOME", &state).env("READ", &read.to_string()).with_statistics();
        if unmounts { case.env("UNMOUNT", "1").run(side) } else { case.run(side) }
    };
    assert_eq!(run(Side::With, FILES, false).status, 0);
    for read in [10, FILES / 4, FILES / 2, FILES * 3 / 4] {
        let [without, with] = [Side::Without, Side::With].map(|side| run(side, read, true));
        assert!(with.figure("profile_steps_done") > 0.0, "nothing was replayed");
        let text = |outcome: Outcome| String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert_eq!(text(without), text(with));
    }
}
