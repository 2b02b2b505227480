//! One device: how many requests it takes at once, and which are under way.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use forebay_policy::{estimate::StallTime, inflight::InflightLimit, price::REMOTE_WORTH_US};
use forebay_protocol::{
    layout::{Device, file_system},
    mounts::{BlockDevice, LOOP_DIRECT, Mount},
};
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};

use super::{Begun, Ticket, lock, sharing::Sharing};
use crate::{channel::Channel, ffi};

/// Requests in flight on a device that has no place in the channel, or of which nothing is told.
const DEPTH_UNKNOWN: u32 = 16;
/// A request that takes so many times what one alone takes is late by far.
const LATE_TIMES: u64 = 32;

/// One device.
pub(super) struct Gate {
    /// Its place in the channel, if there was room.
    pub entry: Option<&'static Device>,
    /// A faster read was answered from memory and tells nothing.
    pub device_ticks_min: u64,
    /// A remote file system that answers a request sooner is not worth hints.
    pub worth_ticks_min: u64,
    pub depth_first: u32,
    /// The most that its file system should be asked at once.
    pub depth_max: u32,
    pub waiting: Mutex<Waiting>,
    /// A request was completed.
    completed: Condvar,
    /// A file has told whether the file system keeps data, or could not.
    probed: Condvar,
    pub begun: Arc<Begun>,
    pub sharing: Sharing,
}

/// Requests under way on one device.
#[derive(Default)]
pub(super) struct Waiting {
    pub next: u64,
    /// By number: when each began, and what waits for it.
    pub started: BTreeMap<u64, (u64, Ticket)>,
    /// Requests whose time was taken.
    pub completed: u64,
    /// The device takes no more.
    pub closed: bool,
    /// It is being found out whether the file system keeps data.
    pub probing: bool,
    /// Threads that wait for a request to be completed.
    threads: usize,
    /// One of them is awake, and has not looked yet.
    is_coming: bool,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// Of a device with a place in `channel` if there is room. `depth_first` is as in [`super::Devices::new`].
    pub fn new(channel: &Channel, device: u64, depth_first: u32, begun: Arc<Begun>) -> Self {
        let header = channel.header();
        let id = device.wrapping_add(1);
        let claim = |entry: &&Device| {
            let claimed = entry.id.compare_exchange(0, id, AcqRel, Acquire);
            claimed.map_or_else(|owner| owner == id, |_| true)
        };
        let entry = header.devices.iter().find(claim).filter(|_| id != 0);
        let closed = learn_kind(entry, device);
        Self {
            entry,
            device_ticks_min: header.stall_ticks_min.load(Relaxed),
            worth_ticks_min: header.ticks_per_second.load(Relaxed) / 1_000_000 * REMOTE_WORTH_US,
            depth_first,
            depth_max: served_at_once(device).map_or(DEPTH_UNKNOWN, |served| (served / 2).max(1)),
            waiting: Mutex::new(Waiting { closed, ..Waiting::default() }),
            completed: Condvar::new(),
            probed: Condvar::new(),
            begun,
            sharing: Sharing::default(),
        }
    }

    /// Waits for a request to be completed.
    pub fn wait<'a>(&'a self, mut waiting: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        waiting.threads += 1;
        waiting = self.completed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        waiting.threads -= 1;
        waiting.is_coming = false;
        waiting
    }

    /// Wakes a thread that waits for its turn, if there is room. One at a time: each notice is a system call, and the caller
    /// often takes the next turn itself before the other is awake.
    pub fn wake_next(&self, waiting: &mut Waiting) {
        if waiting.threads > 0 && !waiting.is_coming && !self.is_full(waiting) {
            waiting.is_coming = true;
            self.completed.notify_one();
        }
    }

    /// Waits until a file has told whether data is kept.
    pub fn wait_for_probe<'a>(&'a self, waiting: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        self.probed.wait(waiting).unwrap_or_else(PoisonError::into_inner)
    }

    /// No file finds that out for now.
    pub fn end_probe(&self) {
        lock(&self.waiting).probing = false;
        self.probed.notify_all();
    }

    /// Whether the device takes no further request for now.
    pub fn is_full(&self, waiting: &Waiting) -> bool {
        waiting.started.len() as u32 >= self.limit()
    }

    pub fn tell(&self, depth: u32) {
        if let Some(entry) = self.entry {
            entry.executing.store(depth, Relaxed);
        }
    }

    pub fn has(&self, bit: u32) -> bool {
        self.entry.is_some_and(|entry| entry.file_system.load(Relaxed) & bit != 0)
    }

    pub fn is_remote(&self) -> bool {
        self.has(file_system::REMOTE)
    }

    pub fn limit(&self) -> u32 {
        let learned = self.entry.map_or(DEPTH_UNKNOWN, |entry| {
            let limit = InflightLimit::load(&entry.limit);
            let is_learned = limit.serves_at_once().is_some();
            if is_learned { limit.limit() } else { limit.limit().max(self.depth_first) }
        });
        if self.is_remote() { learned.min(self.depth_max) } else { learned }
    }

    pub fn close(&self, waiting: &mut Waiting) {
        waiting.closed = true;
        self.completed.notify_all();
        self.probed.notify_all();
        if let Some(entry) = self.entry {
            entry.file_system.fetch_or(file_system::CLOSED, Relaxed);
        }
    }

    /// Whether hints pay on a remote file system: it serves several requests at once, and takes longer for one than the hint
    /// takes it and the executor.
    pub fn pays(&self, limit: &InflightLimit) -> bool {
        // Of the program's own requests some may be answered by what the file system keeps, and others by another machine.
        let stall = self.entry.map_or(0, |entry| StallTime::load(&entry.stall).ticks());
        let request = if stall == 0 { limit.base_ticks() } else { stall };
        let serves_one = limit.serves_at_once() == Some(1);
        !serves_one && (request == 0 || request >= self.worth_ticks_min)
    }

    /// Nothing waits for requests that are late by far. A remote file system that has one gets no more.
    pub fn give_up_late(&self, late_min: u64) {
        let base = self.entry.map_or(0, |entry| InflightLimit::load(&entry.limit).base_ticks());
        let late = base.saturating_mul(LATE_TIMES).max(late_min);
        let now = ffi::ticks();
        let mut waiting = lock(&self.waiting);
        let is_late = |(started, _): &&(u64, Ticket)| now.saturating_sub(*started) > late;
        let given_up: Vec<Ticket> =
            waiting.started.values().filter(is_late).map(|(_, ticket)| ticket.clone()).collect();
        if !given_up.is_empty() && self.is_remote() {
            self.close(&mut waiting);
        }
        drop(waiting);
        given_up.iter().for_each(Ticket::finish);
    }
}

/// Learns what kind of file system the device has. Whether that is asked for nothing from the beginning.
fn learn_kind(entry: Option<&Device>, device: u64) -> bool {
    // Paths in it may have any bytes.
    let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return false };
    let mut mounts = mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse);
    // A device may have none: that of a folder of btrfs which is no mount, or one outside of our root.
    let mount = mounts.find(|mount| mount.is_of((major(device), minor(device)), device_at));
    let is_remote = mount.is_some_and(|mount| mount.is_remote);
    let closed = mount.is_some_and(|mount| is_buffered_loop(Path::new("/sys"), &mount));
    if let Some(entry) = entry {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let kind = bit(is_remote, file_system::REMOTE) | bit(closed, file_system::CLOSED);
        entry.file_system.fetch_or(file_system::KNOWN | kind, Relaxed);
    }
    closed
}

/// What a place tells of its device. No file system is asked for that.
fn device_at(path: &[u8]) -> Option<(u32, u32)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let stat = statx(CWD, OsStr::from_bytes(path), flags, StatxFlags::empty()).ok()?;
    Some((stat.stx_dev_major, stat.stx_dev_minor))
}

/// Whether it lies in a file that the kernel reads through its cache, as a loop device does by default. Such a device serves one
/// request after the other, and reads ahead in that file where they come in order. So hints gain nothing, and disturb that.
fn is_buffered_loop(sysfs: &Path, mount: &Mount<'_>) -> bool {
    let device = match mount.block_device() {
        Some(BlockDevice::Number(major, minor)) => sysfs.join(format!("dev/block/{major}:{minor}")),
        Some(BlockDevice::Name(name)) => sysfs.join("class/block").join(OsStr::from_bytes(name)),
        None => return false,
    };
    LOOP_DIRECT.iter().any(|path| fs::read(device.join(path)).is_ok_and(|direct| direct.starts_with(b"0")))
}

/// How many requests a FUSE file system takes at once that nothing waits for; `None` for any other.
fn served_at_once(device: u64) -> Option<u32> {
    let path = format!("/sys/fs/fuse/connections/{}/max_background", minor(device));
    // Other file systems without a device have numbers of the same kind.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn loop_devices_that_read_through_the_cache_are_told() {
        let place = tempfile::tempdir().unwrap();
        let sysfs = place.path();
        for (name, device, direct) in [("loop0", "7:0", "0\n"), ("loop1", "7:1", "1\n")] {
            let folder = sysfs.join("devices").join(name);
            let part = folder.join(format!("{name}p1"));
            fs::create_dir_all(folder.join("loop")).unwrap();
            fs::create_dir_all(&part).unwrap();
            fs::write(folder.join("loop/dio"), direct).unwrap();
            for (links, link, to) in [
                ("class/block", name.to_owned(), &folder),
                ("class/block", format!("{name}p1"), &part),
                ("dev/block", device.to_owned(), &folder),
                ("dev/block", device.replace("7:", "259:"), &part),
            ] {
                fs::create_dir_all(sysfs.join(links)).unwrap();
                symlink(to, sysfs.join(links).join(link)).unwrap();
            }
        }
        let is_told = |device: &str, source: &str| {
            let line = format!("36 35 {device} / /mnt ro - kind {source} ro");
            is_buffered_loop(sysfs, &Mount::parse(line.as_bytes()).unwrap())
        };
        for (device, source, expected) in [
            ("7:0", "/dev/loop0", true),
            ("259:0", "/dev/loop0p1", true),
            ("0:40", "/dev/loop0", true),
            ("0:40", "/dev/loop0p1", true),
            ("7:1", "/dev/loop1", false),
            ("259:1", "/dev/loop1p1", false),
            ("0:40", "/dev/loop1", false),
            ("0:41", "tmpfs", false),
            ("254:0", "/dev/vda", false),
        ] {
            assert_eq!(is_told(device, source), expected, "{device} {source}");
        }
    }
}
