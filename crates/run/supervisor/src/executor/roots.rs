//! Root directories of the processes that hints are made for.

use std::{
    collections::HashMap,
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use forebay_linux::kernel_text;
use forebay_protocol::layout::Taker;
use rustix::fs::{Mode, OFlags, open};

use crate::channel::Channel;

/// A process that hints are made for: its slot, its number, and its newest speculator's generation, since it may change its root
/// and its user between two.
type Asking = (usize, u32, u32);

/// The directory that a process's absolute paths start at.
#[derive(Clone)]
pub enum Root {
    /// The supervisor's own.
    Ours,
    /// Another, or another mount namespace's.
    Theirs(Arc<OwnedFd>),
    /// The process has not this one's rights: nothing is looked up for it.
    Barred,
}

/// Those of the processes that have slots, as of their last forks, and of the process that a file is streamed for.
#[derive(Default)]
pub struct Roots {
    of_slots: Mutex<HashMap<Asking, Root>>,
    of_process: Mutex<Option<(u32, Root)>>,
    of_taker: Mutex<Option<(Taker, Root)>>,
    of_waiting: Mutex<Option<(u32, u64, Root)>>,
}

impl Roots {
    /// The root of the process that has the slot.
    pub fn of(&self, channel: &Channel, slot: usize) -> Root {
        let asking = |slot: usize| {
            let of = channel.slot(slot);
            (slot, of.pid.load(Relaxed), of.generation.load(Relaxed))
        };
        let known = || self.of_slots.lock().unwrap_or_else(PoisonError::into_inner);
        let asks = asking(slot);
        if let Some(root) = known().get(&asks) {
            return root.clone();
        }
        let root = find_root(asks.1);
        let mut known = known();
        // Nothing is kept of what was before.
        known.retain(|known, _| asking(known.0) == *known);
        known.insert(asks, root.clone());
        root
    }

    /// The root of the process that takes files which a replay opens, since it began to.
    pub fn of_taker(&self, channel: &Channel, taker: Taker) -> Root {
        let mut known = self.of_taker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, root)) = known.as_ref().filter(|(known, _)| *known == taker) {
            return root.clone();
        }
        let root = find_root(channel.slot(taker.slot).pid.load(Relaxed));
        *known = Some((taker, root.clone()));
        root
    }

    /// The root of a process, of which it is asked again and again.
    pub fn of_process(&self, process: u32) -> Root {
        let mut known = self.of_process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, root)) = known.as_ref().filter(|(known, _)| *known == process) {
            return root.clone();
        }
        let root = find_root(process);
        *known = Some((process, root.clone()));
        root
    }

    /// The root of the process that has the slot, as it was at the last wait of the run.
    pub fn of_waiting(&self, channel: &Channel, slot: usize) -> Root {
        let (pid, waits) =
            (channel.slot(slot).pid.load(Relaxed), channel.header().neighbours.waits.load(Relaxed));
        let mut known = self.of_waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., root)) = known.as_ref().filter(|known| (known.0, known.1) == (pid, waits)) {
            return root.clone();
        }
        let root = find_root(pid);
        *known = Some((pid, waits, root.clone()));
        root
    }
}

fn find_root(pid: u32) -> Root {
    let identity = |process: &str| {
        let root = fs::metadata(format!("/proc/{process}/root/")).ok()?;
        let mounts = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        Some((root.dev(), root.ino(), mounts))
    };
    let process = pid.to_string();
    if rights(&process) != rights("self") {
        return Root::Barred;
    }
    if identity(&process) == identity("self") {
        return Root::Ours;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    match open(format!("/proc/{process}/root"), flags, Mode::empty()) {
        Ok(root) => Root::Theirs(Arc::new(root)),
        Err(_) => Root::Ours,
    }
}

/// What a process may look up: its users, groups and capabilities.
fn rights(process: &str) -> Option<[String; 4]> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name| kernel_text::field(&status, name).map(str::to_owned);
    // Of the first two those of file systems decide, which come last.
    Some([field("Uid")?, field("Gid")?, field("Groups")?, field("CapEff")?])
}
