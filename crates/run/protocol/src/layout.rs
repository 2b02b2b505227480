//! The memory object that the supervisor creates and every agent maps: one [`Header`], one [`AccessLog`], then [`SLOTS`] [`Slot`]s.
//!
//! Every field is an atomic, and all-zero is a valid state. Neither side trusts what it reads, because a speculator that is
//! off track can write here. So indices are bounded where they are used, and no word of this memory is followed as an
//! address. Times are in ticks of the time-stamp counter unless the name says otherwise.

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64};

use crate::access_log::AccessLog;

/// First word of the header; says that this is Forebay's.
pub const MAGIC: u64 = u64::from_le_bytes(*b"forebay\x01");
/// Changes with the layout, so that an agent of another build stays off.
pub const LAYOUT: u64 = (SLOT_BYTES as u64) << 32 | (HEADER_BYTES as u64) << 8 | 15;

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

/// Patch sites that fit the header.
pub const PATCH_SITES: usize = 512;
/// Block devices whose in-flight limit is remembered in one run.
pub const DEVICES: usize = 16;
/// Executables whose usefulness is remembered in one run.
pub const PROGRAMS: usize = 256;
/// Hint logs of a slot; generation `g` of the speculator writes log `g % LOGS`.
pub const LOGS: usize = 4;
/// Entries of one hint log (a power of two).
pub const LOG_ENTRIES: usize = 4096;
/// Path hints that can wait for the executor in one slot.
pub const PATH_CELLS: usize = 128;
/// Longest path in a hint, in bytes.
pub const PATH_BYTES: usize = 488;
/// Mappings of files that the original has made which are remembered, a power of two.
pub const MAPPINGS: usize = 16;
/// Call sites whose value prediction is remembered in one run.
pub const CALL_SITES: usize = 1024;

/// What the supervisor publishes before it starts the program, and what all processes of a run share.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`LAYOUT`].
    pub layout: AtomicU64,
    /// Process id of the supervisor.
    pub supervisor_pid: AtomicU32,
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
    /// What is known of the replay of an access profile.
    pub replay: Replay,
    /// The mapped file that is being read ahead.
    pub stream: Stream,
    /// Inode of the supervisor's namespace of processes; 0 where it cannot be known.
    pub pid_namespace: AtomicU64,
    /// seccomp filters that the supervisor itself runs under, which are no reason for an agent to stay away.
    pub seccomp_filters: AtomicU32,
    /// Processes that an agent was loaded into.
    pub processes_assisted: AtomicU64,
    /// Programs started without an agent, by [`Unassisted`].
    pub processes_unassisted: [AtomicU64; Unassisted::COUNT],
    /// Agents that went to Off, by [`Off`].
    pub agents_off: [AtomicU64; Off::COUNT],
    /// State of each slot: [`SLOT_FREE`], [`SLOT_CLAIMED`] or [`SLOT_CLOSED`].
    pub slot_states: [AtomicU32; SLOTS],
    /// Hints of each slot that the executor is carrying out.
    pub jobs: [AtomicU32; SLOTS],
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

/// How a replay goes on.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Replay {
    /// One of [`replay`].
    pub state: AtomicU32,
    /// Steps that are being carried out.
    pub under_way: AtomicU32,
    /// Steps of it.
    pub steps: AtomicU64,
    /// Those that are done.
    pub done: AtomicU64,
    /// Those that asked a device.
    pub waited: AtomicU64,
    /// Those whose file has changed.
    pub changed: AtomicU64,
    /// Data that was brought into memory, or was found there.
    pub bytes: AtomicU64,
}

/// A mapped file that is being read ahead of a program that faults through it.
#[repr(C)]
pub struct Stream {
    /// Changes with the file; 0 for none.
    pub number: AtomicU32,
    /// The process whose root the path begins at.
    pub process: AtomicU32,
    /// Inode of the file.
    pub inode: AtomicU64,
    /// Bytes of an area.
    pub area_bytes: AtomicU64,
    /// The areas, in the order in which they are read.
    pub order: [AtomicU8; STREAM_AREAS],
    /// Bytes that were handed out, in that order.
    pub position: AtomicU64,
    /// Up to where they may be.
    pub granted: AtomicU64,
    /// Bytes that the device read.
    pub bytes: AtomicU64,
    /// Its `st_dev` + 1; 0 before it is known.
    pub device: AtomicU64,
    /// Length of the path in bytes.
    pub path_len: AtomicU32,
    /// Absolute path in the root directory of the process, not terminated.
    pub path: [AtomicU8; STREAM_PATH_BYTES],
}

/// Areas of a file that is read ahead, at most.
pub const STREAM_AREAS: usize = 64;
/// Longest path of such a file, in bytes.
pub const STREAM_PATH_BYTES: usize = 4096;

/// States of a replay.
pub mod replay {
    /// There is none.
    pub const NONE: u32 = 0;
    /// Its steps are being carried out, and no speculator is started.
    pub const ON: u32 = 1;
    /// All are carried out that are to be.
    pub const OVER: u32 = 2;
    /// The program needs other things than were foretold, or would be told of what a replay opens. It never goes on.
    pub const STOPPED: u32 = 3;
}

/// Unconsumed page hints that an ended speculator tells.
pub const UNCONSUMED_MAX: usize = 64;

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

/// Processes whose page faults can be watched at once.
pub const WATCHED: usize = 128;

/// A process that handles the signal of a page fault.
#[repr(C)]
pub struct Watched {
    /// Process id; 0 for a free entry. The supervisor frees those of processes that have ended.
    pub pid: AtomicU32,
    /// Incremented by each image of the process.
    pub image: AtomicU32,
    /// One fault in so many shall cause a signal: by `forebay_policy::fault_signals`, or 0 before the process knows, or [`WISH_NEVER`].
    pub wish: AtomicU32,
    /// 1 while the supervisor may cause signals.
    pub open: AtomicU32,
}

/// Threads of one process that can be told of their page faults at once. The supervisor picks those that fault most.
pub const WATCHED_THREADS: usize = 32;

/// A thread that has a stack for the signal of a page fault, and does not block that signal.
#[repr(C)]
pub struct WatchedThread {
    /// Thread id in the low 32 bits, and above it a number that no other thread had here; 0 while there is none.
    pub ready: AtomicU64,
    /// The same while the supervisor may cause signals.
    pub open: AtomicU64,
}

/// No signal again: the program wants it for itself.
pub const WISH_NEVER: u32 = u32::MAX;

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

/// Where the `syscall` instructions of one libc are that a jump can take the place of.
#[repr(C)]
pub struct PatchTable {
    /// Length in bytes of [`PatchTable::build_id`]; 0 where no table could be made.
    pub build_id_len: AtomicU32,
    /// GNU build-id of the library that the offsets are of.
    pub build_id: [AtomicU8; 32],
    /// Entries of [`PatchTable::sites`] in use.
    pub len: AtomicU32,
    /// One word a site: low 32 bits the offset of its first byte from the library's load address,
    /// bits 32..40 a [`Displaced`], bits 40..52 the system call number where it is known, else
    /// [`NUMBER_UNKNOWN`].
    pub sites: [AtomicU64; PATCH_SITES],
}

/// Stands for a system call number that only shows at run time.
pub const NUMBER_UNKNOWN: u64 = 0xfff;

/// Bytes of the longest patch site.
pub const SITE_BYTES_MAX: usize = 8;

/// The instruction beside `syscall` at a patch site, which the jump displaces and the stub repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Displaced {
    /// `cmp rax, -4096` behind it (48 3d 00 f0 ff ff).
    CmpRaxFffff000 = 0,
    /// `cmp rax, -4095` behind it (48 3d 01 f0 ff ff).
    CmpRaxFffff001 = 1,
    /// `cmp eax, -4096` behind it (3d 00 f0 ff ff).
    CmpEaxFffff000 = 2,
    /// `mov eax, NUMBER` before it (b8 and four bytes). What follows needs none of the flags.
    MovEaxNumber = 3,
}

impl Displaced {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] =
        [Self::CmpRaxFffff000, Self::CmpRaxFffff001, Self::CmpEaxFffff000, Self::MovEaxNumber];

    /// The variant with this number.
    #[must_use]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::CmpRaxFffff000),
            1 => Some(Self::CmpRaxFffff001),
            2 => Some(Self::CmpEaxFffff000),
            3 => Some(Self::MovEaxNumber),
            _ => None,
        }
    }

    /// Length in bytes of a site.
    #[must_use]
    pub const fn site_len(self) -> usize {
        match self {
            Self::CmpRaxFffff000 | Self::CmpRaxFffff001 => 8,
            Self::CmpEaxFffff000 | Self::MovEaxNumber => 7,
        }
    }

    /// The code of a site that makes the call `number`: the first [`Displaced::site_len`] bytes.
    #[must_use]
    pub const fn site_code(self, number: u16) -> [u8; SITE_BYTES_MAX] {
        let [low, high] = number.to_le_bytes();
        match self {
            Self::CmpRaxFffff000 => [0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff],
            Self::CmpRaxFffff001 => [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
            Self::CmpEaxFffff000 => [0x0f, 0x05, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0],
            Self::MovEaxNumber => [0xb8, low, high, 0, 0, 0x0f, 0x05, 0],
        }
    }
}

/// What is known of one block device (or other backing of a file system).
#[repr(C)]
pub struct Device {
    /// `st_dev` + 1; 0 for a free entry.
    pub id: AtomicU64,
    /// State of `forebay_policy::inflight::InflightLimit`, packed by it.
    pub limit: [AtomicU64; 4],
    /// State of `forebay_policy::estimate::StallTime`, packed by it.
    pub stall: AtomicU64,
    /// Reads that the executor has under way.
    pub executing: AtomicU32,
    /// Bits of [`file_system`].
    pub file_system: AtomicU32,
}

/// What is known of the file system on a device.
pub mod file_system {
    /// It was looked up; without the bit the others may still come.
    pub const KNOWN: u32 = 1 << 0;
    /// Look-ups, opens and listings are requests to another process or machine.
    pub const REMOTE: u32 = 1 << 1;
    /// It refuses reads that do not wait.
    pub const REFUSES_NOWAIT: u32 = 1 << 2;
    /// It waits for the data when it is told that they will be needed.
    pub const ADVICE_WAITS: u32 = 1 << 3;
    /// It did so the last time.
    pub const ADVICE_WAITED: u32 = 1 << 5;
    /// The executor asks it for nothing any more: a request did not return in time, or hints do not pay.
    pub const CLOSED: u32 = 1 << 4;
    /// It empties a file's cache when the file is opened again: data that is read ahead of an open is lost.
    pub const FORGETS_DATA: u32 = 1 << 6;
    /// It keeps that data.
    pub const KEEPS_DATA: u32 = 1 << 7;
}

/// What is known of one executable in this run.
#[repr(C)]
pub struct Program {
    /// Hash of the path that was executed; 0 for a free entry.
    pub key: AtomicU64,
    /// State of `forebay_policy::program::ProgramRecord`, packed by it.
    pub record: AtomicU64,
    /// Key of the executable whose process executed it last; 0 for the program that `forebay run` started, and if unknown.
    pub launcher: AtomicU64,
    /// What its speculations may cost.
    pub account: Account,
}

/// The account of a program's speculations, for `forebay_policy::account`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Account {
    /// What was paid in and not spent, in ticks.
    pub balance: AtomicI64,
    /// Failures in a row, in quarters.
    pub failures: AtomicU32,
    /// What a speculation costs on average, in ticks: where memory is ample, and where it is short. 0 while that is unknown.
    pub costs: [AtomicU64; 2],
}

/// Why a program runs without an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unassisted {
    /// No dynamic loader: a preloaded library cannot be.
    Static = 0,
    /// Set-user-id, set-group-id or with capabilities: the loader ignores preloads.
    Privileged,
    /// Not of this machine's architecture.
    OtherArchitecture,
    /// Another C library than glibc.
    OtherLibc,
    /// The agent's file cannot be reached from the program's root directory.
    AgentUnreachable,
    /// Earlier processes of this executable gained nothing; another one has an agent now and then.
    NoGain,
    /// The environment was too large to extend or asks the loader for a report, or the file could not be examined.
    NotExamined,
    /// A library of it, an address sanitizer, refuses to be loaded after another.
    Sanitized,
    /// Its address space is limited: the agent would take a part.
    Limited,
}

impl Unassisted {
    /// Number of reasons.
    pub const COUNT: usize = 9;
}

/// Why an agent that was loaded went to Off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Off {
    /// The supervisor's memory could not be opened or mapped.
    NoChannel = 0,
    /// All slots were taken.
    NoSlot,
    /// The speculator could not be jailed.
    NoJail,
    /// fork was refused.
    NoFork,
    /// The program has its stack in shared memory, or a process holds leases.
    Unsafe,
    /// The supervisor switched speculation off.
    Disabled,
    /// The program confines itself with seccomp, or gives up the time-stamp counter: the agent's own calls, or looks at the
    /// counter, could be its death.
    Confined,
    /// The program has more shared memory than a speculator may make private.
    SharedMemory,
    /// A mapping of the program's refers to an open file that the program has locked: a copy of it would keep the lock.
    MappedLock,
    /// The program had System V shared memory attached. There is no fork meanwhile.
    SystemV,
    /// The program has huge pages of the system's pool, which would miss those that a copy keeps.
    HugePages,
    /// The program adopts orphans, is in another namespace, or is told of forks or of every file that is opened.
    Visible,
}

impl Off {
    /// Number of reasons.
    pub const COUNT: usize = 12;
}

/// Bits of [`Header::missing`].
pub mod feature {
    /// libc's system-call sites could not be patched; symbols are interposed.
    pub const PATCHING: u32 = 1 << 0;
    /// seccomp filters.
    pub const SECCOMP: u32 = 1 << 1;
    /// Landlock (belt and braces of the jail).
    pub const LANDLOCK: u32 = 1 << 2;
    /// `preadv2` with `RWF_NOWAIT`.
    pub const RWF_NOWAIT: u32 = 1 << 3;
    /// `openat2` with `RESOLVE_CACHED`.
    pub const RESOLVE_CACHED: u32 = 1 << 4;
    /// `cachestat`.
    pub const CACHESTAT: u32 = 1 << 5;
    /// A readable `/proc` of the speculator itself.
    pub const PROC: u32 = 1 << 6;
    /// Idle scheduling.
    pub const SCHED_IDLE: u32 = 1 << 7;
    /// Page maps, of the speculator and of its original, and `PAGEMAP_SCAN` of them.
    pub const PAGEMAP: u32 = 1 << 8;
    /// `userfaultfd` with signals.
    pub const USERFAULTFD: u32 = 1 << 9;
    /// Software events of `perf_event_open`.
    pub const PERF_EVENTS: u32 = 1 << 10;
    /// A control group that limits memory.
    pub const MEMORY_GROUP: u32 = 1 << 11;
    /// Pressure stall information of memory.
    pub const PSI: u32 = 1 << 12;
    /// Swap.
    pub const SWAP: u32 = 1 << 13;
    /// Names in bit order, for people.
    pub const NAMES: [&str; 14] = [
        "patching of libc",
        "seccomp",
        "landlock",
        "RWF_NOWAIT",
        "RESOLVE_CACHED",
        "cachestat",
        "/proc",
        "SCHED_IDLE",
        "PAGEMAP_SCAN",
        "userfaultfd",
        "perf events",
        "control group of memory",
        "PSI",
        "swap",
    ];
}

/// One process.
#[repr(C)]
pub struct Slot {
    /// Process id of the original.
    pub pid: AtomicU32,
    /// Generation of the newest speculator; a speculator of an older generation ends itself.
    pub generation: AtomicU32,
    /// Generation of a speculator that a child of the original wants gone before it becomes another program.
    pub dismissed: AtomicU32,
    /// Process id of the newest speculator, 0 when it has ended of its own accord.
    pub speculator_pid: AtomicU32,
    /// Name of the program (`argv[0]`'s last part), zero padded.
    pub name: [AtomicU8; 64],
    /// Figures, written by the original and its speculators, read by the supervisor.
    pub counters: Counters,
    /// The account of its program, where the header's table of programs is full.
    pub account: Account,
    /// 1 where a speculator could not be, because of how much shared memory the program has.
    pub shares_too_much: AtomicU32,
    /// Prefetches that the newest speculator has under way.
    pub flights: AtomicU32,
    /// Pages that speculators hinted and the original has reached.
    pub pages_used: AtomicU64,
    /// Pages that they skipped, to get ahead of the original, and that it has reached.
    pub pages_skipped: AtomicU64,
    /// Pages that the newest generation hinted: how many in the low 32 bits, generation in the high 32.
    pub pages_hinted: AtomicU64,
    /// As many of them, from the first on, is the original past; in the same way.
    pub pages_passed: AtomicU64,
    /// Pages that the original had copied when the newest generation ended with its checkpoint, if it has told; in the same
    /// way.
    pub pages_copied: AtomicU64,
    /// Pages that the newest generation hinted and that the original had not reached when it ended: how many of
    /// [`Slot::unconsumed`], in the same way.
    pub unconsumed_count: AtomicU64,
    /// Those of them that would each be waited for by itself, in the order of the hints, the first of many.
    pub unconsumed: [AtomicU64; UNCONSUMED_MAX],
    /// What the original has mapped while there was a speculation.
    pub mapped: Mappings,
    /// The newest speculator as it was before a value that it predicted.
    pub checkpoint: Checkpoint,
    /// Entries that the original has consumed of each log.
    pub tails: [AtomicU64; LOGS],
    /// Entries that the speculator has written to each log.
    pub heads: [AtomicU64; LOGS],
    /// Hint logs.
    pub logs: [[LogEntry; LOG_ENTRIES]; LOGS],
    /// Index of the next path cell to write, modulo [`PATH_CELLS`].
    pub path_next: AtomicU32,
    /// Hints for the executor.
    pub paths: [PathCell; PATH_CELLS],
    /// The last predicted value of each generation, or the last that was waited for where none was: site index + 1 in the low
    /// 32 bits, the log position in the high 32.
    pub last_predicted: [AtomicU64; LOGS],
    /// Where each site first predicted a value, or waited so, in the newest generation that it did: log position in the low 32 bits,
    /// generation in the high 32.
    pub first_predicted: [AtomicU64; CALL_SITES],
    /// Pages that were hinted in that generation before.
    pub pages_before: [AtomicU32; CALL_SITES],
}

/// A stopped copy of a speculator, which carries on in its place when that is off track.
#[repr(C)]
pub struct Checkpoint {
    /// Futex that the copy sleeps on: its number, with the low half of the speculator's generation in the high half. It
    /// ends when it finds another one there. 0 for none.
    pub number: AtomicU32,
    /// Process id of the copy, [`CHECKPOINT_STARTING`] while it has none yet, 0 for none.
    pub pid: AtomicU32,
    /// The generation as which the copy shall carry on, once the slot has that generation.
    pub call: AtomicU32,
    /// Entries of the log that were written before the copy was made.
    pub position: AtomicU64,
    /// Entries that the original must have consumed, so that it has reached the value.
    pub needed: AtomicU64,
}

/// Mappings of files, the last of them: the `n`th is `ring[n % MAPPINGS]`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mappings {
    /// How many there were.
    pub count: AtomicU64,
    /// The last of them.
    pub ring: [Mapped; MAPPINGS],
}

/// A mapping of a file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mapped {
    /// [`crate::signature`] of the call; 0 once the original has found it.
    pub signature: AtomicU64,
    /// What it returned.
    pub address: AtomicU64,
}

/// Stands for the process id of a checkpoint in the making.
pub const CHECKPOINT_STARTING: u32 = 1;

/// Figures of one process. A "hint" is a prefetch that the speculator caused.
#[repr(C)]
pub struct Counters {
    /// Calls of the original that waited for a device with no hint for them.
    pub stalls: AtomicU64,
    /// Those of them that were not sampled: page faults while their signals were not wanted.
    pub stalls_unattended: AtomicU64,
    /// Time in [`Counters::stalls`].
    pub stall_ticks: AtomicU64,
    /// Hints that the original consumed without waiting.
    pub hints_used: AtomicU64,
    /// Those of them that spared no stall of their own: pages next to each other, which the kernel brings together, and what the
    /// executor found in memory.
    pub hints_clustered: AtomicU64,
    /// Hints that the original consumed but had to wait for.
    pub hints_late: AtomicU64,
    /// Time in those waits.
    pub late_ticks: AtomicU64,
    /// Hints issued for data.
    pub hints_data: AtomicU64,
    /// Hints issued for paths (open, stat, directory).
    pub hints_path: AtomicU64,
    /// Hints dropped because the executor's queue was full.
    pub hints_dropped: AtomicU64,
    /// Look-ups, listings and reads that the executor made for path hints.
    pub steps: AtomicU64,
    /// Those of them that made a device read: the others found what had been read for another one.
    pub steps_read: AtomicU64,
    /// Hints in the log of a speculator that was given up, beyond what the original consumed.
    pub hints_wrong: AtomicU64,
    /// Bytes that data hints asked for.
    pub bytes_hinted: AtomicU64,
    /// Speculators started.
    pub resyncs: AtomicU64,
    /// Time that the original spent on starting them.
    pub resync_ticks: AtomicU64,
    /// Checkpoints that speculators made, and the time that took them.
    pub checkpoints: AtomicU64,
    /// See [`Counters::checkpoints`].
    pub checkpoint_ticks: AtomicU64,
    /// Times that a checkpoint carried on where a speculator was off track.
    pub repairs: AtomicU64,
    /// Pages that the original copied because of forks, as far as that can be told from its page reclaims.
    pub copies: AtomicU64,
    /// About the time that took.
    pub copy_ticks: AtomicU64,
    /// What stalls took longer because hints were in flight on their device.
    pub delay_ticks: AtomicU64,
    /// Stall time that hints saved, by the stalls of their devices.
    pub saved_ticks: AtomicU64,
    /// Times that the fork policy disabled speculation because it did not pay.
    pub crossings: AtomicU64,
    /// Those of them where the last speculation saved nothing at all.
    pub crossings_futile: AtomicU64,
    /// Values that speculators predicted.
    pub fabricated: AtomicU64,
    /// Speculators that ended, by [`End`].
    pub ends: [AtomicU64; End::COUNT],
    /// Memory that ended speculators had resident at most, in bytes (the largest of them).
    pub speculator_footprint_bytes: AtomicU64,
    /// Page reclaims of ended speculators.
    pub speculator_reclaims: AtomicU64,
    /// Pages that ended speculators took and had not given back: at most what they may have at once.
    pub speculator_pages: AtomicU64,
    /// Page faults of ended speculators.
    pub speculator_faults: AtomicU64,
    /// Processor time of ended speculators, in microseconds.
    pub speculator_cpu_us: AtomicU64,
    /// Resident memory of the original at most, in bytes.
    pub footprint_bytes: AtomicU64,
    /// Page reclaims (minor faults) of the original.
    pub reclaims: AtomicU64,
    /// Page faults (major) of the original.
    pub faults: AtomicU64,
    /// Time that speculators spent on building their jails.
    pub jail_ticks: AtomicU64,
}

/// How a speculator ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum End {
    /// It was off track and a newer one took over, or the original ended.
    Abandoned = 0,
    /// It reached the program's end.
    Finished,
    /// It reached a call that cannot be emulated.
    NotEmulated,
    /// A crash: a fatal signal from computing with predicted values.
    Signal,
    /// Too much processor time without a hint.
    Cpu,
    /// Too much memory.
    Memory,
    /// Nothing consumed for too long, or it did nothing but wait.
    Lifetime,
    /// Its jail could not be built.
    Jail,
    /// It would have waited for another thread of the original's, which it does not have.
    Thread,
}

impl End {
    /// Number of ways.
    pub const COUNT: usize = 9;
}

/// One tracked call of the speculator.
#[repr(C)]
pub struct LogEntry {
    /// [`crate::signature`] of the call; 0 once the original has found it.
    pub signature: AtomicU64,
    /// Bits of [`mark`], and the byte count of the hint from bit 8 up.
    pub mark: AtomicU64,
}

/// Bits of [`LogEntry::mark`].
pub mod mark {
    /// The call caused a prefetch.
    pub const HINTED: u64 = 1;
    /// The call's result was predicted.
    pub const PREDICTED: u64 = 2;
    /// The prefetch is of a window in a file that is read in sequence: the kernel's readahead would have begun it early, too.
    pub const SEQUENTIAL: u64 = 1 << 7;
}

/// A hint that the executor carries out because it may block.
#[repr(C)]
pub struct PathCell {
    /// [`CELL_FREE`], [`CELL_WRITING`], [`CELL_READY`] or [`CELL_TAKEN`].
    pub state: AtomicU32,
    /// A [`PathHint`].
    pub kind: AtomicU32,
    /// First byte wanted, for [`PathHint::Data`].
    pub offset: AtomicU64,
    /// Bytes wanted, for [`PathHint::Data`].
    pub length: AtomicU32,
    /// Length of the path in bytes.
    pub path_len: AtomicU32,
    /// Absolute path in the program's root directory, not terminated.
    pub path: [AtomicU8; PATH_BYTES],
}

/// The cell can be written.
pub const CELL_FREE: u32 = 0;
/// A speculator is writing it.
pub const CELL_WRITING: u32 = 1;
/// The executor may take it.
pub const CELL_READY: u32 = 2;
/// An executor thread is reading it.
pub const CELL_TAKEN: u32 = 3;

/// What a path hint asks for. Nothing but regular files and directories is ever opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PathHint {
    /// Look the path up, following links, so that a later open or stat finds it cached.
    Lookup = 0,
    /// Look the path up without following a last link.
    LookupNoFollow = 1,
    /// Read a directory's entries.
    Directory = 2,
    /// Read a range of a regular file.
    Data = 3,
}

impl PathHint {
    /// The variant with this number.
    #[must_use]
    pub const fn from_u32(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Lookup),
            1 => Some(Self::LookupNoFollow),
            2 => Some(Self::Directory),
            3 => Some(Self::Data),
            _ => None,
        }
    }
}

/// What is known of one call site, for `forebay_policy::site`.
#[repr(C)]
pub struct CallSite {
    /// Hash that names the site; 0 for a free entry.
    pub key: AtomicU64,
    /// Present strategy and its record, packed by `forebay_policy::site`.
    pub state: AtomicU64,
}

const _: () = assert!(core::mem::size_of::<Header>() <= HEADER_BYTES);
const _: () = assert!(core::mem::size_of::<AccessLog>() <= ACCESS_LOG_BYTES);
const _: () = assert!(core::mem::size_of::<Slot>() <= SLOT_BYTES);
const _: () = assert!(LOG_ENTRIES.is_power_of_two());
