//! An empty slot.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use forebay_protocol::layout::{
    Account, CALL_SITES, Checkpoint, Counters, EARLIER_MAX, End, LOG_ENTRIES, LOGS, LogEntry, Mappings,
    PATH_BYTES, PATH_CELLS, PathCell, Slot, UNCONSUMED_MAX,
};

/// A slot as the supervisor leaves it: all zero.
pub fn slot() -> Box<Slot> {
    Box::new(Slot {
        pid: AtomicU32::new(0),
        generation: AtomicU32::new(0),
        dismissed: AtomicU32::new(0),
        speculator_pid: AtomicU32::new(0),
        forked: AtomicU32::new(0),
        earlier: [const { AtomicU32::new(0) }; EARLIER_MAX],
        name: [const { AtomicU8::new(0) }; 64],
        counters: counters(),
        account: Account::default(),
        shares_too_much: AtomicU32::new(0),
        flights: AtomicU32::new(0),
        pages_used: AtomicU64::new(0),
        pages_skipped: AtomicU64::new(0),
        pages_hinted: AtomicU64::new(0),
        pages_passed: AtomicU64::new(0),
        pages_copied: AtomicU64::new(0),
        unconsumed_count: AtomicU64::new(0),
        unconsumed: [const { AtomicU64::new(0) }; UNCONSUMED_MAX],
        mapped: Mappings::default(),
        checkpoint: Checkpoint {
            number: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            call: AtomicU32::new(0),
            position: AtomicU64::new(0),
            needed: AtomicU64::new(0),
        },
        tails: [const { AtomicU64::new(0) }; LOGS],
        heads: [const { AtomicU64::new(0) }; LOGS],
        logs: [const {
            [const { LogEntry { signature: AtomicU64::new(0), mark: AtomicU64::new(0) } }; LOG_ENTRIES]
        }; LOGS],
        path_next: AtomicU32::new(0),
        paths: [const {
            PathCell {
                state: AtomicU32::new(0),
                kind: AtomicU32::new(0),
                offset: AtomicU64::new(0),
                length: AtomicU32::new(0),
                path_len: AtomicU32::new(0),
                open_key: AtomicU64::new(0),
                open_flags: AtomicU32::new(0),
                path: [const { AtomicU8::new(0) }; PATH_BYTES],
            }
        }; PATH_CELLS],
        quiet_until: AtomicU64::new(0),
        takes_none: AtomicU32::new(0),
        last_predicted: [const { AtomicU64::new(0) }; LOGS],
        first_predicted: [const { AtomicU64::new(0) }; CALL_SITES],
        pages_before: [const { AtomicU32::new(0) }; CALL_SITES],
    })
}

fn counters() -> Counters {
    Counters {
        stalls: AtomicU64::new(0),
        stalls_unattended: AtomicU64::new(0),
        stall_ticks: AtomicU64::new(0),
        hints_used: AtomicU64::new(0),
        hints_clustered: AtomicU64::new(0),
        hints_late: AtomicU64::new(0),
        late_ticks: AtomicU64::new(0),
        hints_data: AtomicU64::new(0),
        hints_path: AtomicU64::new(0),
        hints_dropped: AtomicU64::new(0),
        opens_taken: AtomicU64::new(0),
        steps: AtomicU64::new(0),
        steps_read: AtomicU64::new(0),
        hints_wrong: AtomicU64::new(0),
        bytes_hinted: AtomicU64::new(0),
        resyncs: AtomicU64::new(0),
        resync_ticks: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
        checkpoint_ticks: AtomicU64::new(0),
        repairs: AtomicU64::new(0),
        copies: AtomicU64::new(0),
        copy_ticks: AtomicU64::new(0),
        delay_ticks: AtomicU64::new(0),
        saved_ticks: AtomicU64::new(0),
        crossings: AtomicU64::new(0),
        crossings_futile: AtomicU64::new(0),
        fabricated: AtomicU64::new(0),
        ends: [const { AtomicU64::new(0) }; End::COUNT],
        speculator_footprint_bytes: AtomicU64::new(0),
        speculator_reclaims: AtomicU64::new(0),
        speculator_pages: AtomicU64::new(0),
        speculator_faults: AtomicU64::new(0),
        speculator_cpu_us: AtomicU64::new(0),
        footprint_bytes: AtomicU64::new(0),
        reclaims: AtomicU64::new(0),
        faults: AtomicU64::new(0),
        jail_ticks: AtomicU64::new(0),
    }
}
