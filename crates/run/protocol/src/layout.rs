//! The memory object that the supervisor creates and every agent maps: one [`Header`], one [`AccessLog`], then [`SLOTS`] [`Slot`]s.
//!
//! Every field is an atomic, and all-zero is a valid state. Neither side trusts what it reads, because a speculator that is
//! off track can write here. So indices are bounded where they are used, and no word of this memory is followed as an
//! address. Times are in ticks of the time-stamp counter unless the name says otherwise.

mod counters;
mod devices;
mod hints;
mod libraries;
mod mappings;
mod neighbours;
mod opened;
mod patch_table;
mod programs;
pub mod replay;
mod slot;
mod stream;
mod unassisted;
mod watched;

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use crate::access_log::AccessLog;

pub use self::{
    counters::{Counters, End},
    devices::{DEVICES, Device, file_system},
    hints::{
        CELL_FREE, CELL_READY, CELL_TAKEN, CELL_WRITING, LOG_ENTRIES, LOGS, LogEntry, PATH_BYTES, PATH_CELLS,
        PathCell, PathHint, mark,
    },
    libraries::{Libraries, PROGRAM_CELLS, ProgramCell},
    mappings::{MAPPINGS, Mapped, Mappings},
    neighbours::{NO_SLOT, Neighbours, told},
    opened::{
        Figures, OPENED, OPENED_ENOUGH, OPENED_FREE, OPENED_READY, OPENED_RESERVED, OPENED_TAKEN, OpenedFile,
        one_less, open_key, replayed_open_key, shown_flags,
    },
    patch_table::{CLONE3, Displaced, NUMBER_UNKNOWN, PATCH_SITES, PatchTable, SITE_BYTES_MAX},
    programs::{Account, CALL_SITES, CallSite, PROGRAMS, Program},
    replay::{Replay, Taker},
    slot::{CHECKPOINT_STARTING, Checkpoint, EARLIER_MAX, Slot, UNCONSUMED_MAX},
    stream::{STREAM_AREAS, STREAM_PATH_BYTES, Stream},
    unassisted::{Off, Unassisted, feature},
    watched::{WATCHED, WATCHED_THREADS, WISH_NEVER, Watched, WatchedThread},
};

/// First word of the header; says that this is Forebay's.
pub const MAGIC: u64 = u64::from_le_bytes(*b"forebay\x01");
/// Changes with the layout, so that an agent of another build stays off.
pub const LAYOUT: u64 = (SLOT_BYTES as u64) << 32 | (HEADER_BYTES as u64) << 8 | 25;

/// Processes that can speculate at the same time in one run; more run unassisted.
pub const SLOTS: usize = 256;
/// Room for the header, a whole number of pages.
pub const HEADER_BYTES: usize = 128 << 10;
/// Room for the access log behind it, a whole number of pages. They take memory when they are written to.
pub const ACCESS_LOG_BYTES: usize = 8 << 20;
/// Size of what every agent maps: header and access log.
pub const SHARED_BYTES: usize = HEADER_BYTES + ACCESS_LOG_BYTES;
/// Room for one slot, a whole number of pages.
pub const SLOT_BYTES: usize = 384 << 10;
/// Size of the whole memory object.
pub const CHANNEL_BYTES: usize = SHARED_BYTES + SLOTS * SLOT_BYTES;

/// Byte offset of slot `index` in the memory object.
#[must_use]
pub const fn slot_offset(index: usize) -> usize {
    SHARED_BYTES + index * SLOT_BYTES
}

/// What the supervisor publishes before it starts the program, and what all processes of a run share.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`LAYOUT`].
    pub layout: AtomicU64,
    /// Process id of the supervisor.
    pub supervisor_pid: AtomicU32,
    /// Process id of the executor.
    pub executor_pid: AtomicU32,
    /// 1 while speculation is wanted at all; 0 sends every agent to its terminal Off state.
    pub enabled: AtomicU32,
    /// What memory control tells speculators: [`GO`], or [`HOLD`] in a trial; see `forebay_policy::trial`.
    pub control: AtomicU32,
    /// The part of claimed savings that trials have believed, in 1/1024.
    pub savings_believed: AtomicI64,
    /// What a displaced page costs, by trials, in 1/1024 of a stall.
    pub page_price: AtomicI64,
    /// Ticks of the time-stamp counter in a second.
    pub ticks_per_second: AtomicU64,
    /// A call on a file that takes longer than this may be a stall.
    pub stall_ticks_min: AtomicU64,
    /// A process whose fork takes longer is worth checkpoints of its speculators.
    pub checkpoint_ticks_min: AtomicU64,
    /// What the speculations of a program may cost before the program has waited.
    pub first_ticks: AtomicU64,
    /// Which part of the time some task waited for a processor lately, in 1/1024.
    pub processor_price: AtomicU32,
    /// 1 while a quota of processor time holds the program back: shorter waits gain it nothing, and speculators take of its time.
    pub held_by_quota: AtomicU32,
    /// What the signal of a page fault takes on this machine, in microseconds; 0 until it was measured.
    pub signal_us: AtomicU32,
    /// Prefetched and not yet consumed bytes that one speculator may have.
    pub horizon_bytes: AtomicU64,
    /// Memory that one speculator may add, in bytes.
    pub memory_bytes_max: AtomicU64,
    /// Whether memory is short where the program runs: [`MEMORY_UNKNOWN`], [`MEMORY_ENOUGH`],
    /// [`MEMORY_SHORT`] or [`MEMORY_FULL`].
    pub memory: AtomicU32,
    /// Bits of [`feature`]: what a process needed and found missing.
    pub missing: AtomicU32,
    /// Futex that executor threads sleep on; incremented with each path hint.
    pub doorbell: AtomicU32,
    /// Executor threads asleep on [`Header::doorbell`].
    pub sleepers: AtomicU32,
    /// Speculators alive now.
    pub speculators: AtomicU32,
    /// Whether a process on the machine holds a lease on a file: [`LEASES_UNKNOWN`], [`LEASES_NONE`] or [`LEASES_SOME`].
    pub leases: AtomicU32,
    /// 1 once a process of the run asks to be told of what is opened or read: nothing is read ahead from then on.
    pub files_watched: AtomicU32,
    /// What is known of the replay of an access profile.
    pub replay: Replay,
    /// What is read ahead for the loaders of programs.
    pub libraries: Libraries,
    /// What is known of neighbours of what the program needs.
    pub neighbours: Neighbours,
    /// The mapped file that is being read ahead.
    pub stream: Stream,
    /// 1 once the supervisor has written the next field and [`Header::strict_memory`]: no speculator is started before.
    pub is_surveyed: AtomicU32,
    /// Inode of the supervisor's namespace of processes; 0 where it cannot be known.
    pub pid_namespace: AtomicU64,
    /// seccomp filters that the supervisor itself runs under, which are no reason for an agent to stay away.
    pub seccomp_filters: AtomicU32,
    /// 1 where the kernel grants no more memory than there is: the program could miss what a copy of it counts for.
    pub strict_memory: AtomicU32,
    /// Processes that an agent was loaded into.
    pub processes_assisted: AtomicU64,
    /// Programs started without an agent, by [`Unassisted`].
    pub processes_unassisted: [AtomicU64; Unassisted::COUNT],
    /// Agents that went to Off, by [`Off`].
    pub agents_off: [AtomicU64; Off::COUNT],
    /// State of each slot: [`SLOT_FREE`], [`SLOT_CLAIMED`] or [`SLOT_CLOSED`].
    pub slot_states: [AtomicU32; SLOTS],
    /// Hints of each slot that the executor is carrying out, and files that it has open for the slot.
    pub jobs: [AtomicU32; SLOTS],
    /// Jobs of any kind that the executor has begun, and that are neither done nor given up.
    pub jobs_begun: AtomicU32,
    /// The executor begins no job before this time, in ticks: a program makes a call again that failed for something in use.
    pub quiet_until: AtomicU64,
    /// Files that the executor has opened ahead of programs.
    pub opened: [OpenedFile; OPENED],
    /// How many of them are not free.
    pub opened_count: AtomicU32,
    /// Where libc's system calls are.
    pub patches: PatchTable,
    /// In-flight limits, by device.
    pub devices: [Device; DEVICES],
    /// What is known of executables.
    pub programs: [Program; PROGRAMS],
    /// What is known of their call sites: a `forebay_policy::site::SiteTable`.
    pub sites: [CallSite; CALL_SITES],
    /// Processes that want to be told of their page faults.
    pub watched: [Watched; WATCHED],
    /// Threads of each of these processes.
    pub watched_threads: [[WatchedThread; WATCHED_THREADS]; WATCHED],
}

/// Not known yet.
pub const MEMORY_UNKNOWN: u32 = 0;
/// No task waits for memory.
pub const MEMORY_ENOUGH: u32 = 1;
/// Tasks wait for memory, or for what was evicted.
pub const MEMORY_SHORT: u32 = 2;
/// No task has waited for memory lately, but little is left: a process that waits for a page now is short of it.
pub const MEMORY_FULL: u32 = 3;

/// Speculators go on, and may be started.
pub const GO: u32 = 0;
/// They sleep, and none is started.
pub const HOLD: u32 = 1;

/// The supervisor has not looked yet, which takes some milliseconds: no file may be opened but one that is open.
pub const LEASES_UNKNOWN: u32 = 0;
/// There were none when the supervisor last looked.
pub const LEASES_NONE: u32 = 1;
/// There are some, or too many locks to tell: to open a file ahead of time could break one.
pub const LEASES_SOME: u32 = 2;

/// The slot is free; the process that claims it finds it zeroed.
pub const SLOT_FREE: u32 = 0;
/// A process has the slot.
pub const SLOT_CLAIMED: u32 = 1;
/// The process called exec or exit; the supervisor takes the figures, zeroes the slot and frees it.
pub const SLOT_CLOSED: u32 = 2;

const _: () = assert!(core::mem::size_of::<Header>() <= HEADER_BYTES);
const _: () = assert!(core::mem::size_of::<AccessLog>() <= ACCESS_LOG_BYTES);
const _: () = assert!(core::mem::size_of::<Slot>() <= SLOT_BYTES);
