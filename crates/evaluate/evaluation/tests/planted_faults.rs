//! Servers with a known fault each: the verdict names it.
#![forbid(unsafe_code)]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_evaluation::Profile;
use forebay_evaluation::servers::server::{Finding, Limit, Verdict};
use forebay_lab::{MemoryLimit, SlowDevice, SlowDisk, SlowSwap};
use forebay_testkit::{artifacts, skip};
use support::{Planted, assert_named, turn};

/// Of statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// What is said of a server with this fault, which may have a file, under a load of eight clients.
fn diagnose(attempt: u32, fault: &str, file: Option<&Path>, settings: &[&str]) -> (Verdict, String) {
    run(attempt, fault, file, settings, false)
}

fn run(
    attempt: u32,
    fault: &str,
    file: Option<&Path>,
    settings: &[&str],
    simulate: bool,
) -> (Verdict, String) {
    let program = artifacts::example("forebay-evaluation", "faulty_server").unwrap();
    // A program that becomes the server, as a shell may, is simulated no further than to there.
    let mut server = if simulate { vec!["env"] } else { vec![] };
    server.extend([program.to_str().unwrap(), fault, "{port}"]);
    server.extend(file.map(|file| file.to_str().unwrap()));
    Planted { name: fault, server: &server, settings, simulate }.run(attempt)
}

#[test]
fn a_busy_loop_is_the_processors() {
    let _turn = turn();
    // Nothing that was counted could tell it from caches.
    assert_named(
        Limit::Processor,
        |attempt| diagnose(attempt, "busy-loop", None, &[]),
        |verdict| verdict.findings.is_empty() && verdict.undecided.len() == 1,
    );
}

#[test]
fn a_stride_that_defeats_caches_is_told_from_a_busy_loop_by_a_simulation() {
    let _turn = turn();
    if which("valgrind").is_none() {
        return skip("a_stride_that_defeats_caches", "valgrind is not installed");
    }
    assert_named(Limit::Cache, |attempt| run(attempt, "stride", None, &[], true), |_| true);
    if !forebay_testkit::long() {
        return;
    }
    let decided = |verdict: &Verdict| verdict.undecided.is_empty();
    assert_named(Limit::Processor, |attempt| run(attempt, "busy-loop", None, &[], true), decided);
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[test]
fn threads_behind_one_lock_are_the_locks() {
    let _turn = turn();
    assert_named(Limit::Lock, |attempt| diagnose(attempt, "convoy", None, &[]), |_| true);
}

#[test]
fn answers_in_two_small_writes_are_the_networks() {
    let _turn = turn();
    assert_named(Limit::Network, |attempt| diagnose(attempt, "small-writes", None, &[]), |_| true);
}

#[test]
fn a_small_buffer_is_found_beside_the_processor() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    fs::write(&file, vec![0; 64 << 10]).unwrap();
    let small = |verdict: &Verdict| matches!(verdict.findings[..], [Finding::SmallCalls { .. }]);
    assert_named(Limit::Processor, |attempt| diagnose(attempt, "small-buffer", Some(&file), &[]), small);
}

#[test]
fn a_slow_disk_is_the_disks() {
    let _turn = turn();
    if let Err(why) = SlowDevice::supported() {
        return skip("a_slow_disk_is_the_disks", &why);
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, 64 << 20).unwrap();
    let file = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&file, vec![7; 32 << 20])).unwrap().unwrap();
    disk.make_cold().unwrap();
    assert_named(Limit::Disk, |attempt| diagnose(attempt, "slow-disk", Some(&file), &[]), |_| true);
}

#[test]
fn a_working_set_that_does_not_fit_is_the_virtual_memorys() {
    let _turn = turn();
    if let Err(why) = MemoryLimit::supported().and_then(|()| SlowDevice::supported()) {
        return skip("a_working_set_that_does_not_fit_is_the_virtual_memorys", &why);
    }
    let _swap = SlowSwap::start(Profile::Ssd1Ms, 256 << 20).unwrap();
    let nothing_else = |verdict: &Verdict| verdict.findings.is_empty();
    assert_named(
        Limit::VirtualMemory,
        |attempt| diagnose(attempt, "swap", None, &["memory=48M"]),
        nothing_else,
    );
}

/// A file on a disk, and nothing of it in memory.
fn cold_file(folder: &Path, bytes: usize) -> PathBuf {
    let path = folder.join("data");
    let mut file = fs::File::create(&path).unwrap();
    (0..bytes >> 20).for_each(|_| file.write_all(&[7; 1 << 20]).unwrap());
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    path
}

#[test]
fn a_mapped_file_larger_than_its_group_is_the_virtual_memorys_however_fast_the_disk() {
    let _turn = turn();
    let test = "a_mapped_file_larger_than_its_group_is_the_virtual_memorys_however_fast_the_disk";
    if let Err(why) = MemoryLimit::supported() {
        return skip(test, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    if rustix::fs::statfs(folder.path()).unwrap().f_type == TMPFS {
        return skip(test, "the folder of temporary files is in memory; set TMPDIR");
    }
    let file = cold_file(folder.path(), 128 << 20);
    assert_named(
        Limit::VirtualMemory,
        |attempt| diagnose(attempt, "mapped", Some(&file), &["memory=24M"]),
        |_| true,
    );
}

#[test]
fn pages_read_once_from_a_slow_disk_are_the_disks_however_much_memory_there_is() {
    let _turn = turn();
    if let Err(why) = SlowDevice::supported() {
        return skip("pages_read_once_from_a_slow_disk_are_the_disks", &why);
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, 160 << 20).unwrap();
    let file = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&file, vec![7; 128 << 20])).unwrap().unwrap();
    let cold = |attempt| {
        disk.make_cold().unwrap();
        diagnose(attempt, "cold-read", Some(&file), &[])
    };
    assert_named(Limit::Disk, cold, |_| true);
}

#[test]
fn a_leak_that_thrashes_is_found_beside_the_virtual_memory() {
    let _turn = turn();
    if let Err(why) = MemoryLimit::supported().and_then(|()| SlowDevice::supported()) {
        return skip("a_leak_that_thrashes_is_found_beside_the_virtual_memory", &why);
    }
    let _swap = SlowSwap::start(Profile::Ssd1Ms, 2 << 30).unwrap();
    let grows = |verdict: &Verdict| matches!(verdict.findings[..], [Finding::Growth { .. }]);
    assert_named(Limit::VirtualMemory, |attempt| diagnose(attempt, "leak", None, &["memory=32M"]), grows);
}
