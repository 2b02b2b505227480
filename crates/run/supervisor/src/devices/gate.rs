//! One device: how many requests it takes at once, and which are under way.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use forebay_policy::{estimate::StallTime, inflight::InflightLimit, price::REMOTE_WORTH_US};
use forebay_protocol::{
    layout::{Device, file_system},
    mounts::remote_device,
};
use rustix::fs::{makedev, minor};

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
        entry.into_iter().for_each(|entry| learn_kind(entry, device));
        Self {
            entry,
            device_ticks_min: header.stall_ticks_min.load(Relaxed),
            worth_ticks_min: header.ticks_per_second.load(Relaxed) / 1_000_000 * REMOTE_WORTH_US,
            depth_first,
            depth_max: served_at_once(device).map_or(DEPTH_UNKNOWN, |served| (served / 2).max(1)),
            waiting: Mutex::default(),
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

/// Learns whether the file system is remote, unless an agent has told that.
fn learn_kind(entry: &Device, device: u64) {
    if entry.file_system.load(Relaxed) & file_system::KNOWN != 0 {
        return;
    }
    // Paths in it may have any bytes.
    let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return };
    let is_remote = mounts
        .split(|byte| *byte == b'\n')
        .filter_map(remote_device)
        .any(|(major, minor)| makedev(major, minor) == device);
    let kind = if is_remote { file_system::REMOTE } else { 0 };
    entry.file_system.fetch_or(file_system::KNOWN | kind, Relaxed);
}

/// How many requests a FUSE file system takes at once that nothing waits for; `None` for any other.
fn served_at_once(device: u64) -> Option<u32> {
    let path = format!("/sys/fs/fuse/connections/{}/max_background", minor(device));
    // Other file systems without a device have numbers of the same kind.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
