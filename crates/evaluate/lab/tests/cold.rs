//! What is evicted is out of memory, and what is not is reported.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_lab::cold::{self, Extent};
use forebay_lab::{Profile, SlowDisk};

#[test]
fn folders_are_evicted_to_the_bottom_without_following_links() {
    let disk = SlowDisk::start(Profile::Local, 0).unwrap();
    let inside = disk.mount_point().join("inside");
    let outside = disk.mount_point().join("outside");
    fs::create_dir_all(inside.join("a/b")).unwrap();
    for path in ["one", "a/two", "a/b/three"] {
        fs::write(inside.join(path), vec![1; 100_000]).unwrap();
    }
    fs::write(inside.join("empty"), "").unwrap();
    fs::write(&outside, vec![1; 100_000]).unwrap();
    symlink(&outside, inside.join("link")).unwrap();
    let report = cold::evict(&[&inside], Extent::Data).unwrap();
    assert_eq!((report.files, report.bytes), (4, 300_000));
    assert!(report.is_cold() && report.unverified.is_empty() && !report.metadata_dropped, "{report:?}");
    assert_eq!(cold::resident_pages(&inside.join("a/b/three")).unwrap(), Some(0));
    assert_eq!(cold::resident_pages(&outside).unwrap(), Some(25));
}

#[test]
fn what_a_program_has_mapped_stays_and_is_reported() {
    let disk = SlowDisk::start(Profile::Local, 0).unwrap();
    let program = disk.mount_point().join("sleep");
    forebay_testkit::copy_program("/bin/sleep", &program);
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    // On a busy machine it may not have begun yet.
    let stat = format!("/proc/{}/stat", running.id());
    let begun = Instant::now();
    while !fs::read_to_string(&stat).unwrap().contains(") S ") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = cold::evict(&[&program], Extent::Data).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(!report.is_cold());
    assert_eq!(report.resident[0].path, program);
    assert!(report.resident[0].pages > 0);
    assert!(cold::evict(&[&program], Extent::Data).unwrap().is_cold());
}

#[test]
fn a_pipe_or_a_missing_path_does_not_hang_or_pass() {
    let disk = SlowDisk::start(Profile::Local, 0).unwrap();
    let made = Command::new("mkfifo").arg(disk.mount_point().join("pipe")).status().unwrap();
    assert!(made.success());
    File::create(disk.mount_point().join("file")).unwrap();
    assert_eq!(cold::evict(&[disk.mount_point()], Extent::Data).unwrap().files, 1);
    let missing = cold::evict(&[disk.mount_point().join("missing")], Extent::Data).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}
