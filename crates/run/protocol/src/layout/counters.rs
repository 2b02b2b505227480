//! Figures of one process, and how its speculators ended.

use core::sync::atomic::AtomicU64;

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
    /// Opens of the original in whose place it took a file that the executor had opened.
    pub opens_taken: AtomicU64,
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
