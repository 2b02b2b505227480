//! Threads that fault through a large mapped file do the same with `forebay run` as without, and the file is read ahead of them.

use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Outcome, Scratch, in_some_run, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk};

const FILE_BYTES: usize = 256 << 20;
const PAGES: f64 = (FILE_BYTES / 4096) as f64;
/// A replay would know the pages from the run before.
const ALONE: &[&str] = &["--no-profile"];

/// A slow disk with the file `data`.
fn slow_disk(name: &str) -> Option<SlowDisk> {
    if switch("FOREBAY_COMPAT_PLAIN") {
        skip(name, "both sides run without forebay");
        return None;
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, 2 * FILE_BYTES as u64);
    let disk = disk.map_err(|why| skip(name, why.to_string())).ok()?;
    let place = Scratch::fresh(scratch::base().join(name));
    let data = place.noise("data", FILE_BYTES, 3).at("data");
    let copied = disk.fill(|folder| std::fs::copy(data, folder.join("data")));
    let _ = copied.expect("fill the slow disk").expect("copy the data");
    Some(disk)
}

fn case(disk: &SlowDisk, name: &'static str, arguments: &[&str]) -> Case {
    disk.make_cold().expect("empty the caches of the slow disk");
    let data = disk.mount_point().join("data");
    let argv = [build("mapped_storm").into_os_string(), data.into()].into_iter();
    Case::new(name, argv.chain(arguments.iter().map(Into::into))).options(ALONE)
}

/// What comes of the guest with these arguments, after it was the same as without forebay.
fn outcome(disk: &SlowDisk, name: &'static str, arguments: &[&str]) -> Outcome {
    let without = case(disk, name, arguments).run(Side::Without);
    let with = case(disk, name, arguments).run(Side::With);
    assert!(with.complaints.is_empty(), "{:?}", with.complaints);
    assert_eq!((with.status, &with.stdout, &with.stderr), (without.status, &without.stdout, &without.stderr));
    with
}

/// In some run most of the file is read ahead, and few pages are waited for.
fn is_streamed(name: &'static str, arguments: &[&str]) {
    let Some(disk) = slow_disk(name) else { return };
    let _ = in_some_run(|| {
        let with = outcome(&disk, name, arguments);
        let (bytes, used) = (with.figure("stream_bytes"), with.figure("stream_bytes_used"));
        assert!(used <= bytes, "{used} of {bytes} bytes are used");
        with.wanted(|with| bytes >= FILE_BYTES as f64 / 2.0 && with.figure("major_faults") < PAGES / 4.0)
    });
}

#[test]
fn a_storm_of_faults_becomes_a_stream() {
    is_streamed("storm_private", &["32", "0"]);
}

#[test]
fn a_storm_in_a_child_becomes_a_stream() {
    is_streamed("storm_child", &["32", "0", "child"]);
}

#[test]
fn a_storm_in_a_shared_mapping_becomes_a_stream() {
    is_streamed("storm_shared", &["32", "0", "shared"]);
}

/// What is read for nothing is worth a part of the waits.
#[test]
fn look_ups_in_a_large_file_have_little_of_it_read() {
    const NAME: &str = "storm_look_ups";
    let Some(disk) = slow_disk(NAME) else { return };
    for threads in ["1", "4"] {
        let bytes = outcome(&disk, NAME, &[threads, "500"]).figure("stream_bytes");
        assert!(bytes <= FILE_BYTES as f64 / 4.0, "{bytes} bytes for 500 pages");
    }
}

/// A stream takes at most a quarter of what the program's group has left.
#[test]
fn a_stream_keeps_to_the_memory_of_the_group() {
    const NAME: &str = "storm_limited";
    const LIMIT_MIB: u64 = 64;
    let Some(disk) = slow_disk(NAME) else { return };
    let obstacle = forebay_compat::memory::obstacle();
    if let Some(why) = obstacle {
        return skip(NAME, why.to_string());
    }
    in_some_run(|| {
        let with = case(&disk, NAME, &["16", "16000"]).memory_limit(LIMIT_MIB).run(Side::With);
        assert!(with.complaints.is_empty(), "{:?}", with.complaints);
        let bytes = with.figure("stream_bytes");
        assert!(bytes <= (LIMIT_MIB << 20) as f64 / 4.0, "{bytes} bytes: {}", with.stats);
        if bytes > 0.0 { Ok(()) } else { Err(format!("nothing was read ahead: {}", with.stats)) }
    });
}
