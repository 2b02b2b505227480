//! Hints that speculators leave in the cells of their slots.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
};

use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, CELL_TAKEN, CELL_WRITING, LEASES_UNKNOWN, PATH_BYTES, PATH_CELLS, PathCell,
    PathHint, SLOT_CLAIMED, SLOTS,
};

use super::{Job, Origin, Wanted};
use crate::{channel::Channel, devices::Ticket};

/// The cells of all slots.
pub struct Cells {
    channel: Arc<Channel>,
    /// The number of the next job.
    next_job: AtomicU64,
    /// Where to go on looking for hints in each slot, which are filled in turn.
    cursors: [AtomicUsize; SLOTS],
}

impl Cells {
    /// Those of `channel`.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, next_job: AtomicU64::new(0), cursors: [const { AtomicUsize::new(0) }; SLOTS] }
    }

    /// The next hint of any slot.
    pub fn take(&self) -> Option<Job> {
        self.channel.slots_in(SLOT_CLAIMED).find_map(|slot| self.take_from(slot))
    }

    /// Whether a hint can be taken.
    pub fn has_ready(&self) -> bool {
        let may_open_files = self.may_open_files();
        let ready = |slot| {
            let cells = &self.channel.slot(slot).paths;
            let waits = |cell: &PathCell| !may_open_files && cell.kind.load(Relaxed) == PathHint::Data as u32;
            cells.iter().any(|cell| cell.state.load(Relaxed) == CELL_READY && !waits(cell))
        };
        self.channel.slots_in(SLOT_CLAIMED).any(ready)
    }

    fn may_open_files(&self) -> bool {
        self.channel.header().leases.load(Acquire) != LEASES_UNKNOWN
    }

    fn take_from(&self, slot: usize) -> Option<Job> {
        let cells = &self.channel.slot(slot).paths;
        let cursor = self.cursors[slot].load(Relaxed);
        let may_open_files = self.may_open_files();
        for step in 0..PATH_CELLS {
            let index = (cursor + step) % PATH_CELLS;
            let cell = &cells[index];
            if !may_open_files && cell.kind.load(Relaxed) == PathHint::Data as u32 {
                continue;
            }
            if cell.state.load(Relaxed) == CELL_READY && self.begin(slot, cell) {
                self.cursors[slot].store(index + 1, Relaxed);
                let number = self.next_job.fetch_add(1, Relaxed);
                let job = read_cell(&self.channel, slot, number, cell);
                // Free as soon as it is copied: the queue is for hints that no thread has yet. A directory's cell is
                // free when the directory is read, which its speculator waits for.
                match job {
                    Some(mut job) if job.wanted == Wanted::Directory => {
                        let channel = self.channel.clone();
                        job.ticket = Ticket::new(move || finish(&channel, slot, Some(index)));
                        return Some(job);
                    }
                    _ => cell.state.store(CELL_FREE, Release),
                }
                if job.is_some() {
                    return job;
                }
                finish(&self.channel, slot, None);
            }
        }
        None
    }

    /// Takes a cell, unless another thread has or the process is about to end: it waits for the job then.
    fn begin(&self, slot: usize, cell: &PathCell) -> bool {
        self.channel.header().jobs[slot].fetch_add(1, SeqCst);
        let taken = self.channel.header().slot_states[slot].load(SeqCst) == SLOT_CLAIMED
            && cell.state.compare_exchange(CELL_READY, CELL_TAKEN, Acquire, Relaxed).is_ok();
        if !taken {
            finish(&self.channel, slot, None);
        }
        taken
    }
}

/// A job is done with: nothing waits for it from now on.
fn finish(channel: &Channel, slot: usize, cell: Option<usize>) {
    if let Some(cell) = cell {
        channel.slot(slot).paths[cell].state.store(CELL_FREE, Release);
    }
    channel.header().jobs[slot].fetch_sub(1, SeqCst);
}

/// A hint out of untrusted memory; `None` where it makes no sense.
fn read_cell(channel: &Arc<Channel>, slot: usize, number: u64, cell: &PathCell) -> Option<Job> {
    let kind = PathHint::from_u32(cell.kind.load(Relaxed))?;
    let path_len = usize::try_from(cell.path_len.load(Relaxed)).ok().filter(|length| *length < PATH_BYTES)?;
    let path: Arc<[u8]> = cell.path[..path_len].iter().map(|byte| byte.load(Relaxed)).collect();
    let absolute = path.first() == Some(&b'/') && !path.contains(&0);
    let wanted = match kind {
        PathHint::Lookup => Wanted::LookUp { follow: true },
        PathHint::LookupNoFollow => Wanted::LookUp { follow: false },
        PathHint::Directory => Wanted::Directory,
        PathHint::Data => Wanted::Data {
            offset: cell.offset.load(Relaxed),
            length: cell.length.load(Relaxed).into(),
            expected: None,
        },
    };
    let channel = channel.clone();
    let ticket = Ticket::new(move || finish(&channel, slot, None));
    absolute.then_some(Job { origin: Origin::Slot(slot), number, path, wanted, ticket })
}

/// Frees the cells that their writers died over: those that were being written at the last sweep too. Sweeps must be
/// further apart than any write takes.
#[derive(Default)]
pub struct Sweep(HashMap<usize, u128>);

const _: () = assert!(PATH_CELLS <= u128::BITS as usize);

impl Sweep {
    /// Looks at all cells.
    pub fn run(&mut self, channel: &Channel) {
        let before = std::mem::take(&mut self.0);
        for slot in channel.slots_in(SLOT_CLAIMED) {
            let old = before.get(&slot).copied().unwrap_or(0);
            let mut writing = 0u128;
            for (index, cell) in channel.slot(slot).paths.iter().enumerate() {
                if cell.state.load(Relaxed) != CELL_WRITING {
                    continue;
                }
                if old & 1 << index == 0 {
                    writing |= 1 << index;
                } else {
                    // Unless it was finished just now.
                    let _ = cell.state.compare_exchange(CELL_WRITING, CELL_FREE, Relaxed, Relaxed);
                }
            }
            if writing != 0 {
                self.0.insert(slot, writing);
            }
        }
    }
}
