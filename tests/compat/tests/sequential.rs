//! Data in sequence are for the kernel's readahead: the disk gets few more requests, and the program waits at most once for each.

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_compat::guests::build;
use forebay_compat::mounted::launch;
use forebay_compat::run::Side;
use forebay_compat::{Outcome, Scratch, in_some_run, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk, Stats};

const BYTES: usize = 64 << 20;
/// A hint that comes before the kernel's readahead is a request of its own. Without readahead there would be many times as many.
const REQUESTS: f64 = 1.25;

/// What `run` makes of the disk, which is cold: what it prints, and what it asked of the disk.
fn count(disk: &SlowDisk, test: &str, side: Side, argv: &[&str]) -> (Outcome, Stats) {
    disk.make_cold().expect("make the disk cold");
    disk.reset_stats().expect("count from zero");
    let outcome = launch(&Scratch::fresh(scratch::base().join(test)), side, argv);
    (outcome, disk.stats().expect("count requests"))
}

/// How often a guest waited; 0 where it does not tell.
fn waits(outcome: &Outcome) -> f64 {
    let told = String::from_utf8_lossy(&outcome.stderr);
    told.trim().strip_prefix("waits ").and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// How often some program had the kernel drop the page cache: what was in it is read again.
fn drops() -> String {
    let counts = fs::read_to_string("/proc/vmstat").expect("read the kernel's counts");
    counts.lines().find(|line| line.starts_with("drop_pagecache ")).unwrap_or_default().to_owned()
}

/// With forebay, the disk gets few more requests, and the command waits at most once for each. Which of them it waits for is chance.
fn keeps_its_readahead(test: &str, fill: impl Fn(&Path), argv: impl Fn(&str) -> Vec<String>) {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(test, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, 3 * BYTES as u64) {
        Ok(disk) => disk,
        Err(why) => return skip(test, why.to_string()),
    };
    disk.fill(fill).expect("fill the slow disk");
    let argv = argv(disk.mount_point().to_str().expect("a path in UTF-8"));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let [(without, alone), (with, requests)] = in_some_run(|| {
        let drops = drops();
        let sides = [Side::Without, Side::With].map(|side| count(&disk, test, side, &argv));
        if self::drops() == drops { Ok(sides) } else { Err("another program dropped all caches".to_owned()) }
    });
    assert_eq!((with.status, &with.stdout), (without.status, &without.stdout));
    assert_eq!(without.status, 0, "{}", String::from_utf8_lossy(&without.stderr));
    let seen = format!("{:?} of {alone:?} alone, {requests:?} with forebay, {:?}", argv, with.totals());
    assert!(alone.bytes_read >= BYTES as u64 * 3 / 4, "it was not cold: {seen}");
    for (alone, requests) in [(alone.reads, requests.reads), (alone.bytes_read, requests.bytes_read)] {
        assert!(requests as f64 <= alone as f64 * REQUESTS, "{seen}");
    }
    let waits = [&without, &with].map(waits);
    assert!(waits[1] <= waits[0].max(alone.reads as f64) * REQUESTS, "waits: {waits:?}; {seen}");
}

fn noise(root: &Path) {
    let mut bytes = vec![0; BYTES];
    fastrand::Rng::with_seed(5).fill(&mut bytes);
    fs::write(root.join("data"), bytes).expect("write the data");
}

fn guest_keeps_its_readahead(test: &str, way: &str) {
    keeps_its_readahead(test, noise, |root| {
        vec![build("sequential").display().to_string(), format!("{root}/data"), way.to_owned()]
    });
}

#[test]
fn reads_in_sequence_keep_their_readahead() {
    guest_keeps_its_readahead("reads_in_sequence_keep_their_readahead", "read");
}

#[test]
fn a_mapping_in_sequence_keeps_its_readahead() {
    guest_keeps_its_readahead("a_mapping_in_sequence_keeps_its_readahead", "mapping");
}

#[test]
fn a_scan_of_a_table_keeps_its_readahead() {
    const NAME: &str = "a_scan_of_a_table_keeps_its_readahead";
    const ROWS: &str = "create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 64 * 1024)
        insert into t select i, hex(zeroblob(512)) from n;";
    if forebay_compat::run::find_program("sqlite3".as_ref()).is_none() {
        return skip(NAME, "sqlite3 is not installed");
    }
    let fill = |root: &Path| {
        let made = Command::new("sqlite3").arg(root.join("db")).arg(ROWS).status();
        assert!(made.expect("start sqlite3").success(), "the table cannot be made");
    };
    keeps_its_readahead(NAME, fill, |root| {
        let query = "select count(*), sum(length(b)) from t".to_owned();
        vec!["sqlite3".to_owned(), format!("{root}/db"), query]
    });
}
