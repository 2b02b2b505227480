//! Timers of thousands of streams: a wheel of slots, each with the timers of one quarter of a millisecond.
//!
//! Setting a timer takes no search. Memory is that of the most timers that were set at a time, wherever on the wheel they are. A
//! timer that is set again or removed stays in its slot until its time comes; the caller drops it then.

const SLOT_NS: u64 = 250_000;
/// A turn takes two seconds; what is due later stays in its slot for another one.
const SLOTS: usize = 8192;
/// No timer: the end of a list.
const NONE: u32 = u32::MAX;

/// Timers with keys of the caller's: at most 4 G.
#[derive(Debug)]
pub struct Wheel<K> {
    /// The first timer of each slot's list.
    slots: Vec<u32>,
    timers: Vec<Timer<K>>,
    /// The first of the timers that are of no more use.
    free: u32,
    /// A bit for each slot that is not empty.
    occupied: [u64; SLOTS / 64],
    /// The slot of the last [`Wheel::pop_due`]: nothing is due before.
    now_slot: u64,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Timer<K> {
    due_ns: u64,
    key: K,
    next: u32,
}

impl<K: Copy> Default for Wheel<K> {
    fn default() -> Self {
        let (slots, timers) = (vec![NONE; SLOTS], Vec::new());
        Self { slots, timers, free: NONE, occupied: [0; SLOTS / 64], now_slot: 0, count: 0 }
    }
}

impl<K: Copy> Wheel<K> {
    /// Has `key` due at a time; what is past is due at once.
    pub fn set(&mut self, due_ns: u64, key: K) {
        let slot = (due_ns / SLOT_NS).max(self.now_slot) as usize % SLOTS;
        let timer = Timer { due_ns, key, next: self.slots[slot] };
        self.slots[slot] = match self.timers.get_mut(self.free as usize) {
            Some(place) => {
                let number = self.free;
                self.free = place.next;
                *place = timer;
                number
            }
            None => {
                self.timers.push(timer);
                self.timers.len() as u32 - 1
            }
        };
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.count += 1;
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all that are due by now, and appends them to `due`, those that were due earlier mostly first.
    pub fn pop_due(&mut self, now_ns: u64, due: &mut Vec<(u64, K)>) {
        let last = now_ns / SLOT_NS;
        let slots = last.saturating_sub(self.now_slot).min(SLOTS as u64 - 1);
        for number in last - slots..=last {
            let slot = number as usize % SLOTS;
            if self.occupied[slot / 64] & 1 << (slot % 64) != 0 {
                self.pop_due_in(slot, now_ns, due);
            }
        }
        self.now_slot = self.now_slot.max(last);
    }

    fn pop_due_in(&mut self, slot: usize, now_ns: u64, due: &mut Vec<(u64, K)>) {
        let mut rest = std::mem::replace(&mut self.slots[slot], NONE);
        while rest != NONE {
            let number = rest;
            let timer = &mut self.timers[number as usize];
            rest = timer.next;
            let list = if timer.due_ns <= now_ns {
                due.push((timer.due_ns, timer.key));
                self.count -= 1;
                &mut self.free
            } else {
                &mut self.slots[slot]
            };
            timer.next = std::mem::replace(list, number);
        }
        if self.slots[slot] == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// When the next is due; not later, but perhaps earlier where a slot has those of a later turn only.
    pub fn next_due_ns(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let mut earliest = u64::MAX;
        let mut distance = 0;
        while distance < SLOTS {
            let slot = (self.now_slot as usize + distance) % SLOTS;
            let word = self.occupied[slot / 64] >> (slot % 64);
            if word == 0 {
                distance += 64 - slot % 64;
                continue;
            }
            distance += word.trailing_zeros() as usize;
            let slot = (self.now_slot as usize + distance) % SLOTS;
            let turn_end_ns = (self.now_slot + distance as u64 + 1) * SLOT_NS;
            earliest = self.timers_in(slot).map(|timer| timer.due_ns).fold(earliest, u64::min);
            if earliest < turn_end_ns {
                break;
            }
            distance += 1;
        }
        Some(earliest)
    }

    fn timers_in(&self, slot: usize) -> impl Iterator<Item = &Timer<K>> {
        let timer = |number: u32| self.timers.get(number as usize);
        std::iter::successors(timer(self.slots[slot]), move |one| timer(one.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_come_when_they_are_due_and_none_before(
            steps in prop::collection::vec((0..9_000_000_000_u64, 0..5_000_000_000_u64), 1..60),
        ) {
            let mut wheel = Wheel::default();
            let mut expected: Vec<(u64, usize)> = Vec::new();
            let mut now_ns = 1_000_000_000_000;
            let mut due = Vec::new();
            for (number, (delay_ns, step_ns)) in steps.into_iter().enumerate() {
                wheel.set(now_ns + delay_ns, number);
                expected.push((now_ns + delay_ns, number));
                let next_ns = wheel.next_due_ns().expect("one is set");
                let earliest = expected.iter().map(|(due_ns, _)| *due_ns).min().expect("one is set");
                prop_assert_eq!(next_ns, earliest);
                now_ns += step_ns;
                due.clear();
                wheel.pop_due(now_ns, &mut due);
                due.sort_unstable();
                let mut now_due: Vec<_> = expected.extract_if(.., |(due_ns, _)| *due_ns <= now_ns).collect();
                now_due.sort_unstable();
                prop_assert_eq!(&due, &now_due);
                prop_assert_eq!(wheel.len(), expected.len());
            }
        }
    }

    #[test]
    fn memory_is_that_of_the_most_timers_at_a_time() {
        let mut wheel = Wheel::default();
        let mut due = Vec::new();
        for round in 0..100_000_u64 {
            (0..5).for_each(|key| wheel.set(round * SLOT_NS + 1, key));
            wheel.pop_due((round + 1) * SLOT_NS, &mut due);
        }
        assert_eq!((due.len(), wheel.timers.len()), (500_000, 5));
    }

    #[test]
    fn what_is_past_is_due_at_once() {
        let mut wheel = Wheel::default();
        let mut due = Vec::new();
        wheel.pop_due(5_000_000_000, &mut due);
        wheel.set(1, 'a');
        assert_eq!(wheel.next_due_ns(), Some(1));
        wheel.pop_due(5_000_000_001, &mut due);
        assert_eq!(due, [(1, 'a')]);
        assert!(wheel.is_empty());
    }
}
