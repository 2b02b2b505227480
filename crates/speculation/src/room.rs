//! How many of its own pages a process has room for in memory.
//!
//! # Model
//!
//! What a process has in memory at one moment says little of that: short of memory, the kernel drives out a good part of it at
//! once, and lets it grow again. So its room is the most that it had in the last one to two seconds. While there is a
//! speculation, and for a second after it, others have some of the room: then it is not taken to be less than it was before.
//!
//! Times are in ticks.

/// The room of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    ticks_per_second: u64,
    /// When the present second began, and the most that the process had in this one and in the one before.
    began: u64,
    now: u64,
    before: u64,
    /// When there last was a speculation.
    shared_at: Option<u64>,
}

impl Room {
    /// Nothing is known.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        Self { ticks_per_second, began: 0, now: 0, before: 0, shared_at: None }
    }

    /// There is a speculation at `now`, or was one until now.
    pub const fn on_share(&mut self, now: u64) {
        self.shared_at = Some(now);
    }

    /// The process has so many `pages` in memory at `now`.
    pub fn on_look(&mut self, now: u64, pages: u64) {
        let passed = now.saturating_sub(self.began);
        let is_shared = self.shared_at.is_some_and(|at| now.saturating_sub(at) < self.ticks_per_second);
        if passed >= self.ticks_per_second && !is_shared {
            self.before = if passed < self.ticks_per_second.saturating_mul(2) { self.now } else { 0 };
            (self.began, self.now) = (now, 0);
        }
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

    #[test]
    fn what_the_kernel_drives_out_at_once_is_not_what_there_is_no_room_for() {
        let mut room = Room::new(SECOND);
        look(&mut room, SECOND, 1_000, false, |look| 6_500 + 50 * (look % 31));
        assert_eq!(room.pages(), 8_000);
    }

    #[test]
    fn memory_that_shrinks_is_noticed_within_two_seconds() {
        let mut room = Room::new(SECOND);
        let now = look(&mut room, SECOND, 150, false, |_| 8_000);
        let now = look(&mut room, now, 100, false, |_| 2_000);
        assert_eq!(room.pages(), 8_000, "it may come back");
        look(&mut room, now, 110, false, |_| 2_000);
        assert_eq!(room.pages(), 2_000);
        look(&mut room, 60 * SECOND, 1, false, |_| 1_000);
        assert_eq!(room.pages(), 1_000, "nobody looked for long");
    }

    #[test]
    fn what_a_speculation_takes_is_not_missing() {
        let mut room = Room::new(SECOND);
        let now = look(&mut room, SECOND, 10, false, |_| 8_000);
        let now = look(&mut room, now, 1_000, true, |_| 5_000);
        let now = look(&mut room, now, 90, false, |_| 5_000);
        assert_eq!(room.pages(), 8_000, "it has yet to come back");
        look(&mut room, now, 220, false, |_| 5_000);
        assert_eq!(room.pages(), 5_000);
    }

    #[test]
    fn room_grows_at_once() {
        let mut room = Room::new(SECOND);
        look(&mut room, SECOND, 10, true, |look| 100 * look);
        assert_eq!(room.pages(), 900);
    }
}
