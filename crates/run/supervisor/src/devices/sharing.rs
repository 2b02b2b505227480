//! Files that share their blocks with others: few are read side by side.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
};

use super::{gate::Gate, lock};

pub(super) const PAGE_BYTES: u64 = 4096;

/// What there is of them on one device.
#[derive(Default)]
pub(super) struct Sharing {
    /// Size of the file system's blocks, once it was asked for.
    block_bytes: OnceLock<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of those under way.
    bytes: u64,
    /// The others, by the numbers of their jobs: those that were hinted first come first, as they lie together.
    waiting: BTreeMap<u64, Arc<Condvar>>,
}

/// Permission to read a file that shares its blocks with others; dropped when it is read.
#[derive(Debug)]
pub struct Share {
    gate: Arc<Gate>,
    bytes: u64,
}

impl Share {
    /// As [`Devices::share`](super::Devices::share) waits.
    pub(super) fn wait(
        gate: Arc<Gate>,
        job: u64,
        size: u64,
        block_bytes: impl FnOnce() -> u64,
    ) -> Option<Self> {
        if gate.is_remote() {
            return None;
        }
        let block = *gate.sharing.block_bytes.get_or_init(block_bytes);
        if block <= PAGE_BYTES || size >= block {
            return None;
        }
        let bytes = size.next_multiple_of(PAGE_BYTES);
        let mut sharing = lock(&gate.sharing.state);
        let turn = Arc::new(Condvar::new());
        sharing.waiting.insert(job, turn.clone());
        while sharing.waiting.first_key_value().is_some_and(|(first, _)| *first != job)
            || sharing.bytes > 0 && sharing.bytes + bytes > block
        {
            sharing = turn.wait(sharing).unwrap_or_else(PoisonError::into_inner);
        }
        sharing.waiting.remove(&job);
        sharing.bytes += bytes;
        sharing.wake_first();
        drop(sharing);
        Some(Self { gate, bytes })
    }
}

impl State {
    fn wake_first(&self) {
        if let Some((_, first)) = self.waiting.first_key_value() {
            first.notify_one();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut sharing = lock(&self.gate.sharing.state);
        sharing.bytes -= self.bytes;
        sharing.wake_first();
    }
}
