//! Files beside those that a program opens are read ahead, where the contents of one tell which is next, or the program has no agent,
//! and nothing else is different.

use std::path::Path;
use std::{fs, io, iter};

use forebay_compat::run::Side;
use forebay_compat::{Case, in_some_run, skip, switch};
use forebay_lab::{Profile, SlowDisk};

/// Not one of a version manager's scripts.
const PYTHON: &str = "/usr/bin/python3";
/// Files of a folder, all of which are needed.
const FILES: u64 = 200;
/// So many of them must have been read ahead and needed in some run.
const USED_MIN: f64 = 40.0;
const DISK_BYTES: u64 = 64 << 20;

fn name(number: u64) -> String {
    format!("{number:03}.unit")
}

/// The file that is needed next.
fn after(number: u64) -> u64 {
    (number * 61 + 7) % FILES
}

/// A folder of files, each of which begins with the number of one that is needed next. All of them are reached from the first one.
fn fill(folder: &Path) -> io::Result<()> {
    let body = "x".repeat(6_000);
    (0..FILES).try_for_each(|number| {
        fs::write(folder.join(name(number)), format!("{}\n{number}\n{body}", name(after(number))))
    })
}

/// Follows the chain, and adds up what the files say.
const FOLLOWS: &str = "import sys\n\
    name, seen, total = '000.unit', 0, 0\n\
    while seen < int(sys.argv[2]):\n \
        lines = open(sys.argv[1] + '/' + name).read().split('\\n')\n \
        name, seen, total = lines[0], seen + 1, total + seen * int(lines[1])\n\
    print(seen, total)";

#[test]
fn neighbours_of_files_that_are_read_are_read_ahead() {
    are_used("neighbours", |folder| {
        [PYTHON, "-c", FOLLOWS, folder, &FILES.to_string()].map(str::to_owned).to_vec()
    });
}

#[test]
fn neighbours_of_what_a_static_program_waits_for_are_read_ahead() {
    are_used("neighbours_static", |folder| {
        let chain = iter::successors(Some(0), |number| Some(after(*number)));
        let files = chain.take(FILES as usize).map(|number| format!("{folder}/{}", name(number)));
        ["busybox", "cat"].map(str::to_owned).into_iter().chain(files).collect()
    });
}

/// The program on a cold folder does the same with and without forebay, which reads ahead what it needs later.
fn are_used(test: &'static str, argv: impl Fn(&str) -> Vec<String>) {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(test, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, DISK_BYTES) {
        Ok(disk) => disk,
        Err(why) => return skip(test, why.to_string()),
    };
    disk.fill(fill).expect("fill the slow disk").expect("write the files");
    let argv = argv(disk.mount_point().to_str().expect("a plain path"));
    let run = |side| {
        let _ = disk.make_cold().expect("empty the caches of the slow disk");
        Case::new(test, argv.clone()).options(&["--no-profile"]).run(side)
    };
    let _ = in_some_run(|| {
        let (without, with) = (run(Side::Without), run(Side::With));
        assert!(with.complaints.is_empty(), "{:?}", with.complaints);
        assert_eq!(
            (with.status, &with.stdout, &with.stderr),
            (without.status, &without.stdout, &without.stderr)
        );
        with.wanted(|with| with.figure("neighbour_reads_used") >= USED_MIN)
    });
}
