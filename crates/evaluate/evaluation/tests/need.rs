//! Programs with a known working set: the memory that they are said to need is that.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs;

use forebay_evaluation::Profile;
use forebay_evaluation::servers::server::{Need, NeedOf, NeedOptions, Told, need};
use forebay_lab::{MemoryLimit, SlowDevice, SlowSwap};
use forebay_testkit::{guests, skip};

const MIB: f64 = 1_048_576.0;
/// The knee is so near to the working set.
const NEAR: f64 = 0.05;
/// Of statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// What a command line is said to need, at intervals so short that a test has time for them.
fn of(line: &[&str]) -> Need {
    let line: Vec<OsString> = line.iter().map(OsString::from).collect();
    let options = NeedOptions { of: NeedOf::Command(line), rounds: 1, pairs: 1, seconds: Some(0.1) };
    need(&options, &mut |_| ()).unwrap()
}

#[track_caller]
fn assert_needs(mebibytes: f64, need: &Need) {
    assert!(need.stopped.is_none(), "{:?}", need.stopped);
    let knee = need.knees()[0].unwrap_or_else(|| panic!("{}", need.table()));
    assert!((knee.bytes / MIB / mebibytes - 1.0).abs() <= NEAR, "{}", need.table());
    assert!(knee.low_bytes < knee.bytes && knee.bytes < knee.high_bytes, "{knee:?}");
}

/// Whether memory can be limited here.
fn limits(test: &str) -> bool {
    let supported = MemoryLimit::supported();
    supported.map_err(|why| skip(test, &why)).is_ok()
}

#[test]
fn a_file_that_is_read_in_turn_is_needed_whole() {
    let test = "a_file_that_is_read_in_turn_is_needed_whole";
    if !limits(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if rustix::fs::statfs(folder.path()).unwrap().f_type == TMPFS {
        return skip(test, "the folder of temporary files is in memory; set TMPDIR");
    }
    let file = folder.path().join("set");
    fs::write(&file, vec![7; 24 << 20]).unwrap();
    let program = guests::build("working_set");
    let need = of(&[program.to_str().unwrap(), "cyclic", "24", file.to_str().unwrap()]);
    assert_needs(24.0, &need);
    let rows = need.rows();
    assert!(rows.iter().any(|row| row.metric == "need" && row.unit == "B"), "{rows:?}");
    let limits = rows.iter().filter(|row| row.metric == "missed_pages").count();
    assert!(limits >= 3, "too few for a curve: {rows:?}");
}

#[test]
fn memory_that_is_touched_at_random_is_needed_whole() {
    let test = "memory_that_is_touched_at_random_is_needed_whole";
    if !limits(test) {
        return;
    }
    if let Err(why) = SlowDevice::supported() {
        return skip(test, &why);
    }
    let _swap = SlowSwap::start(Profile::Nvme, 128 << 20).unwrap();
    let program = guests::build("working_set");
    assert_needs(32.0, &of(&[program.to_str().unwrap(), "random", "32"]));
}

#[test]
fn a_program_that_ends_is_measured_by_whole_runs() {
    let test = "a_program_that_ends_is_measured_by_whole_runs";
    if !limits(test) {
        return;
    }
    let need = of(&["sh", "-c", "exit 0"]);
    assert!(need.stopped.is_none() && need.rows().iter().any(|row| row.metric == "runs"), "{}", need.table());
}

#[test]
fn a_program_that_is_missing_or_fails_is_told() {
    if !limits("a_program_that_is_missing_or_fails_is_told") {
        return;
    }
    let error = |line: &[&str]| {
        let line = line.iter().map(OsString::from).collect();
        let options = NeedOptions { of: NeedOf::Command(line), rounds: 1, pairs: 1, seconds: Some(0.1) };
        need(&options, &mut |_| ()).unwrap_err().to_string()
    };
    assert!(error(&["no-such-program"]).contains("there is no program no-such-program"));
    let failed = error(&["sh", "-c", "echo not so; exit 3"]);
    assert!(failed.contains("not so") && failed.contains("exit status: 3"), "{failed}");
}
