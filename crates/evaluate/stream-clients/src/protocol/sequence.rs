//! Sequence numbers (RFC 3550, appendix A.1): packets that are missing, come twice or overtake each other.

/// So many of the newest packets are remembered one by one.
const REMEMBERED: u64 = 1024;
/// A number further ahead than this is another stream's, or a new beginning, unless the next one follows it.
const AHEAD_MAX: i64 = 3000;

/// How a packet stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is newer than all before it.
    Newest,
    /// Newer ones came before it.
    Overtaken,
    /// It has come before.
    Duplicate,
    /// It is too far from the others to belong to them.
    Stray,
    /// It and the stray one before it are a new beginning.
    Restart,
}

/// The sequence numbers of one stream.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    numbers: Option<Numbers>,
    /// The number after a stray packet's.
    after_stray: Option<u16>,
    /// Of numbers before the last restart.
    expected_before: u64,
    received_before: u64,
}

#[derive(Clone, Debug)]
struct Numbers {
    /// Extended by how often they have wrapped.
    first: u64,
    newest: u64,
    received: u64,
    /// A bit for each of the newest packets, by its number modulo [`REMEMBERED`].
    seen: [u64; (REMEMBERED / 64) as usize],
}

impl Sequence {
    /// Takes the number of a packet.
    pub fn take(&mut self, number: u16) -> Arrival {
        let Some(numbers) = &mut self.numbers else {
            self.numbers = Some(Numbers::new(number));
            return Arrival::Newest;
        };
        let distance = i64::from(number.wrapping_sub(numbers.newest as u16) as i16);
        if distance > AHEAD_MAX || distance <= -(REMEMBERED as i64) {
            if self.after_stray == Some(number) {
                self.restart();
                self.numbers = Some(Numbers::new(number));
                return Arrival::Restart;
            }
            self.after_stray = Some(number.wrapping_add(1));
            return Arrival::Stray;
        }
        self.after_stray = None;
        numbers.take(distance)
    }

    /// What comes next has other numbers; what was counted stays counted.
    pub fn restart(&mut self) {
        (self.expected_before, self.received_before) = (self.expected(), self.received());
        (self.numbers, self.after_stray) = (None, None);
    }

    /// Packets that there are by their numbers.
    #[must_use]
    pub fn expected(&self) -> u64 {
        let now = self.numbers.as_ref().map_or(0, |numbers| numbers.newest - numbers.first + 1);
        self.expected_before + now
    }

    /// Packets that came, each counted once.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received_before + self.numbers.as_ref().map_or(0, |numbers| numbers.received)
    }

    /// The highest number, with how often numbers have wrapped in the upper half (section 6.4.1).
    #[must_use]
    pub fn highest(&self) -> u32 {
        // One round was added so that numbers before the first are none below 0.
        self.numbers.as_ref().map_or(0, |numbers| (numbers.newest - (1 << 16)) as u32)
    }
}

impl Numbers {
    fn new(number: u16) -> Self {
        let first = (1 << 16) + u64::from(number);
        let mut numbers = Self { first, newest: first, received: 1, seen: [0; _] };
        numbers.mark(first);
        numbers
    }

    fn take(&mut self, distance: i64) -> Arrival {
        let number = self.newest.saturating_add_signed(distance);
        if distance > 0 {
            let skipped = self.newest + 1..number;
            let known = skipped.end.saturating_sub(REMEMBERED).max(skipped.start);
            (known..skipped.end).for_each(|missing| self.forget(missing));
            self.newest = number;
        } else if self.has(number) {
            return Arrival::Duplicate;
        }
        self.first = self.first.min(number);
        self.received += 1;
        self.mark(number);
        if distance > 0 { Arrival::Newest } else { Arrival::Overtaken }
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] >> bit & 1 == 1
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.seen[word] |= 1 << bit;
    }

    fn forget(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.seen[word] &= !(1 << bit);
    }
}

fn place(number: u64) -> (usize, u64) {
    let index = number % REMEMBERED;
    ((index / 64) as usize, index % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn lost(sequence: &Sequence) -> u64 {
        sequence.expected() - sequence.received()
    }

    fn after(numbers: &[u16]) -> (Sequence, Vec<Arrival>) {
        let mut sequence = Sequence::default();
        let arrivals = numbers.iter().map(|number| sequence.take(*number)).collect();
        (sequence, arrivals)
    }

    #[test]
    fn numbers_that_wrap_lose_nothing() {
        let (sequence, arrivals) = after(&[65_534, 65_535, 0, 1]);
        assert_eq!((sequence.expected(), sequence.received()), (4, 4));
        assert!(arrivals.iter().all(|arrival| *arrival == Arrival::Newest));
        assert_eq!(sequence.highest(), (1 << 16) + 1);
    }

    #[test]
    fn a_gap_across_the_wrap_is_a_loss() {
        let (sequence, _) = after(&[65_534, 2]);
        assert_eq!((sequence.expected(), lost(&sequence)), (5, 3));
    }

    #[test]
    fn a_packet_that_was_overtaken_is_not_lost_and_one_that_comes_again_is_a_duplicate() {
        let (sequence, arrivals) = after(&[10, 12, 11, 12, 11, 13]);
        use Arrival::{Duplicate, Newest, Overtaken};
        assert_eq!(arrivals, [Newest, Newest, Overtaken, Duplicate, Duplicate, Newest]);
        assert_eq!((sequence.received(), lost(&sequence)), (4, 0));
    }

    #[test]
    fn the_first_to_come_need_not_be_the_first_that_was_sent() {
        let (sequence, arrivals) = after(&[0, 65_535]);
        assert_eq!(arrivals[1], Arrival::Overtaken);
        assert_eq!((sequence.expected(), lost(&sequence)), (2, 0));
    }

    #[test]
    fn one_stray_packet_is_nothing_and_two_that_follow_each_other_are_a_new_beginning() {
        let (sequence, arrivals) = after(&[10, 11, 20_000, 12, 40_000, 40_001, 40_002]);
        assert_eq!(
            arrivals[2..],
            [Arrival::Stray, Arrival::Newest, Arrival::Stray, Arrival::Restart, Arrival::Newest]
        );
        assert_eq!((sequence.expected(), lost(&sequence)), (5, 0));
    }

    #[test]
    fn numbers_are_forgotten_when_they_come_round_again() {
        let mut sequence = Sequence::default();
        for number in 0..200_000u32 {
            assert_eq!(sequence.take(number as u16), Arrival::Newest);
        }
        assert_eq!((sequence.expected(), lost(&sequence)), (200_000, 0));
        // Those that were skipped are not taken for others with the same place.
        assert_eq!(sequence.take(200_010u32 as u16), Arrival::Newest);
        assert_eq!(sequence.take(200_005u32 as u16), Arrival::Overtaken);
        assert_eq!(lost(&sequence), 9);
    }

    proptest! {
        #[test]
        fn what_arrives_within_a_short_distance_is_counted_as_a_set(
            start: u16,
            steps in prop::collection::vec((0u64..400, 0u64..300), 1..300),
        ) {
            let mut sequence = Sequence::default();
            let (mut sent, mut came, mut newest) = (BTreeSet::new(), 0, 0u64);
            let base = 1_000 + u64::from(start);
            let mut front = base;
            for (ahead, back) in steps {
                front += ahead;
                let number = (front - back).max(base);
                // No further back than is remembered.
                prop_assume!(newest == 0 || number + REMEMBERED > newest);
                newest = newest.max(number);
                let arrival = sequence.take(number as u16);
                came += u64::from(arrival != Arrival::Duplicate);
                prop_assert_eq!(arrival == Arrival::Duplicate, !sent.insert(number));
            }
            let (first, last) = (sent.first().unwrap(), sent.last().unwrap());
            prop_assert_eq!(sequence.received(), came);
            prop_assert_eq!(sequence.expected(), last - first + 1);
        }
    }
}
