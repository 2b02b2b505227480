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

use forebay_policy::{
    estimate::StallTime,
    inflight::InflightLimit,
    price::{IN_FLIGHT_UNKNOWN, LATE_TIMES, READ_AHEAD_FAR_KIB, REMOTE_JUDGED_AFTER, REMOTE_WORTH_US},
};
use forebay_protocol::{
    layout::{Device, file_system},
    mounts::{BlockDevice, Mount},
};
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};

use super::{Begun, Ticket, lock, sharing::Sharing};
use crate::{channel::Channel, ffi};

/// One device.
pub(super) struct Gate {
    /// Its place in the channel, if there was room.
    pub entry: Option<&'static Device>,
    /// A faster read was answered from memory and tells nothing.
    pub device_ticks_min: u64,
    /// A remote file system is not worth hints while it answers requests sooner.
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
            depth_max: served_at_once(device).map_or(IN_FLIGHT_UNKNOWN, |served| (served / 2).max(1)),
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
        let learned = self.entry.map_or(IN_FLIGHT_UNKNOWN, |entry| {
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

    /// Whether no request is to be made: for good, or as long as hints do not pay.
    pub fn refuses(&self, waiting: &Waiting) -> bool {
        waiting.closed || self.is_remote() && waiting.completed >= REMOTE_JUDGED_AFTER && !self.pays()
    }

    /// Whether hints pay on a remote file system: one request takes longer than a hint takes the file system and the executor. What
    /// the program waits for tells it, also while there are no hints.
    fn pays(&self) -> bool {
        let Some(entry) = self.entry else { return true };
        // Of the program's own requests some may be answered by what the file system keeps, and others by another machine.
        let stall = StallTime::load(&entry.stall).ticks();
        let request = if stall == 0 { InflightLimit::load(&entry.limit).base_ticks() } else { stall };
        request == 0 || request >= self.worth_ticks_min
    }

    /// A request was completed, and its time taken. A remote file system that serves one at a time gets no more.
    pub fn judge(&self, waiting: &mut Waiting, limit: &InflightLimit) {
        waiting.completed += 1;
        if self.is_remote() && waiting.completed >= REMOTE_JUDGED_AFTER && limit.serves_at_once() == Some(1) {
            self.close(waiting);
        }
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
    let kind = mount.map_or(0, |mount| kind_of(Path::new("/sys"), &mount));
    if let Some(entry) = entry {
        entry.file_system.fetch_or(file_system::KNOWN | kind, Relaxed);
    }
    kind & file_system::CLOSED != 0
}

/// What a place tells of its device. No file system is asked for that.
fn device_at(path: &[u8]) -> Option<(u32, u32)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let stat = statx(CWD, OsStr::from_bytes(path), flags, StatxFlags::empty()).ok()?;
    Some((stat.stx_dev_major, stat.stx_dev_minor))
}

/// What the mount is of, in bits of [`file_system`].
fn kind_of(sysfs: &Path, mount: &Mount<'_>) -> u32 {
    mount.kind(READ_AHEAD_FAR_KIB, |device, files| {
        let device = match device {
            BlockDevice::Number(major, minor) => sysfs.join(format!("dev/block/{major}:{minor}")),
            BlockDevice::Name(name) => sysfs.join("class/block").join(OsStr::from_bytes(name)),
        };
        let text = files.iter().find_map(|file| fs::read_to_string(device.join(file)).ok())?;
        text.trim().parse().ok()
    })
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
    fn sysfs_tells_how_a_block_device_is_read() {
        let place = tempfile::tempdir().unwrap();
        let sysfs = place.path();
        for (name, device, direct, ahead) in [
            ("loop0", "7:0", "0\n", "128\n"),
            ("loop1", "7:1", "1\n", "128\n"),
            ("vda", "254:0", "", "8192\n"),
        ] {
            let folder = sysfs.join("devices").join(name);
            let part = folder.join(format!("{name}p1"));
            fs::create_dir_all(folder.join("queue")).unwrap();
            fs::create_dir_all(&part).unwrap();
            fs::write(folder.join("queue/read_ahead_kb"), ahead).unwrap();
            if !direct.is_empty() {
                fs::create_dir_all(folder.join("loop")).unwrap();
                fs::write(folder.join("loop/dio"), direct).unwrap();
            }
            for (links, link, to) in [
                ("class/block", name.to_owned(), &folder),
                ("class/block", format!("{name}p1"), &part),
                ("dev/block", device.to_owned(), &folder),
                ("dev/block", device.replace("7:", "259:"), &part),
            ] {
                fs::create_dir_all(sysfs.join(links)).unwrap();
                // Where both numbers are the same.
                let _ = symlink(to, sysfs.join(links).join(link));
            }
        }
        const BOTH: u32 = file_system::CLOSED | file_system::READS_FAR_AHEAD;
        for (device, mounted, expected) in [
            ("7:0", "erofs /dev/loop0", file_system::CLOSED),
            ("259:0", "ext4 /dev/loop0p1", file_system::CLOSED),
            ("0:40", "btrfs /dev/loop0", BOTH),
            ("0:40", "btrfs /dev/loop0p1", BOTH),
            ("7:1", "erofs /dev/loop1", 0),
            ("259:1", "ext4 /dev/loop1p1", 0),
            ("0:40", "btrfs /dev/loop1", file_system::READS_FAR_AHEAD),
            ("0:41", "tmpfs tmpfs", 0),
            ("0:42", "fuse.sshfs there:/", file_system::REMOTE | file_system::FUSE),
            ("0:44", "nfs4 there:/", file_system::REMOTE),
            ("254:0", "ext4 /dev/vda", file_system::READS_FAR_AHEAD),
            ("0:43", "xfs /dev/vdap1", file_system::READS_FAR_AHEAD),
            ("254:9", "ext4 /dev/vdz", 0),
        ] {
            let line = format!("36 35 {device} / /mnt ro - {mounted} ro");
            let told = kind_of(sysfs, &Mount::parse(line.as_bytes()).unwrap());
            assert_eq!(told, expected, "{line}");
        }
    }
}
