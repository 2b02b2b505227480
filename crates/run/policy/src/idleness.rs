//! How much a speculator may spend without a hint.
//!
//! # Model
//!
//! A speculator spends processor time that is idle otherwise, and pages. Pages cost the original time: both processes take them
//! from the same free memory and through the same caches. A virtual machine that has given its free memory back must fault for
//! each. So a page counts as [`PAGE_US`] of processor time. The limit since the last hint is [`PATIENCE_STALLS`] stalls: what a
//! later hint saves could hardly make up for more.
//!
//! Processor time is counted in the ticks of a timer.

/// Processor time between ticks.
pub const TICK_US: u64 = 2_500;
/// See the model.
pub const PATIENCE_STALLS: u64 = 20;
/// What a page counts as. Two programs that fill memory at once take 1 to 2 us a page longer where it comes from the host:
/// several times that, because it is the original that pays.
pub const PAGE_US: u64 = 8;
/// Bounds of what may be spent, in ticks.
const TICKS_MIN: u64 = 2;
const TICKS_MAX: u64 = 200;
/// Times as much may be spent by one that has yet to come to where the original is.
const CATCHING_UP: u64 = 4;

/// What a speculator has spent since its last hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idleness {
    allowed_us: u64,
    ticks: u64,
    /// Hints, and pages that it had taken, when it began.
    hints: u64,
    pages: u64,
}

impl Idleness {
    /// Of a speculator whose original stalls for so long each time.
    #[must_use]
    pub fn new(stall_us: u64) -> Self {
        let allowed_us = stall_us.saturating_mul(PATIENCE_STALLS);
        let allowed_us = allowed_us.clamp(TICKS_MIN * TICK_US, TICKS_MAX * TICK_US);
        Self { allowed_us, ticks: 0, hints: 0, pages: 0 }
    }

    /// What was spent until now does not count: with so many hints, and pages taken.
    pub const fn restart(&mut self, hints: u64, pages: u64) {
        (self.ticks, self.hints, self.pages) = (0, hints, pages);
    }

    /// After another tick, with so many hints and pages taken: whether it has spent too much.
    pub const fn on_tick(&mut self, hints: u64, pages: u64, is_catching_up: bool) -> bool {
        if hints != self.hints {
            self.restart(hints, pages);
        }
        self.ticks += 1;
        let processor_us = self.ticks.saturating_mul(TICK_US);
        let spent_us = processor_us.saturating_add(pages.saturating_sub(self.pages).saturating_mul(PAGE_US));
        let times = if is_catching_up { CATCHING_UP } else { 1 };
        spent_us > self.allowed_us * times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks until it has spent too much, where it takes so many pages in each, of which one in so many has a hint.
    fn ticks(stall_us: u64, pages_a_tick: u64, ticks_a_hint: u64, is_catching_up: bool) -> Option<u64> {
        let mut idleness = Idleness::new(stall_us);
        idleness.restart(7, 100);
        (1..=10_000)
            .find(|tick| idleness.on_tick(7 + tick / ticks_a_hint, 100 + tick * pages_a_tick, is_catching_up))
    }

    #[test]
    fn who_only_computes_has_the_time_of_twenty_stalls() {
        assert_eq!(ticks(1_000, 0, u64::MAX, false), Some(9));
        assert_eq!(ticks(12_000, 0, u64::MAX, false), Some(97));
        assert_eq!(ticks(1, 0, u64::MAX, false), Some(TICKS_MIN + 1), "never less than this");
        assert_eq!(ticks(u64::MAX, 0, u64::MAX, false), Some(TICKS_MAX + 1), "and never more than that");
        assert_eq!(ticks(1_000, 0, u64::MAX, true), Some(33), "while it catches up");
    }

    #[test]
    fn who_fills_memory_is_not_let_fill_much_of_it() {
        // What one did on a disk of 12 ms, beside a program that had just begun: two thousand pages in each tick.
        let filled = ticks(12_000, 2_000, u64::MAX, false).unwrap() * 2_000;
        assert!((20_000..30_000).contains(&filled), "{filled}");
    }

    #[test]
    fn a_hint_makes_up_for_all_before() {
        assert_eq!(ticks(1_000, 200, 5, false), None);
        assert_eq!(ticks(1_000, 2_000, 5, false), Some(2), "but for no more than may be spent for one");
    }
}
