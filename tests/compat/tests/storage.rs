//! Storage that is no local disk: what the program asks of it stays the same, and hints help there too.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_compat::run::{Launch, Side};
use forebay_compat::{Outcome, Scratch, guests::build, scratch, skip, switch};
use forebay_lab::{Error, Profile, SlowDisk, Stats};

/// A remote file system with what `fill` writes to it; says why where there is none.
fn remote(test: &str, fill: impl FnOnce(&Path)) -> Option<SlowDisk> {
    if switch("FOREBAY_COMPAT_PLAIN") {
        skip(test, "both sides run without forebay");
        return None;
    }
    match SlowDisk::start(Profile::Remote, 0) {
        Ok(disk) => {
            disk.fill(fill).expect("fill the remote file system");
            Some(disk)
        }
        Err(why @ Error::Unsupported { .. }) => {
            skip(test, why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Runs a command on a disk that was made cold: what came of it, and what the disk has served.
fn on(disk: &SlowDisk, test: &str, side: Side, argv: &[&str]) -> (Outcome, Stats) {
    let place = Scratch::fresh(scratch::base().join(test));
    let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
    disk.make_cold().expect("make the disk cold");
    disk.reset_stats().expect("count from zero");
    let [cwd, aside] = ["cwd", "aside"].map(|name| place.path().join(name));
    for folder in [&cwd, &aside] {
        fs::create_dir(folder).expect("make a folder");
    }
    let launch = Launch {
        argv: &argv,
        options: &[],
        before: &[],
        group: None,
        stdin: None,
        env: &[],
        cwd: &cwd,
        aside: &aside,
        seconds: 60,
    };
    let outcome = launch.run(side);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    (outcome, disk.stats().expect("what was served"))
}

/// Both sides: the outcomes are the same, and the statistics of both are told.
fn compare(disk: &SlowDisk, test: &str, argv: &[&str]) -> ((Outcome, Stats), (Outcome, Stats)) {
    let [without, with] = [Side::Without, Side::With].map(|side| on(disk, test, side, argv));
    assert_eq!(without.0.stdout, with.0.stdout, "{argv:?}");
    assert_eq!((without.0.status, &without.0.stderr), (with.0.status, &with.0.stderr), "{argv:?}");
    (without, with)
}

/// Folders with more names than one call gives.
fn folders(root: &Path) {
    for folder in ["first", "second"] {
        fs::create_dir(root.join(folder)).expect("make a folder");
        for number in 0..200 {
            fs::write(root.join(folder).join(format!("{number:0200}")), "x").expect("write a file");
        }
    }
}

#[test]
fn folders_are_listed_from_their_beginning() {
    const NAME: &str = "folders_are_listed_from_their_beginning";
    let Some(disk) = remote(NAME, folders) else { return };
    let root = disk.mount_point().to_str().expect("a path in UTF-8").to_owned();
    let mut forks = 0.0;
    for argv in [&["find", &root, "-ls"][..], &["ls", "-lR", &root], &["du", "-a", &root]] {
        let (_, (with, stats)) = compare(&disk, NAME, argv);
        assert_eq!(stats.listings_astray, 0, "{argv:?}: {stats:?}");
        forks += with.figure("forks");
    }
    assert!(forks > 0.0, "no program was speculated for");
}

#[test]
fn an_original_asks_a_remote_file_system_for_nothing_of_forebay_s_own() {
    const NAME: &str = "an_original_asks_for_nothing";
    let Some(disk) = remote(NAME, |root| {
        fs::write(root.join("data"), vec![1; 4 << 20]).expect("write the data");
    }) else {
        return;
    };
    let reader = build("reads_apart");
    let data = disk.mount_point().join("data");
    let argv = [&reader, &data].map(|path| path.to_str().expect("a path in UTF-8"));
    let (without, with) = compare(&disk, NAME, &argv);
    // Attributes are kept for a second, in which the program asks for none.
    assert_eq!(without.1.attributes, with.1.attributes, "{:?} {:?}", without.1, with.1);
}

/// A program that reads 40 files and ends before the next one, for which requests of one kind get no answer.
fn ends_before_what_is_held(kind: &str) {
    let test = format!("held_{kind}");
    let names: Vec<String> = (0..40).map(|number| format!("file{number}")).collect();
    let held: Vec<String> = (0..20).map(|number| format!("held-{kind}-{number}")).collect();
    let Some(disk) = remote(&test, |root| {
        for (number, name) in names.iter().enumerate() {
            // The last one tells the program to end.
            fs::write(root.join(name), if number == 39 { "end" } else { "go on" }).expect("write a file");
        }
        held.iter().for_each(|name| fs::write(root.join(name), "go on").expect("write a file"));
    }) else {
        return;
    };
    let guest = build("ends_early");
    let paths: Vec<String> =
        names.iter().chain(&held).map(|name| disk.mount_point().join(name).display().to_string()).collect();
    let mut argv = vec![guest.to_str().expect("a path in UTF-8")];
    argv.extend(paths.iter().map(String::as_str));
    // The run ends while the held requests are unanswered: nothing answers them before that.
    let (without, with) = compare(&disk, &test, &argv);
    assert_eq!(without.0.status, 0);
    assert!(with.0.figure("forks") > 0.0, "no speculation");
    let deadline = Instant::now() + Duration::from_secs(20);
    let supervisors = disk.stats().expect("what was served");
    disk.set_latency(false).expect("answer what was held");
    while let Some(left) = users(disk.mount_point()) {
        assert!(Instant::now() < deadline, "{left} is left, {supervisors:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has something below `folder` open.
fn users(folder: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("list processes").flatten();
    processes.map(|process| process.path()).find_map(|process| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let uses = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(folder));
        let is_user = descriptors.map(|entry| entry.path()).any(|link| uses(&link));
        is_user.then(|| fs::read_to_string(process.join("comm")).unwrap_or_default())
    })
}

#[test]
fn a_look_up_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("lookup");
}

#[test]
fn an_open_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("open");
}

#[test]
fn a_read_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("read");
}
