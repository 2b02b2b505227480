//! The resident-set limit of a process: how many of its own pages fit into memory.
//!
//! # Model
//!
//! The resident set at one moment says little: when memory is short, the kernel evicts a good part of it at once, and lets it
//! grow again. So the limit is the largest resident set seen in this span of time and in the one before. A span ends after a
//! second and 16 looks. A speculation takes some of the memory, so during one the limit does not fall below its earlier value.
//! A new span begins when the speculation ends.
//!
//! The first look takes the largest resident set of the process's life for a span, of which a quarter of a second is left.
//!
//! Times are in ticks.

/// Looks of a span at least: at fewer the process may have had much less than it has room for each time.
const LOOKS_MIN: u32 = 16;
/// The part of a second for which the most that it ever had counts.
const PEAK_PART: u64 = 4;

/// The room of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    ticks_per_second: u64,
    /// When the present span began, its looks, and the most that the process had in this one and in the one before.
    began: u64,
    looks: u32,
    now: u64,
    before: u64,
}

impl Room {
    /// Nothing is known.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        Self { ticks_per_second, began: 0, looks: 0, now: 0, before: 0 }
    }

    /// There is a speculation at `now`, or was one until now.
    pub const fn on_share(&mut self, now: u64) {
        (self.began, self.looks) = (now, 0);
    }

    /// Nobody has looked before `now`; the process had so many `pages` in memory at some time.
    pub const fn on_peak(&mut self, now: u64, pages: u64) {
        let past = self.ticks_per_second - self.ticks_per_second / PEAK_PART;
        (self.began, self.looks, self.before) = (now.saturating_sub(past), 0, pages);
    }

    /// The process has so many `pages` in memory at `now`.
    pub fn on_look(&mut self, now: u64, pages: u64) {
        if now.saturating_sub(self.began) >= self.ticks_per_second && self.looks >= LOOKS_MIN {
            (self.began, self.looks, self.before, self.now) = (now, 0, self.now, 0);
        }
        self.looks = self.looks.saturating_add(1);
        self.now = self.now.max(pages);
    }

    /// The pages that there is room for.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.now.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    /// Looks each 10 ms from `from` on for so many, at what `pages` says.
    fn look(room: &mut Room, from: u64, looks: u64, shared: bool, pages: impl Fn(u64) -> u64) -> u64 {
        for look in 0..looks {
            let now = from + look * 10 * MS;
            if shared {
                room.on_share(now);
            }
            room.on_look(now, pages(look));
        }
        from + looks * 10 * MS
    }

    /// The kernel drives out 1,500 pages at a time.
    fn sawtooth(look: u64) -> u64 {
        6_500 + 50 * (look % 31)
    }

    #[test]
    fn what_the_kernel_drives_out_at_once_is_not_what_there_is_no_room_for() {
        let mut room = Room::new(SECOND);
        look(&mut room, SECOND, 1_000, false, sawtooth);
        assert_eq!(room.pages(), 8_000);
    }

    #[test]
    fn memory_that_shrinks_is_noticed_within_two_spans() {
        let mut room = Room::new(SECOND);
        let now = look(&mut room, SECOND, 150, false, |_| 8_000);
        let now = look(&mut room, now, 100, false, |_| 2_000);
        assert_eq!(room.pages(), 8_000, "it may come back");
        look(&mut room, now, 110, false, |_| 2_000);
        assert_eq!(room.pages(), 2_000);
    }

    #[test]
    fn few_looks_tell_little() {
        let mut room = Room::new(SECOND);
        let now = look(&mut room, SECOND, 150, false, sawtooth);
        let mut later = now;
        for _ in 0..u64::from(LOOKS_MIN) - 1 {
            later += 10 * SECOND;
            room.on_look(later, 6_500);
            assert_eq!(room.pages(), 8_000);
        }
    }

    #[test]
    fn what_a_speculation_takes_is_not_missing() {
        let mut room = Room::new(SECOND);
        let now = look(&mut room, SECOND, 150, false, sawtooth);
        let mut now = look(&mut room, now, 1_000, true, |_| 5_000);
        for passed in 0..300 {
            now = look(&mut room, now, 1, false, |_| sawtooth(passed));
            assert_eq!(room.pages(), 8_000, "it comes back");
        }
        look(&mut room, now, 220, false, |_| 5_000);
        assert_eq!(room.pages(), 5_000, "it does not");
    }

    #[test]
    fn the_peak_counts_for_a_moment() {
        let mut room = Room::new(SECOND);
        room.on_peak(60 * SECOND, 9_000);
        let now = look(&mut room, 60 * SECOND, 25, false, |_| 5_000);
        assert_eq!(room.pages(), 9_000);
        look(&mut room, now, 1, false, |_| 5_000);
        assert_eq!(room.pages(), 5_000);
    }

    #[test]
    fn room_grows_at_once() {
        let mut room = Room::new(SECOND);
        look(&mut room, SECOND, 10, true, |look| 100 * look);
        assert_eq!(room.pages(), 900);
    }
}
