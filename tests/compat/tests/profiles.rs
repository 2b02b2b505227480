//! Runs that replay and record access profiles: whatever fails there, the program has the results that it has alone.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::ops::Range;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay_compat::case::{NOBODY, compare};
use forebay_compat::guests::{Kind, build, build_as};
use forebay_compat::mounted::remote;
use forebay_compat::run::{Side, find_program};
use forebay_compat::{Case, Outcome, Scratch, in_some_run, long, root, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk};
use forebay_profile::format;

/// Runs of the program for which forebay's processes are killed.
fn runs() -> u64 {
    if long() { 1000 } else { 16 }
}

/// A folder for profiles that is gone in the end.
struct State(Scratch);

impl State {
    fn new(test: &str) -> Self {
        Self(Scratch::fresh(scratch::base().join(format!("{test}-state"))))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn folder(&self) -> PathBuf {
        self.path().join("forebay/profiles")
    }

    /// All profiles, whole ones and others; nothing under another name.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| !is_temporary(path)).collect()
    }

    /// Names of the profiles that are not whole.
    fn broken(&self) -> Vec<String> {
        let is_whole = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| format::decode(&bytes).is_ok());
        self.files()
            .into_iter()
            .filter(|path| !is_whole(path))
            .map(|path| path.display().to_string())
            .collect()
    }
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Small files, some blocks, and somewhere to write.
fn data(scratch: &Scratch) {
    scratch.noise("data", 4 << 20, 9).file("out/file", "x");
    for number in 0..60 {
        scratch.text(&format!("small/f{number}"), 50 + number, number as u64);
    }
}

/// What a pool of threads reads.
fn files_of_pool(scratch: &Scratch) {
    for number in 0..600 {
        scratch.file(&format!("{number}"), vec![u8::try_from(number % 251).unwrap_or(0); 500]);
    }
}

/// A program by its number, in a scratch directory of this name.
fn program(number: usize, name: &str, state: &Path) -> Case {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let script = "cat small/* | md5sum; for n in 1 2 3; do head -c ${n}00000 data | cksum; done; \
                  grep -rc mill small | sort | tail -3; cat no-file 2>&1; ls small | wc -l";
    let argv = match number {
        0 => words(&["sh", "-c", "exec cat small/*"]),
        1 => words(&[
            "python3",
            "-c",
            "import json, decimal; print(len(json.dumps(list(range(500)))), decimal.ROUND_UP)",
        ]),
        2 => words(&["sh", "-c", script]),
        3 => vec![build_as("plain_reader", Kind::Static).into(), "data".into(), "4".into()],
        _ => vec![build("thread_pool").into(), "shared".into(), ".".into()],
    };
    let state = state.to_str().expect("a path in UTF-8").to_owned();
    let fill: fn(&Scratch) = if number == POOL { files_of_pool } else { data };
    Case::new(name, argv).setup(fill).env("XDG_STATE_HOME", &state).without_statistics()
}

const PROGRAMS: usize = 5;
const POOL: usize = 4;

fn is_installed(number: usize) -> bool {
    number != 1 || find_program("python3".as_ref()).is_some()
}

/// What these programs do alone, once their profiles are recorded.
fn recorded(name: &str, programs: Range<usize>, state: &State) -> BTreeMap<usize, Outcome> {
    let installed = programs.filter(|number| is_installed(*number));
    let outcomes = installed.map(|number| {
        let case = || program(number, &format!("{name}-{number}"), state.path());
        let alone = case().run(Side::Without);
        assert_eq!(alone.status, 0, "program {number}: {}", String::from_utf8_lossy(&alone.stderr));
        let first = case().run(Side::With);
        assert_same(&alone, &first, &format!("program {number}, recorded"));
        (number, alone)
    });
    outcomes.collect()
}

#[track_caller]
fn assert_same(alone: &Outcome, with: &Outcome, what: &str) {
    let found = compare(alone, with);
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// While it records and replays, the supervisor and the executor are killed, or the program, and the profiles stay whole.
#[test]
fn results_are_the_same_and_profiles_whole_whatever_is_killed() {
    const NAME: &str = "killed_profiles";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let state = State::new(NAME);
    let alone = recorded(NAME, 0..PROGRAMS, &state);
    assert!(!state.files().is_empty(), "nothing was recorded");
    let mut killed = BTreeMap::<String, u64>::new();
    for run in 0..runs() {
        let mut random = fastrand::Rng::with_seed(run);
        let (number, alone) = random.choice(&alone).expect("a program");
        // Behind the program's end the supervisor writes its profiles.
        let end_us = u64::try_from(alone.took.as_micros()).unwrap_or(u64::MAX).saturating_mul(2);
        let victims: Vec<String> = (0..random.usize(1..=2))
            .map(|_| {
                let part = random.choice(["forebay", "forebay:hints", "command"]).unwrap_or_default();
                format!("{part}:{}", random.u64(0..end_us))
            })
            .collect();
        let case = program(*number, &format!("{NAME}-{number}"), state.path());
        let with = case.kill(&victims.join(",")).run(Side::With);
        let what = format!("run {run}, program {number}, {victims:?}");
        if with.killed.iter().any(|victim| victim == "command") {
            assert!(with.complaints.is_empty(), "{what}: {:?}", with.complaints);
            assert!(alone.stdout.starts_with(&with.stdout), "{what}: {:?}", with.stdout);
        } else {
            assert_same(alone, &with, &what);
        }
        assert_eq!(state.broken(), Vec::<String>::new(), "{what}");
        with.killed.into_iter().for_each(|victim| *killed.entry(victim).or_default() += 1);
    }
    eprintln!("killed: {killed:?}");
    assert!(["forebay", "command"].iter().all(|part| killed.contains_key(*part)), "{killed:?}");
}

/// Runs a recorded program after `spoil` has changed its state folder: it has the same results.
fn spoiled(name: &str, number: usize, spoil: impl Fn(&State)) -> State {
    let state = State::new(name);
    for (number, alone) in recorded(name, number..number + 1, &state) {
        spoil(&state);
        let with = program(number, &format!("{name}-{number}"), state.path()).run(Side::With);
        assert_same(&alone, &with, &format!("program {number}, spoiled"));
    }
    state
}

#[test]
fn damaged_profiles_are_used_by_no_run() {
    const NAME: &str = "damaged_profiles";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let ways: [fn(&Path); 5] = [
        |path| fs::write(path, &fs::read(path).expect("a profile")[..40]).expect("cut it"),
        |path| fs::write(path, vec![0xa5; 3000]).expect("garbage"),
        |path| fs::write(path, "").expect("empty it"),
        |path| {
            fs::remove_file(path).expect("remove it");
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a FIFO");
        },
        |path| {
            fs::remove_file(path).expect("remove it");
            symlink("/dev/zero", path).expect("a link");
        },
    ];
    for (number, way) in (0..PROGRAMS).zip(ways) {
        let state = spoiled(&format!("{NAME}-{number}"), number, |state| {
            state.files().iter().for_each(|path| way(path))
        });
        assert!(!state.folder().join("off").exists());
    }
}

#[test]
fn without_a_place_for_profiles_a_program_runs_as_alone() {
    const NAME: &str = "no_place";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    for place in ["/dev/null", "/proc", "/sys/kernel", "relative", ""] {
        let case = || program(2, NAME, Path::new(place));
        let (alone, with) = (case().run(Side::Without), case().run(Side::With));
        assert_same(&alone, &with, place);
    }
}

/// The times of profiles are in the future, as after a clock was set back.
#[test]
fn a_clock_that_was_set_back_changes_nothing() {
    const NAME: &str = "clock_back";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let later = SystemTime::now() + Duration::from_hours(24 * 365);
    let state = spoiled(NAME, 2, |state| {
        for path in state.files() {
            fs::File::open(path).and_then(|file| file.set_modified(later)).expect("set a time");
        }
    });
    assert_eq!(state.broken(), Vec::<String>::new());
}

/// A full disk for the profiles.
#[test]
fn a_full_disk_for_profiles_changes_nothing() {
    const NAME: &str = "full_disk_for_profiles";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root may mount, and both sides must differ");
    }
    let state = State::new(NAME);
    let mount = |options: &str| {
        let script = format!("mount -t tmpfs -o {options} none '{}' && exec \"$@\"", state.path().display());
        ["unshare", "-m", "sh", "-c", &script, "sh"].map(OsString::from).to_vec()
    };
    for options in ["size=4k,mode=700", "size=16k,mode=700", "nr_inodes=3,mode=700", "ro,mode=700"] {
        let case = || program(2, NAME, state.path()).before(mount(options));
        let (alone, with) = (case().run(Side::Without), case().run(Side::With));
        assert_same(&alone, &with, options);
    }
}

/// Root's profile serves root alone, and no user reads another's.
#[test]
fn profiles_of_another_user_are_left_alone() {
    const NAME: &str = "profiles_of_another";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root can be two users, and both sides must differ");
    }
    let state = State::new(NAME);
    let alone = recorded(NAME, 0..PROGRAMS, &state);
    let before = state.files();
    state.0.give_to(NOBODY);
    fs::set_permissions(state.folder(), Permissions::from_mode(0o700)).expect("a mode");
    let contents = |files: &[PathBuf]| files.iter().map(|path| fs::read(path).ok()).collect::<Vec<_>>();
    let kept = contents(&before);
    for (number, alone) in &alone {
        let with = program(*number, &format!("{NAME}-{number}"), state.path()).run(Side::With);
        assert_same(alone, &with, &format!("program {number}, root with a user's profiles"));
    }
    assert_eq!(contents(&before), kept, "root has changed a user's profiles");
    assert_eq!(state.files().len(), before.len());
    chown(state.folder(), Some(0), Some(0)).expect("give it back");
}

/// Files of a profile are gone, changed, or have become what opening would show: nothing opens a FIFO.
#[test]
fn files_that_are_others_now_are_not_opened() {
    const NAME: &str = "replaced_files";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let state = State::new(NAME);
    let script = "for f in small/*; do [ -f $f ] && [ ! -L $f ] && cat $f; done | cksum; ls small | wc -l";
    let case = |replace: bool| {
        let name = state.path().to_str().expect("a path in UTF-8").to_owned();
        let case = Case::new(NAME, ["sh", "-c", script]).setup(data).env("XDG_STATE_HOME", &name);
        case.without_statistics().setup(move |scratch| {
            if replace {
                replace_files(scratch)
            }
        })
    };
    let (alone, first) = (case(false).run(Side::Without), case(false).run(Side::With));
    assert_same(&alone, &first, "recorded");
    assert!(!state.files().is_empty(), "nothing was recorded");
    let alone = case(true).run(Side::Without);
    for round in 0..3 {
        let with = case(true).run(Side::With);
        assert_same(&alone, &with, &format!("round {round}"));
    }
}

fn replace_files(scratch: &Scratch) {
    let at = |number: u32| scratch.at(&format!("small/f{number}"));
    for number in 0..30 {
        fs::remove_file(at(number)).expect("remove it");
    }
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    (0..5).for_each(|number| nix::unistd::mkfifo(&at(number), mode).expect("a FIFO"));
    (5..10).for_each(|number| fs::create_dir(at(number)).expect("a folder"));
    (10..15).for_each(|number| symlink("/dev/zero", at(number)).expect("a link"));
    (15..20).for_each(|number| symlink(format!("f{}", number - 15), at(number)).expect("a link to a FIFO"));
    for number in 20..25 {
        scratch.text(&format!("small/f{number}"), 10, 1);
    }
}

/// A program that is told of opened files sees its own alone, also where its profile has many others.
#[test]
fn a_program_that_watches_files_sees_its_own_opens() {
    const NAME: &str = "watched_replay";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let state = State::new(NAME);
    let path = state.path().to_str().expect("a path in UTF-8").to_owned();
    let case = |guest: &str| {
        let guest = build(guest);
        // A command of the same name has read all that is watched now.
        let copy = move |scratch: &Scratch| {
            forebay_testkit::copy_program(&guest, scratch.at("guest"));
        };
        let case = Case::new(NAME, ["./guest", "data", "."]).setup(data).setup(files_of_pool).setup(copy);
        case.env("XDG_STATE_HOME", &path)
    };
    assert_eq!(case("thread_pool").run(Side::With).status, 0);
    let alone = case("watches_files").run(Side::Without);
    for round in 0..3 {
        let with = case("watches_files").run(Side::With);
        assert_same(&alone, &with, &format!("round {round}"));
        assert!(with.figure("profile_steps") > 600.0, "{:?}", with.totals());
        let _ = case("thread_pool").run(Side::With);
    }
}

/// Runs of one command at the same time share a profile.
#[test]
fn runs_at_once_share_a_profile() {
    const NAME: &str = "runs_at_once";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let state = State::new(NAME);
    let forebay = forebay_testkit::artifacts::forebay().expect("build forebay");
    let scratch = Scratch::fresh(scratch::base().join(NAME));
    data(&scratch);
    let start = || {
        let mut command = std::process::Command::new(&forebay);
        command.args(["run", "--", "sh", "-c", "cat small/*"]).env("XDG_STATE_HOME", state.path());
        command
            .current_dir(scratch.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("start forebay")
    };
    let expected = start().wait_with_output().expect("an output");
    assert!(expected.status.success());
    for round in 0..10 {
        let children: Vec<_> = (0..6).map(|_| start()).collect();
        for child in children {
            let output = child.wait_with_output().expect("an output");
            assert_eq!((output.status, &output.stdout), (expected.status, &expected.stdout), "round {round}");
        }
        assert_eq!(state.broken(), Vec::<String>::new(), "round {round}");
    }
}

/// Children that outlive the command's first process go on, and nothing waits for them.
#[test]
fn a_daemon_outlives_its_recorded_run() {
    let state = State::new("recorded_daemon");
    let path = state.path().to_str().expect("a path in UTF-8").to_owned();
    let script = "(while [ ! -e go ]; do sleep 0.01; done; cat small/* > out/all) & \
                  cat small/f1 | cksum; touch go; n=0; \
                  (while [ ! -s out/all ]; do sleep 0.01; done) & wait $!; wait; cksum < out/all";
    let case = || Case::new("recorded_daemon", ["sh", "-c", script]).setup(data).env("XDG_STATE_HOME", &path);
    let alone = case().run(Side::Without);
    for round in 0..3 {
        assert_same(&alone, &case().run(Side::With), &format!("round {round}"));
    }
}

/// Look-ups tell how many requests a device serves at once, as reads do.
#[test]
fn a_replay_of_look_ups_asks_a_device_for_many_at_once() {
    const NAME: &str = "replayed_look_ups";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, 512 << 20) {
        Ok(disk) => disk,
        Err(why) => return skip(NAME, why.to_string()),
    };
    // Each folder has a block of its own. In the second tree all look-ups in a folder wait for that block.
    let trees = [("wide", 1500, 1), ("deep", 200, 25)];
    let fill = |root: &Path| {
        for (tree, folders, files) in trees {
            for folder in (0..folders).map(|number| root.join(tree).join(number.to_string())) {
                fs::create_dir_all(&folder).expect("make a folder");
                (0..files).for_each(|file| {
                    fs::write(folder.join(file.to_string()), "x").expect("write a file");
                });
            }
        }
    };
    disk.fill(fill).expect("fill the slow disk");
    for (tree, _, _) in trees {
        let state = State::new(&format!("{NAME}-{tree}"));
        let path = state.path().to_str().expect("a path in UTF-8").to_owned();
        let tree = disk.mount_point().join(tree).display().to_string();
        in_some_run(|| {
            disk.make_cold().expect("empty the caches of the slow disk");
            disk.reset_stats().expect("count from zero");
            let case = Case::new(NAME, ["find", &tree, "-size", "+1"]).env("XDG_STATE_HOME", &path);
            let outcome = case.run(Side::With);
            assert_eq!(outcome.status, 0);
            let at_once = disk.stats().expect("what was served").in_flight_max;
            let steps = outcome.figure("profile_steps_done");
            let is_wanted = steps > 0.0 && at_once >= 12;
            if is_wanted { Ok(()) } else { Err(format!("{tree}: {steps} steps, {at_once} requests at once")) }
        });
    }
}

/// A run that needs what its profile has, all of it in memory, has nothing to teach. One that needs something else does.
#[test]
fn a_known_run_leaves_its_profile_as_it_is() {
    const NAME: &str = "known_run";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    if switch("FOREBAY_COMPAT_DROP") {
        return skip(NAME, "every run finds its files cold, and waits for them");
    }
    let state = State::new(NAME);
    let path = state.path().to_str().expect("a path in UTF-8").to_owned();
    // Beside the scratch directory, which each run finds cold.
    let warm = Scratch::fresh(scratch::base().join(format!("{NAME}-files")));
    data(&warm);
    let script = format!("cat '{}'/*", warm.at("small").display());
    let run = || {
        let case = Case::new(NAME, ["sh", "-c", &script]).env("XDG_STATE_HOME", &path).without_statistics();
        assert_eq!(case.run(Side::With).status, 0);
        let profiles =
            state.files().into_iter().filter_map(|file| format::decode(&fs::read(file).ok()?).ok());
        profiles.map(|profile| profile.runs()).sum::<u32>()
    };
    let mut before = run();
    assert!(before > 0, "nothing was recorded");
    // A busy machine makes steps wait that are in memory.
    in_some_run(|| {
        let runs = run();
        let seen = format!("{before} runs have taught before it, {runs} with it");
        let is_same = std::mem::replace(&mut before, runs) == runs;
        if is_same { Ok(()) } else { Err(seen) }
    });
    for number in 0..60 {
        warm.text(&format!("small/new{number}"), 50, number);
    }
    assert!(run() > before, "other files have taught nothing");
}

/// A process opens 400 files for longer than the kernel keeps names. A replay that looked all of them up at once would have most of
/// them looked up twice.
#[test]
fn names_of_a_remote_file_system_are_looked_up_shortly_before_they_are_needed() {
    const NAME: &str = "replayed_remote_names";
    const FILES: u64 = 400;
    let fill = |root: &Path| {
        (0..FILES).for_each(|number| fs::write(root.join(number.to_string()), "x").expect("write a file"));
    };
    let Some(disk) = remote(NAME, fill) else { return };
    let state = State::new(NAME);
    let path = state.path().to_str().expect("a path in UTF-8").to_owned();
    let name = |number| disk.mount_point().join(format!("{number}")).display().to_string();
    let argv: Vec<String> = ["cat".to_owned()].into_iter().chain((0..FILES).map(name)).collect();
    let run = || {
        disk.make_cold().expect("empty the caches of the file system");
        disk.reset_stats().expect("count from zero");
        let case = Case::new(NAME, &argv).env("XDG_STATE_HOME", &path);
        assert_eq!(case.run(Side::With).status, 0);
        disk.stats().expect("what was served")
    };
    let _recorded = run();
    in_some_run(|| {
        let served = run();
        let is_replayed = served.in_flight_max > 8;
        let is_near = served.look_ups < FILES * 5 / 4 && served.reads < FILES * 5 / 4;
        if is_replayed && is_near { Ok(()) } else { Err(format!("{served:?}")) }
    });
}

/// The dynamic loader maps a library, and the kernel forgets its name before the process ends.
#[test]
fn mapped_files_of_a_remote_file_system_are_recorded() {
    const NAME: &str = "mapped_remote_file";
    const SCRIPT: &str = "\
import ctypes, os, sys, time
os.stat(sys.argv[1])
ctypes.CDLL(sys.argv[1])
forgotten = time.monotonic() + 1.5
while time.monotonic() < forgotten:
    time.sleep(0.1)
";
    let Some(python) = find_program("python3".as_ref()) else {
        return skip(NAME, "python3 is not installed");
    };
    let library = build_as("preloaded", Kind::Library);
    let fill = |root: &Path| {
        fs::copy(&library, root.join("library.so")).expect("copy a library");
    };
    let Some(disk) = remote(NAME, fill) else { return };
    let state = State::new(NAME);
    let path = state.path().to_str().expect("a path in UTF-8").to_owned();
    let library = disk.mount_point().join("library.so").display().to_string();
    disk.make_cold().expect("empty the caches of the file system");
    let argv = [python.display().to_string(), "-c".to_owned(), SCRIPT.to_owned(), library.clone()];
    let case = Case::new(NAME, &argv).env("XDG_STATE_HOME", &path);
    assert_eq!(case.run(Side::With).status, 0);
    let files = state.files();
    let profiles = files.iter().filter_map(|file| format::decode(&fs::read(file).ok()?).ok());
    let has_data = profiles
        .flat_map(|profile| profile.entries().to_vec())
        .any(|entry| entry.path == library.as_bytes() && entry.identity.is_some() && !entry.spans.is_empty());
    assert!(has_data, "{library} is not in the profile");
}
