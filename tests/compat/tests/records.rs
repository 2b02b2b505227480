//! What a run needs of file systems is recorded: all of it, once, the same whether it is in memory or not.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use forebay_compat::guests::{Kind, build_as};
use forebay_compat::{Scratch, in_some_run, root, scratch, skip};
use forebay_lab::{Profile, SlowDisk};
use forebay_testkit::artifacts;

/// How long the supervisor beside a program gets to write the needs down.
const PATIENCE: Duration = Duration::from_secs(60);
/// What `accesses` maps two pages of.
const MAPPED_BYTES: usize = 2 << 20;
const TOUCHED: [u64; 2] = [0x1_0000, 0x18_0000];

/// Files on a slow disk.
const FILES: usize = 200;

/// Where the supervisor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Above,
    Beside,
    /// Above, and profiles are kept and used.
    Replayed,
}

/// What is in memory as a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Warm,
    Cold,
}

/// Kind, path in the folder, and range.
type Need = (String, String, Range<u64>);

/// A folder with the guest and its files, gone in the end.
struct Folder {
    above: Scratch,
    files: Scratch,
}

impl Folder {
    fn new(kind: Kind) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(scratch::base()).expect("make a directory");
        let base = scratch::base().canonicalize().expect("a path without links");
        let above = Scratch::fresh(base.join(format!("records-{number}")));
        let files = Scratch::fresh(above.at("files"));
        forebay_testkit::copy_program(build_as("accesses", kind), files.at("accesses"));
        files.noise("data", 300_000, 1).noise("sub/inner", 5_000, 2).noise("sub/relative", 50, 3);
        files.noise("small", 50, 4).noise("forked", 50, 5).noise("executed", 50, 6);
        files.noise("mapped", MAPPED_BYTES, 7).noise("long", 1 << 20, 8).noise("turns", 600_000, 9);
        files.file("list/one", "1").file("list/two", "2");
        for number in 0..4 {
            files.noise(&format!("thread{number}"), 9_000, number);
        }
        std::os::unix::fs::symlink("data", files.at("link")).expect("make a link");
        Self { above, files }
    }

    /// What the guest needs in a mode, of the folder.
    #[track_caller]
    fn needs(&self, mode: &str, place: Place, state: State) -> Vec<Need> {
        self.needs_of(&[&self.files.at("accesses"), Path::new(mode), self.files.path()], place, state)
    }

    /// What a command needs of the folder.
    #[track_caller]
    fn needs_of(&self, argv: &[&Path], place: Place, state: State) -> Vec<Need> {
        self.files.settle(true);
        if state == State::Warm {
            read_all(self.files.path());
        }
        self.recorded(argv, place).lines().filter_map(|line| need(line, self.files.path())).collect()
    }

    /// All that a command needs, without the times.
    #[track_caller]
    fn lines_of(&self, argv: &[&Path], place: Place) -> BTreeSet<String> {
        let without_time = |line: &str| {
            let parts: Vec<&str> = line.splitn(5, ' ').collect();
            [parts[0], parts[1], parts[2], parts[4]].join(" ")
        };
        self.recorded(argv, place).lines().map(without_time).collect()
    }

    /// What is written down of a run.
    #[track_caller]
    fn recorded(&self, argv: &[&Path], place: Place) -> String {
        let output = self.above.at("needs");
        let _ = fs::remove_file(&output);
        let mut command = Command::new(example());
        command.arg(artifacts::agent().expect("build the agent")).arg(&output);
        command.env("XDG_STATE_HOME", self.above.at("state"));
        command.arg(match place {
            Place::Above => "above",
            Place::Beside => "beside",
            Place::Replayed => "replayed",
        });
        let ended = command.args(argv).output().expect("start the example");
        assert!(ended.status.success(), "{argv:?}, {place:?}: {ended:?}");
        let deadline = Instant::now() + PATIENCE;
        while !output.exists() {
            assert!(Instant::now() < deadline, "no needs were written");
            thread::sleep(Duration::from_millis(1));
        }
        fs::read_to_string(&output).expect("read the needs")
    }
}

/// `Kind START END MICROSECONDS PATH`, if it is of the folder.
fn need(line: &str, folder: &Path) -> Option<Need> {
    let parts: Vec<&str> = line.splitn(5, ' ').collect();
    let [kind, start, end, _, path] = parts[..] else { panic!("{line}") };
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let inner = Path::new(path).strip_prefix(folder).ok()?;
    Some((kind.to_owned(), inner.display().to_string(), number(start)..number(end)))
}

fn read_all(folder: &Path) {
    for entry in fs::read_dir(folder).expect("list a directory").flatten() {
        if entry.path().is_dir() { read_all(&entry.path()) } else { drop(fs::read(entry.path())) }
    }
}

/// The program that writes down what a command needs.
fn example() -> PathBuf {
    artifacts::example("forebay-supervisor", "needs").expect("build the example")
}

fn without_mappings(needs: &[Need]) -> BTreeSet<(&str, &str, u64, u64)> {
    let unmapped = needs.iter().filter(|(kind, ..)| kind != "Mapped");
    unmapped.map(|(kind, path, range)| (&**kind, &**path, range.start, range.end)).collect()
}

/// All needs of `accesses all` but those of mapped pages.
fn expected() -> BTreeSet<(&'static str, &'static str, u64, u64)> {
    let bare =
        |kind, paths: &[&'static str]| paths.iter().map(|path| (kind, *path, 0, 0)).collect::<Vec<_>>();
    let mut all = bare("Missing", &["missing", "no-program", "sub/none", "sub/nothing"]);
    all.extend(bare("LookUp", &["", "data", "list", "list/one", "mapped", "small", "forked", "executed"]));
    all.extend(bare("LookUp", &["sub", "sub/inner", "sub/relative"]));
    all.extend(bare("LookUp", &["thread0", "thread1", "thread2", "thread3"]));
    all.extend(bare("Link", &["link"]));
    all.extend(bare("Directory", &["list"]));
    all.extend(bare("Executed", &["accesses"]));
    let read = |path, start, end| ("Read", path, start, end);
    all.extend(
        [(0, 1_000), (4_096, 4_296), (100_000, 100_020), (200_000, 200_050)].map(|(a, b)| read("data", a, b)),
    );
    all.extend([read("data", 250_000, 250_007), read("sub/inner", 0, 5_000), read("sub/relative", 0, 3)]);
    all.extend([read("small", 0, 4), read("forked", 0, 5), read("executed", 0, 6)]);
    all.extend([read("thread0", 0, 10), read("thread1", 1_000, 1_010)]);
    all.extend([read("thread2", 2_000, 2_010), read("thread3", 3_000, 3_010)]);
    all.into_iter().collect()
}

/// Whether each touched page of the mapped file is in a range.
fn has_touched_pages(needs: &[Need]) -> bool {
    TOUCHED.iter().all(|page| {
        let mut mapped = needs.iter().filter(|(kind, path, _)| kind == "Mapped" && path == "mapped");
        mapped.any(|(.., range)| range.contains(page) && range.end >= page + 4096)
    })
}

#[test]
fn a_run_s_needs_are_recorded_warm_and_cold_from_above_and_beside() {
    let folder = Folder::new(Kind::Program);
    for (place, state) in [
        (Place::Above, State::Cold),
        (Place::Above, State::Warm),
        (Place::Beside, State::Cold),
        (Place::Beside, State::Warm),
    ] {
        let needs = folder.needs("all", place, state);
        assert_eq!(without_mappings(&needs), expected(), "{place:?}, {state:?}");
        assert!(has_touched_pages(&needs), "{place:?}, {state:?}: {needs:?}");
        assert!(needs.iter().any(|(kind, path, _)| kind == "Mapped" && path == "accesses"), "{needs:?}");
    }
}

/// They are watched from when the kernel has opened events of them; what was touched before is in the page table.
#[test]
fn a_static_program_s_cold_pages_are_recorded() {
    const NAME: &str = "a_static_program_s_cold_pages_are_recorded";
    if !root()
        && fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").map_or(true, |text| text.trim() > "2")
    {
        return skip(NAME, "the kernel tells this user of no faults");
    }
    let Some(disk) = slow_disk(NAME, Profile::Raid12Ms) else { return };
    let folder = Folder::new(Kind::Static);
    let [program, mapped] = ["accesses", "mapped"].map(|name| disk.mount_point().join(name));
    let copied = disk.fill(|_| {
        fs::copy(folder.files.at("accesses"), &program)?;
        fs::copy(folder.files.at("mapped"), &mapped)
    });
    copied.expect("fill the slow disk").expect("copy the files");
    for place in [Place::Above, Place::Beside] {
        in_some_run(|| {
            disk.make_cold().expect("empty the caches of the slow disk");
            let text = folder.recorded(&[&program, Path::new("map"), disk.mount_point()], place);
            let needs: Vec<_> = text.lines().filter_map(|line| need(line, disk.mount_point())).collect();
            let is_executed = needs.contains(&("Executed".into(), "accesses".into(), 0..0));
            if has_touched_pages(&needs) && is_executed {
                Ok(())
            } else {
                Err(format!("{place:?}: {needs:?}"))
            }
        });
    }
}

/// It has no agent, so what it waits for is recorded: under the names of its files, and no others.
#[test]
fn what_a_static_program_waits_for_is_recorded() {
    is_seen_to_wait("what_a_static_program_waits_for_is_recorded", Kind::Static, &[]);
}

/// Its agent could not reach the supervisor.
#[test]
fn what_a_program_waits_for_that_has_given_up_rights_is_recorded() {
    const NAME: &str = "what_a_program_waits_for_that_has_given_up_rights_is_recorded";
    if !root() {
        return skip(NAME, "only root has rights to give up");
    }
    is_seen_to_wait(NAME, Kind::Program, &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
}

/// What the guest reads is recorded, though the guest has no agent.
#[track_caller]
fn is_seen_to_wait(name: &str, kind: Kind, before: &[&str]) {
    let Some((disk, files)) = slow_files(name) else { return };
    let folder = Folder::new(kind);
    let program = disk.mount_point().join("accesses");
    disk.fill(|_| fs::copy(folder.files.at("accesses"), &program)).expect("fill the disk").expect("copy");
    for place in [Place::Above, Place::Beside] {
        in_some_run(|| {
            disk.make_cold().expect("empty the caches of the slow disk");
            let before = before.iter().map(Path::new);
            let argv: Vec<&Path> = before.chain([&*program, Path::new("files"), &*files]).collect();
            let lines = folder.lines_of(&argv, place);
            let read = |number: &usize| {
                lines.contains(&format!("Read 0 3000 {}", files.join(number.to_string()).display()))
            };
            let of_disk = lines.iter().filter(|line| line.contains(&*files.to_string_lossy()));
            let found = (0..FILES).filter(read).count();
            for line in of_disk {
                let path = Path::new(line.splitn(4, ' ').nth(3).expect("a path"));
                assert!(path.exists() || line.starts_with("Missing"), "{line}");
            }
            if found >= FILES / 2 { Ok(()) } else { Err(format!("{place:?}: {found} reads: {lines:?}")) }
        });
    }
}

#[test]
fn what_a_static_program_waited_for_is_replayed() {
    let Some((disk, files)) = slow_files("what_a_static_program_waited_for_is_replayed") else {
        return;
    };
    let folder = Folder::new(Kind::Static);
    let program = folder.files.at("accesses");
    let steps_waited = || -> usize {
        disk.make_cold().expect("empty the caches of the slow disk");
        let text = folder.recorded(&[&program, Path::new("files"), &files], Place::Replayed);
        text.parse().expect("a number of steps")
    };
    in_some_run(|| match steps_waited() {
        waited if waited >= FILES / 2 => Ok(()),
        waited => Err(format!("{waited} steps waited")),
    });
}

fn slow_disk(name: &str, profile: Profile) -> Option<SlowDisk> {
    SlowDisk::start(profile, 64 << 20).map_err(|why| skip(name, why.to_string())).ok()
}

/// A slow disk with a folder of small files.
fn slow_files(name: &str) -> Option<(SlowDisk, PathBuf)> {
    let disk = slow_disk(name, Profile::Ssd1Ms)?;
    let files = disk.mount_point().join("files");
    let made = disk.fill(|_| {
        fs::create_dir(&files)?;
        (0..FILES).try_for_each(|number| fs::write(files.join(number.to_string()), [7; 3_000]))
    });
    made.expect("fill the slow disk").expect("write the files");
    Some((disk, files))
}

#[test]
fn a_read_in_sequence_is_one_need_however_long() {
    let folder = Folder::new(Kind::Program);
    for state in [State::Warm, State::Cold] {
        let needs = folder.needs("sequence", Place::Above, state);
        let read: Vec<_> = needs
            .iter()
            .filter(|(kind, ..)| kind == "Read")
            .map(|(_, path, range)| (&**path, range.clone()))
            .collect();
        let found: BTreeSet<_> = read.iter().map(|(path, range)| (*path, range.start, range.end)).collect();
        let expected = [("long", 0, 1 << 20), ("turns", 0, 81_920), ("turns", 400_000, 481_920)];
        assert_eq!(found, expected.into(), "{state:?}");
    }
}

#[test]
fn what_is_read_around_the_page_cache_is_looked_up_alone() {
    let folder = Folder::new(Kind::Program);
    let input = format!("if={}", folder.files.at("data").display());
    for (flag, expected) in [("iflag=fullblock", Some(0..300_000)), ("iflag=direct", None)] {
        let argv = ["dd", &input, "of=/dev/null", "bs=4096", flag].map(Path::new);
        let needs = folder.needs_of(&argv, Place::Above, State::Cold);
        let of_data = |wanted: &str| -> Vec<Range<u64>> {
            let found = needs.iter().filter(|(kind, path, _)| kind == wanted && path == "data");
            found.map(|(.., range)| range.clone()).collect()
        };
        assert_eq!(of_data("Read"), Vec::from_iter(expected), "{flag}");
        assert_eq!(of_data("LookUp").len(), 1, "{flag}");
    }
}

/// Its paths are others from then on, and those of its children.
#[test]
fn nothing_is_recorded_of_a_program_in_another_root() {
    if !root() {
        return skip("another_root", "only root may");
    }
    const PROGRAM: &str = r#"
        sub take { open(my $file, '<', $_[0]) or die "$_[0]: $!"; sysread($file, my $read, 100) }
        take("$ARGV[0]/data");
        chroot("$ARGV[0]/sub") or die $!;
        take("/inner");
        chdir("/");
        take("relative");
        if (my $child = fork) { waitpid($child, 0) } else { take("/inner") }
        exit($? >> 8);
    "#;
    let folder = Folder::new(Kind::Program);
    let argv = ["perl".as_ref(), "-e".as_ref(), PROGRAM.as_ref(), folder.files.path()];
    folder.files.settle(true);
    let lines = folder.recorded(&argv, Place::Above);
    let named = |name: &str| lines.lines().filter(|line| line.ends_with(name)).collect::<Vec<_>>();
    assert!(!named("files/data").is_empty(), "{lines}");
    assert_eq!([named("/inner"), named("/relative")], [const { Vec::<&str>::new() }; 2], "{lines}");
}

#[test]
fn a_program_that_executes_others_is_recorded_each_time() {
    let folder = Folder::new(Kind::Program);
    fs::hard_link(folder.files.at("accesses"), folder.files.at("launcher")).expect("make a second name");
    let needs = folder.needs("launch", Place::Above, State::Warm);
    for round in 0..8 {
        assert!(needs.contains(&("Missing".into(), format!("launched-{round}"), 0..0)), "{round}: {needs:?}");
    }
}

#[test]
fn a_walk_that_goes_back_up_is_recorded_under_the_names_of_its_folders() {
    let folder = Folder::new(Kind::Program);
    for number in 0..5 {
        folder.files.file(&format!("walk/{number}/deep/deeper/file"), "x");
    }
    let walk = folder.files.at("walk");
    let needs = folder.needs_of(&[Path::new("du"), Path::new("-a"), &walk], Place::Above, State::Cold);
    let found = |kind: &str| needs.iter().filter(|(of, ..)| of == kind).map(|(_, path, _)| &**path).collect();
    let (listed, looked_up): (BTreeSet<&str>, BTreeSet<&str>) = (found("Directory"), found("LookUp"));
    let below = (0..5).flat_map(|number| {
        ["", "/deep", "/deep/deeper", "/deep/deeper/file"].map(|path| format!("walk/{number}{path}"))
    });
    let all: BTreeSet<String> = below.chain(["walk".to_owned()]).collect();
    assert_eq!(looked_up, all.iter().map(|path| &**path).collect());
    assert_eq!(listed, all.iter().map(|path| &**path).filter(|path| !path.ends_with("file")).collect());
}

#[test]
fn processes_that_are_killed_spoil_nothing_of_others() {
    let folder = Folder::new(Kind::Program);
    let needs = folder.needs("killed", Place::Above, State::Warm);
    for (kind, path, _) in needs.iter().filter(|(kind, ..)| kind == "Missing") {
        let parts: Vec<&str> = path.split('-').collect();
        let is_whole = match parts[..] {
            ["killed", child, number] => child.parse::<u32>().is_ok() && number.parse::<u32>().is_ok(),
            ["after", number] => number.parse::<u32>().is_ok(),
            _ => false,
        };
        assert!(is_whole, "{kind} {path}");
    }
    // These are 1,200 words and more, and a block has 512.
    let last = needs.iter().rfind(|(kind, ..)| kind == "Missing").map(|(_, path, _)| path.as_str());
    assert!(needs.contains(&("Missing".into(), "after-299".into(), 0..0)), "the last one is {last:?}");
}

#[test]
fn a_full_log_ends_the_recording_and_nothing_else() {
    let folder = Folder::new(Kind::Program);
    let needs = folder.needs("many", Place::Above, State::Warm);
    let missing = needs.iter().filter(|(kind, ..)| kind == "Missing").count();
    assert!((50_000..=100_000).contains(&missing), "{missing}");
}
