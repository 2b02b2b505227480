//! Hints that speculators leave in the cells of their slots.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
};

use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, CELL_TAKEN, CELL_WRITING, LEASES_UNKNOWN, PATH_BYTES, PATH_CELLS, PathCell,
    PathHint, SLOT_CLAIMED, SLOTS, shown_flags,
};

use super::{
    Job, Origin, Wanted,
    folders::{Entry, Folders},
    opened::{Open, Opened},
    wake,
};
use crate::{channel::Channel, devices::Ticket};

/// Hints that are held for their folders, at most. Others are carried out at once.
const HELD_MAX: usize = 1 << 10;

/// The cells of all slots.
pub struct Cells {
    channel: Arc<Channel>,
    /// The number of the next job.
    next_job: AtomicU64,
    /// Where to go on looking for hints in each slot, which are filled in turn.
    cursors: [AtomicUsize; SLOTS],
    waiting: Arc<Mutex<Waiting>>,
    opened: Opened,
}

/// A hint that was taken from its cell.
#[derive(Clone)]
struct Hint {
    slot: usize,
    /// The process that had the slot then.
    pid: u32,
    path: Arc<[u8]>,
    wanted: Wanted,
    open: Option<Open>,
}

/// Hints that are no jobs yet.
#[derive(Default)]
struct Waiting {
    /// Those whose folder is being opened.
    folders: Folders<Hint>,
    held: usize,
    /// Those whose folder has been opened.
    released: VecDeque<Hint>,
}

impl Cells {
    /// Those of `channel`. Files that are opened ahead go to `opened`.
    pub fn new(channel: Arc<Channel>, opened: Opened) -> Self {
        Self {
            channel,
            opened,
            next_job: AtomicU64::new(0),
            cursors: [const { AtomicUsize::new(0) }; SLOTS],
            waiting: Arc::default(),
        }
    }

    /// The next hint of any slot.
    pub fn take(&self) -> Option<Job> {
        self.take_released()
            .or_else(|| self.channel.slots_in(SLOT_CLAIMED).find_map(|slot| self.take_from(slot)))
    }

    /// Whether a hint can be taken.
    pub fn has_ready(&self) -> bool {
        let waits = self.waiting_cells();
        let ready = |slot| {
            let cells = &self.channel.slot(slot).paths;
            cells.iter().any(|cell| cell.state.load(Relaxed) == CELL_READY && !waits(cell))
        };
        self.channel.slots_in(SLOT_CLAIMED).any(ready) || !lock(&self.waiting).released.is_empty()
    }

    /// Which cells have to wait: those of data, until it is known that files may be opened, and those of opens, while many files lie
    /// open.
    fn waiting_cells(&self) -> impl Fn(&PathCell) -> bool {
        let may_open_files = self.channel.header().leases.load(Acquire) != LEASES_UNKNOWN;
        let has_room = self.opened.has_room();
        move |cell| {
            !may_open_files && cell.kind.load(Relaxed) == PathHint::Data as u32
                || !has_room && cell.open_key.load(Relaxed) != 0
        }
    }

    fn take_from(&self, slot: usize) -> Option<Job> {
        let cells = &self.channel.slot(slot).paths;
        let cursor = self.cursors[slot].load(Relaxed);
        let waits = self.waiting_cells();
        for step in 0..PATH_CELLS {
            let index = (cursor + step) % PATH_CELLS;
            let cell = &cells[index];
            if cell.state.load(Relaxed) == CELL_READY && !waits(cell) && self.begin_with(slot, cell) {
                self.cursors[slot].store(index + 1, Relaxed);
                let hint = read_cell(&self.channel, slot, cell);
                let of_directory = hint.as_ref().is_some_and(|hint| hint.wanted == Wanted::Directory);
                // Free as soon as it is copied: the queue is for hints that no thread has yet. A directory's cell is
                // free when the directory is read, which its speculator waits for.
                if !of_directory {
                    cell.state.store(CELL_FREE, Release);
                }
                let job = hint.and_then(|hint| self.job_of(hint, of_directory.then_some(index)));
                if job.is_some() {
                    return job;
                }
                finish(&self.channel, slot, None);
            }
        }
        None
    }

    /// The next one whose folder has been opened, if its process is still there.
    fn take_released(&self) -> Option<Job> {
        loop {
            let hint = lock(&self.waiting).released.pop_front()?;
            let (slot, pid) = (hint.slot, hint.pid);
            if self.begin(slot) {
                if self.channel.slot(slot).pid.load(Relaxed) == pid {
                    return self.job_of(hint, None);
                }
                finish(&self.channel, slot, None);
            }
        }
    }

    /// The job of a hint, for which its process waits already. `None` where the hint is held. A directory lies in one that its
    /// speculator has read.
    fn job_of(&self, hint: Hint, cell: Option<usize>) -> Option<Job> {
        let number = self.next_job.fetch_add(1, Relaxed);
        let (slot, path) = (hint.slot, hint.path.clone());
        let (hint, opens) = if hint.wanted == Wanted::Directory {
            (hint, false)
        } else {
            lock(&self.waiting).enter(number, hint)?
        };
        let (channel, waiting, opened) = (self.channel.clone(), self.waiting.clone(), path.clone());
        let ticket = Ticket::new(move || {
            if opens && lock(&waiting).leave(&opened, number) {
                wake(&channel);
            }
            finish(&channel, slot, cell);
        });
        Some(Job { origin: Origin::Slot(slot), number, path, wanted: hint.wanted, open: hint.open, ticket })
    }

    /// Takes a cell, unless another thread has or the process is about to end.
    fn begin_with(&self, slot: usize, cell: &PathCell) -> bool {
        let begun = self.begin(slot);
        let taken = begun && cell.state.compare_exchange(CELL_READY, CELL_TAKEN, Acquire, Relaxed).is_ok();
        if begun && !taken {
            finish(&self.channel, slot, None);
        }
        taken
    }

    /// Begins a job, for which the process waits at its end; not where it has come to that already.
    fn begin(&self, slot: usize) -> bool {
        let header = self.channel.header();
        header.jobs[slot].fetch_add(1, SeqCst);
        let is_claimed = header.slot_states[slot].load(SeqCst) == SLOT_CLAIMED;
        if !is_claimed {
            finish(&self.channel, slot, None);
        }
        is_claimed
    }
}

impl Waiting {
    /// A hint is about to become the job of this number. Whether that opens its folder; `None` where the hint is held. Of data whose
    /// folder must be opened, the file is looked up first: its reads are not to keep the others waiting.
    fn enter(&mut self, number: u64, hint: Hint) -> Option<(Hint, bool)> {
        if self.held >= HELD_MAX {
            return Some((hint, false));
        }
        let path = hint.path.clone();
        match self.folders.enter(&path, number, hint) {
            Entry::Free(hint) => Some((hint, false)),
            Entry::Opens(hint) if matches!(hint.wanted, Wanted::Data { .. }) => {
                self.held += 1;
                self.folders.hold(&path, hint.clone());
                Some((Hint { wanted: Wanted::LookUp { follow: true }, ..hint }, true))
            }
            Entry::Opens(hint) => Some((hint, true)),
            Entry::Held => {
                self.held += 1;
                None
            }
        }
    }

    /// The job has opened its folder, or takes too long. Whether hints were held for it.
    fn leave(&mut self, path: &[u8], number: u64) -> bool {
        let released = self.folders.leave(path, number);
        self.held -= released.len();
        self.released.extend(released);
        !self.released.is_empty()
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job is done with: nothing waits for it from now on.
fn finish(channel: &Channel, slot: usize, cell: Option<usize>) {
    if let Some(cell) = cell {
        channel.slot(slot).paths[cell].state.store(CELL_FREE, Release);
    }
    channel.header().jobs[slot].fetch_sub(1, SeqCst);
}

/// A hint out of untrusted memory; `None` where it makes no sense.
fn read_cell(channel: &Channel, slot: usize, cell: &PathCell) -> Option<Hint> {
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
    let pid = channel.slot(slot).pid.load(Relaxed);
    let key = cell.open_key.load(Relaxed);
    let flags = shown_flags(cell.open_flags.load(Relaxed)).filter(|_| key != 0);
    let open = flags.map(|flags| Open { slot, key, flags, taker: None });
    absolute.then_some(Hint { slot, pid, path, wanted, open })
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
