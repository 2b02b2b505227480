//! The remote file system keeps files as any other does, counts requests by kind, and answers each after its latency.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_lab::{Error, Opens, Profile, SlowDisk};
use forebay_testkit::skip;

const LATENCY: Duration = Duration::from_millis(5);

/// Says why and returns nothing where there can be no rig.
fn remote(test: &str) -> Option<SlowDisk> {
    match SlowDisk::start(Profile::Remote, 0) {
        Err(error @ Error::Unsupported { .. }) => {
            skip(test, &error);
            None
        }
        started => Some(started.unwrap()),
    }
}

#[test]
fn files_are_kept_while_caches_are_emptied() {
    let Some(disk) = remote("files_are_kept_while_caches_are_emptied") else { return };
    let names: BTreeSet<String> = (0..1_000).map(|number| format!("file{number}")).collect();
    disk.fill(|root| {
        fs::create_dir(root.join("folder")).unwrap();
        for name in &names {
            fs::write(root.join("folder").join(name), name.repeat(2_000)).unwrap();
        }
        fs::rename(root.join("folder"), root.join("moved")).unwrap();
        fs::hard_link(root.join("moved/file7"), root.join("linked")).unwrap();
        fs::remove_file(root.join("moved/file7")).unwrap();
        std::os::unix::fs::symlink("moved/file8", root.join("link")).unwrap();
    })
    .unwrap();
    disk.make_cold().unwrap();
    disk.set_latency(false).unwrap();
    let root = disk.mount_point();
    let listed = fs::read_dir(root.join("moved")).unwrap();
    let listed: BTreeSet<String> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed, names.iter().filter(|name| *name != "file7").cloned().collect());
    for name in &listed {
        assert_eq!(fs::read_to_string(root.join("moved").join(name)).unwrap(), name.repeat(2_000));
    }
    assert_eq!(fs::read_to_string(root.join("linked")).unwrap(), "file7".repeat(2_000));
    assert_eq!(fs::read_to_string(root.join("link")).unwrap(), "file8".repeat(2_000));
    fs::remove_dir_all(root.join("moved")).unwrap();
    assert!(!root.join("moved").exists());
}

#[test]
fn each_kind_of_request_is_counted_and_takes_its_time() {
    let Some(disk) = remote("each_kind_of_request_is_counted_and_takes_its_time") else { return };
    let path = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&path, vec![7; 1 << 20])).unwrap().unwrap();
    disk.make_cold().unwrap();
    disk.reset_stats().unwrap();
    let start = Instant::now();
    let file = File::open(&path).unwrap();
    file.read_exact_at(&mut [0; 1], 0).unwrap();
    let stats = disk.stats().unwrap();
    assert_eq!((stats.look_ups, stats.opens, stats.listings, stats.writes), (1, 1, 0, 0));
    assert!(stats.reads >= 1 && stats.bytes_read >= 4096, "{stats:?}");
    assert!(start.elapsed() >= 3 * LATENCY);
    // What the kernel keeps takes no request.
    let reads = stats.reads;
    file.read_exact_at(&mut [0; 1], 0).unwrap();
    assert_eq!(disk.stats().unwrap().reads, reads);
    assert_eq!(fs::read_dir(disk.mount_point()).unwrap().count(), 1);
    assert!(disk.stats().unwrap().listings >= 1);
}

#[test]
fn many_requests_are_served_at_once() {
    let Some(disk) = remote("many_requests_are_served_at_once") else { return };
    disk.fill(|root| {
        for number in 0..64 {
            fs::write(root.join(number.to_string()), "x").unwrap();
        }
    })
    .unwrap();
    disk.make_cold().unwrap();
    disk.reset_stats().unwrap();
    std::thread::scope(|scope| {
        for number in 0..64 {
            let path = disk.mount_point().join(number.to_string());
            scope.spawn(move || assert_eq!(fs::read_to_string(path).unwrap(), "x"));
        }
    });
    let stats = disk.stats().unwrap();
    assert!(stats.in_flight_max > 8, "{stats:?}");
}

#[test]
fn opens_are_what_they_are_set_to_be() {
    let Some(disk) = remote("opens_are_what_they_are_set_to_be") else { return };
    let path = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&path, vec![7; 4096])).unwrap().unwrap();
    // Requests to the other end and reads, of two opens of a file, each with a read.
    let requests = |opens| {
        disk.set_opens(opens).unwrap();
        disk.make_cold().unwrap();
        let file = File::open(&path).unwrap();
        disk.reset_stats().unwrap();
        for file in [file, File::open(&path).unwrap()] {
            file.read_exact_at(&mut [0; 1], 0).unwrap();
        }
        let stats = disk.stats().unwrap();
        assert_eq!(stats.opens, 1);
        stats
    };
    let kept = requests(Opens { at_once: false, keep_data: true });
    assert_eq!((kept.reads, kept.in_flight_max), (1, 1));
    let at_once = requests(Opens { at_once: true, keep_data: true });
    assert_eq!(at_once.reads, 1);
    // An open that is answered at once is never under way.
    disk.reset_stats().unwrap();
    drop(File::open(&path).unwrap());
    let stats = disk.stats().unwrap();
    assert_eq!((stats.opens, stats.in_flight_max), (1, 0));
    // The second open empties the cache between two reads.
    disk.set_opens(Opens { at_once: false, keep_data: false }).unwrap();
    disk.make_cold().unwrap();
    disk.reset_stats().unwrap();
    for _ in 0..2 {
        File::open(&path).unwrap().read_exact_at(&mut [0; 1], 0).unwrap();
    }
    assert_eq!(disk.stats().unwrap().reads, 2);
}

#[test]
fn held_requests_are_answered_when_the_latency_is_off() {
    let Some(disk) = remote("held_requests_are_answered_when_the_latency_is_off") else { return };
    let names = ["held-lookup", "held-open", "held-read"];
    disk.fill(|root| names.map(|name| fs::write(root.join(name), name).unwrap())).unwrap();
    disk.make_cold().unwrap();
    let paths: Vec<PathBuf> = names.iter().map(|name| disk.mount_point().join(name)).collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            paths.iter().map(|path| scope.spawn(move || fs::read_to_string(path))).collect();
        let unanswered = || disk.stats().unwrap();
        let give_up = Instant::now() + Duration::from_secs(10);
        while unanswered().reads == 0 && Instant::now() < give_up {
            std::thread::sleep(LATENCY);
        }
        let held = readers.iter().all(|reader| !reader.is_finished());
        disk.set_latency(false).unwrap();
        for (reader, name) in readers.into_iter().zip(names) {
            assert_eq!(reader.join().unwrap().unwrap(), name);
        }
        assert!(held);
    });
}

#[test]
fn nothing_is_mounted_when_it_is_gone() {
    let Some(disk) = remote("nothing_is_mounted_when_it_is_gone") else { return };
    let folder = disk.mount_point().to_owned();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(mounts().contains(folder.to_str().unwrap()));
    drop(disk);
    assert!(!mounts().contains(folder.to_str().unwrap()) && !folder.exists());
}
