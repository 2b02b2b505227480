//! The slow disk is slow by as much as it says, and nothing else about it is special.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_lab::{Error, FileSystem, Profile, SlowDisk};
use forebay_testkit::skip;

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: usize = 4096;
/// How long other programs may keep this machine from a measurement of what the disk allows.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says why and returns nothing where there can be no rig.
fn disk(test: &str, profile: Profile) -> Option<SlowDisk> {
    match SlowDisk::start(profile, 128 * MIB) {
        Err(error @ Error::Unsupported { .. }) => {
            skip(test, &error);
            None
        }
        started => Some(started.unwrap()),
    }
}

fn fill_with_data(disk: &SlowDisk) -> std::path::PathBuf {
    let path = disk.mount_point().join("data");
    let data: Vec<u8> = (0..16 * MIB / 8).flat_map(|word| word.to_le_bytes()).collect();
    disk.fill(|_| fs::write(&path, data)).unwrap().unwrap();
    path
}

/// Reads blocks of a file of [`fill_with_data`] past the page cache, and checks what is read.
struct DirectReader {
    file: File,
    buffer: Vec<u8>,
}

impl DirectReader {
    fn open(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
        Self { file, buffer: vec![0; 2 * BLOCK_BYTES] }
    }

    /// The time of one read, of a block that depends on `number`.
    fn read(&mut self, number: usize) -> Duration {
        let aligned_at = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        let block = &mut self.buffer[aligned_at..][..BLOCK_BYTES];
        let offset = (number * 97 % 4096 * BLOCK_BYTES) as u64;
        let start = Instant::now();
        self.file.read_exact_at(block, offset).unwrap();
        let elapsed = start.elapsed();
        assert_eq!(u64::from_le_bytes(block[..8].try_into().unwrap()), offset / 8);
        elapsed
    }
}

/// Measures until a time is below `bound`: other programs only add to it. Each time is returned by `measure`.
fn comes_below(bound: Duration, what: &str, mut measure: impl FnMut() -> Duration) {
    let begun = Instant::now();
    loop {
        let time = measure();
        if time < bound {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {time:?}, and not below {bound:?}");
    }
}

/// The time of `count` reads by `readers` threads.
fn time_parallel_reads(path: &Path, readers: usize, count: usize) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for first in 0..readers {
            scope.spawn(move || {
                let mut reader = DirectReader::open(path);
                for number in (first..count).step_by(readers) {
                    reader.read(number);
                }
            });
        }
    });
    start.elapsed()
}

#[test]
fn a_lone_read_takes_the_latency_and_parallel_ones_share_it() {
    for (profile, latency_ms, in_parallel) in
        [(Profile::Ssd1Ms, 1, 128), (Profile::Raid12Ms, 12, 4), (Profile::Hdd1Ms, 1, 1)]
    {
        let Some(disk) = disk("a_lone_read_takes_the_latency_and_parallel_ones_share_it", profile) else {
            return;
        };
        let path = fill_with_data(&disk);
        let latency = Duration::from_millis(latency_ms);

        let mut reader = DirectReader::open(&path);
        let mut fastest = || (0..50).map(|number| reader.read(number)).min().unwrap();
        comes_below(latency * 3 / 2, &format!("{profile}: alone"), || {
            let alone = fastest();
            assert!(alone >= latency, "{profile}: {alone:?} alone");
            alone
        });

        let count = 16 * in_parallel.min(32) as usize;
        let one_by_one = latency * count as u32;
        let bound = if in_parallel == 1 { Duration::MAX } else { one_by_one / 2 };
        comes_below(bound, &format!("{profile}: {count} reads"), || {
            let together = time_parallel_reads(&path, 32, count);
            assert!(
                together >= one_by_one / in_parallel.min(32),
                "{profile}: {together:?} for {count} reads"
            );
            together
        });

        disk.device().unwrap().set_latency(false).unwrap();
        comes_below(latency / 2, &format!("{profile}: without latency"), fastest);
    }
}

#[test]
fn a_read_of_the_fastest_takes_its_latency() {
    let Some(disk) = disk("a_read_of_the_fastest_takes_its_latency", Profile::Nvme) else { return };
    let path = fill_with_data(&disk);
    let latency = Profile::Nvme.latency().unwrap().per_request;
    let mut reader = DirectReader::open(&path);
    let mut fastest = || (0..50).map(|number| reader.read(number)).min().unwrap();
    let alone = fastest();
    assert!(alone >= latency, "{alone:?} alone");
    disk.device().unwrap().set_latency(false).unwrap();
    comes_below(alone, "without latency", fastest);
}

#[test]
fn requests_are_counted() {
    let Some(disk) = disk("requests_are_counted", Profile::Ssd1Ms) else { return };
    let path = fill_with_data(&disk);
    let device = disk.device().unwrap();
    device.reset_stats().unwrap();
    time_parallel_reads(&path, 8, 80);
    let stats = device.stats().unwrap();
    assert_eq!(stats.bytes_read, 80 * BLOCK_BYTES as u64);
    assert_eq!((stats.reads, stats.requests() >= 80), (80, true));
    // The file system may write or flush beside the eight readers.
    let in_flight_max = 8 + stats.requests() - stats.reads;
    assert!((2..=in_flight_max).contains(&stats.in_flight_max), "{stats:?}");
}

#[test]
fn everything_is_cold_after_make_cold() {
    let Some(disk) = disk("everything_is_cold_after_make_cold", Profile::Ssd1Ms) else { return };
    let device = disk.device().unwrap();
    let folder = disk.mount_point().join("a/b");
    let path = folder.join("file");
    disk.fill(|_| fs::create_dir_all(&folder).and_then(|()| fs::write(&path, vec![1; 64 << 10])))
        .unwrap()
        .unwrap();
    for _ in 0..2 {
        assert!(disk.make_cold().unwrap().metadata_dropped);
        device.reset_stats().unwrap();
        let start = Instant::now();
        assert_eq!(fs::metadata(&path).unwrap().len(), 64 << 10);
        let looking_up = start.elapsed();
        let metadata = device.stats().unwrap().reads;
        // A directory's block for each of three names, and inodes.
        assert!(metadata >= 3, "{metadata} requests to find a cold file");
        assert!(looking_up >= Duration::from_millis(3), "{looking_up:?} to find a cold file");
        assert_eq!(forebay_lab::cold::resident_pages(&path).unwrap(), Some(0));
        fs::read(&path).unwrap();
        let all = device.stats().unwrap();
        assert!(all.reads > metadata && all.bytes_read >= 64 << 10, "{all:?}");
        fs::read(&path).unwrap();
        assert_eq!(device.stats().unwrap().reads, all.reads, "a second read is warm");
    }
}

#[test]
fn every_file_system_has_what_it_was_last_filled_with_cold_and_goes_with_the_disk() {
    let test = "every_file_system_has_what_it_was_last_filled_with_cold_and_goes_with_the_disk";
    for file_system in FileSystem::ALL {
        match fill_twice(file_system) {
            Err(error @ Error::Unsupported { .. }) => skip(&format!("{file_system} in {test}"), &error),
            filled => filled.unwrap(),
        }
    }
}

fn fill_twice(file_system: FileSystem) -> Result<(), Error> {
    let disk = SlowDisk::with_file_system(Profile::Ssd1Ms, file_system, 512 * MIB)?;
    let path = disk.mount_point().join("below/file");
    for seed in 0..2 {
        // What cannot be compressed has to be read as it is.
        let mut data = vec![0; 256 << 10];
        fastrand::Rng::with_seed(seed).fill(&mut data);
        disk.fill(|at| fs::create_dir_all(at.join("below")).and_then(|()| fs::write(&path, &data)))?.unwrap();
        for _ in 0..2 {
            disk.make_cold()?;
            disk.reset_stats()?;
            assert_eq!(fs::read(&path).unwrap(), data, "{file_system}");
            let stats = disk.stats()?;
            assert!(stats.bytes_read >= data.len() as u64, "{file_system}: {stats:?}");
        }
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let ours = mounts.lines().filter(|line| line.contains(disk.mount_point().to_str().unwrap()));
    // The third field is the kind (fstab(5)); the last mount is the one that is seen.
    assert_eq!(ours.last().unwrap().split(' ').nth(2), Some(file_system.to_string().as_str()));
    let rig = disk.mount_point().parent().unwrap().to_owned();
    drop(disk);
    assert!(!rig.exists(), "{file_system}: {} is left", rig.display());
    Ok(())
}

#[test]
fn making_cold_waits_for_those_who_still_use_the_disk() {
    let Some(disk) = disk("making_cold_waits_for_those_who_still_use_the_disk", Profile::Ssd1Ms) else {
        return;
    };
    let path = fill_with_data(&disk);
    let user = File::open(&path).unwrap();
    let is_used = AtomicBool::new(true);
    thread::scope(|scope| {
        let (is_used, disk) = (&is_used, &disk);
        let making = scope.spawn(move || {
            disk.make_cold().unwrap();
            assert!(!is_used.load(Ordering::SeqCst), "it did not wait for the user");
        });
        // A file system in use cannot be unmounted: as long as it is, making it cold must go on waiting.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            assert!(!making.is_finished() && path.exists());
            thread::yield_now();
        }
        is_used.store(false, Ordering::SeqCst);
        drop(user);
    });
    assert!(path.exists());
}

#[test]
fn a_disk_in_use_for_good_is_named_with_its_user_and_stays() {
    let Some(disk) = disk("a_disk_in_use_for_good_is_named_with_its_user_and_stays", Profile::Ssd1Ms) else {
        return;
    };
    let path = fill_with_data(&disk);
    let user = File::open(&path).unwrap();
    match disk.make_cold() {
        Err(Error::Busy { users, .. }) => assert!(users.contains(&std::process::id().to_string()), "{users}"),
        other => panic!("{other:?}"),
    }
    drop(user);
    assert!(path.exists());
    disk.make_cold().unwrap();
}

#[test]
fn reads_without_waiting_start_the_read() {
    let Some(disk) = disk("reads_without_waiting_start_the_read", Profile::Ssd1Ms) else { return };
    let path = fill_with_data(&disk);
    disk.make_cold().unwrap();
    let file = File::open(&path).unwrap();
    let mut buffer = [0; BLOCK_BYTES];
    let mut read = || {
        let mut buffers = [std::io::IoSliceMut::new(&mut buffer)];
        rustix::io::preadv2(&file, &mut buffers, 8 * MIB, rustix::io::ReadWriteFlags::NOWAIT)
    };
    // The first may find the file's map of blocks cold instead of the data.
    let give_up = Instant::now() + PATIENCE;
    assert_eq!(read(), Err(rustix::io::Errno::AGAIN));
    while read().is_err() {
        assert!(Instant::now() < give_up, "the data never comes");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(buffer[..8], (8 * MIB / 8).to_le_bytes());
}

#[test]
fn read_ahead_can_be_set() {
    let Some(disk) = disk("read_ahead_can_be_set", Profile::Ssd1Ms) else { return };
    let device = disk.device().unwrap();
    let name = device.path().file_name().unwrap().to_str().unwrap();
    let attribute = format!("/sys/block/{name}/queue/read_ahead_kb");
    assert_eq!(fs::read_to_string(&attribute).unwrap().trim(), "128");
    device.set_read_ahead_kib(64).unwrap();
    disk.make_cold().unwrap();
    assert_eq!(fs::read_to_string(&attribute).unwrap().trim(), "64");
}

#[test]
fn what_is_written_takes_as_long() {
    let Some(disk) = disk("what_is_written_takes_as_long", Profile::Raid12Ms) else { return };
    let path = disk.mount_point().join("data");
    fs::write(&path, b"written").unwrap();
    let start = Instant::now();
    File::open(&path).unwrap().sync_all().unwrap();
    // At the least a write, then a flush.
    assert!(start.elapsed() >= Duration::from_millis(24), "{:?}", start.elapsed());
    disk.make_cold().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"written");
}

#[test]
fn the_local_disk_is_a_folder_that_can_be_made_cold() {
    let disk = SlowDisk::start(Profile::Local, 0).unwrap();
    let path = disk.mount_point().join("data");
    fs::write(&path, vec![3; MIB as usize]).unwrap();
    assert_eq!(forebay_lab::cold::resident_pages(&path).unwrap(), Some(MIB / 4096));
    let report = disk.make_cold().unwrap();
    assert_eq!((report.files, report.bytes, report.is_cold()), (1, MIB, true), "{report:?}");
    assert_eq!(forebay_lab::cold::resident_pages(&path).unwrap(), Some(0));
    // Root in a container may not.
    let allowed = OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches").is_ok();
    assert_eq!(report.metadata_dropped, allowed);
}
