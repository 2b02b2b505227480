//! Adds up the figures of processes that have ended.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::Slot;

use crate::statistics::{Figures, ProcessRow};

/// Processes that the statistics list one by one; the others are in the total only.
const ROWS_MAX: usize = 64;

/// Figures so far.
#[derive(Default)]
pub struct Ledger {
    total: Figures,
    rows: Vec<ProcessRow>,
    dead: HashSet<usize>,
}

impl Ledger {
    /// Adds the figures in `slot`.
    pub fn collect(&mut self, slot: &Slot) {
        let figures = Figures::read(&slot.counters);
        self.total.add(&figures);
        self.rows.push(ProcessRow { name: name_of(slot), pid: slot.pid.load(Relaxed), figures });
        if self.rows.len() >= 2 * ROWS_MAX {
            self.keep_busiest();
        }
    }

    /// Notes that the speculators of slot `index` were told to end.
    pub fn mark_dead(&mut self, index: usize) {
        self.dead.insert(index);
    }

    /// Whether [`Ledger::mark_dead`] was called for the present owner of slot `index`.
    pub fn is_marked_dead(&self, index: usize) -> bool {
        self.dead.contains(&index)
    }

    /// Slot `index` gets another owner.
    pub fn forget(&mut self, index: usize) {
        self.dead.remove(&index);
    }

    /// The total of the processes that gave their slots back.
    pub fn closed(&self) -> Figures {
        self.total
    }

    /// The total, and the busiest processes first.
    pub fn close(mut self) -> (Figures, Vec<ProcessRow>) {
        self.keep_busiest();
        (self.total, self.rows)
    }

    fn keep_busiest(&mut self) {
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.figures.stalls_before()));
        self.rows.truncate(ROWS_MAX);
    }
}

/// The name that the process gave itself, fit to print.
fn name_of(slot: &Slot) -> String {
    let bytes: Vec<u8> =
        slot.name.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&bytes);
    let printable = |char: char| if char.is_control() { '?' } else { char };
    if name.is_empty() { "?".into() } else { name.chars().map(printable).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    #[test]
    fn the_total_counts_all_processes_and_the_rows_the_busiest() {
        let channel = Channel::create(true).unwrap();
        let slot = channel.slot(0);
        slot.name[0].store(b'\x1b', Relaxed);
        slot.name[1].store(b'a', Relaxed);
        let mut ledger = Ledger::default();
        for stalls in 0..1000 {
            slot.pid.store(stalls, Relaxed);
            slot.counters.stalls.store(stalls.into(), Relaxed);
            ledger.collect(slot);
        }
        let (total, rows) = ledger.close();
        assert_eq!(total.stalls, 499_500);
        assert_eq!(rows.len(), ROWS_MAX);
        assert_eq!((rows[0].pid, rows[ROWS_MAX - 1].pid), (999, 936));
        assert_eq!(rows[0].name, "?a");
    }

    #[test]
    fn figures_of_a_scribbled_slot_cannot_overflow() {
        let channel = Channel::create(true).unwrap();
        let slot = channel.slot(0);
        slot.counters.stalls.store(u64::MAX, Relaxed);
        slot.counters.hints_used.store(u64::MAX, Relaxed);
        slot.counters.ends[0].store(u64::MAX, Relaxed);
        let mut ledger = Ledger::default();
        ledger.collect(slot);
        ledger.collect(slot);
        let (total, rows) = ledger.close();
        assert_eq!(
            (total.stalls, total.stalls_before(), rows[0].figures.stalls_after()),
            (u64::MAX, u64::MAX, u64::MAX)
        );
    }
}
