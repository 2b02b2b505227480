//! Order of decoding against order of presentation, where a file tells only one of the two.
//!
//! The n-th sample to be decoded is due when the n-th to be presented is, less what the deepest reordering takes
//! ([`Index::lead`](crate::index::Index)).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::error::Result;
use crate::index::{Builder, Entry};

/// Decoders hold back at most 16 pictures (H.264, A.3.1; H.265, A.4.1), or as many fields twice.
const DEPTH: usize = 32;

/// How many pictures may wait for one that comes before them in the order of decoding.
const WAITING_MAX: usize = 4 * DEPTH;

/// Samples that tell only when they are presented.
#[derive(Debug, Default)]
pub(crate) struct Presented {
    waiting: VecDeque<Entry>,
    times: BinaryHeap<Reverse<i64>>,
}

impl Presented {
    pub fn push(&mut self, entry: Entry, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        self.waiting.push_back(entry);
        self.times.push(Reverse(entry.presentation));
        if self.waiting.len() > DEPTH { self.pass_on(to, samples_left) } else { Ok(()) }
    }

    pub fn end(&mut self, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        while !self.waiting.is_empty() {
            self.pass_on(to, samples_left)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        let (Some(entry), Some(Reverse(decode))) = (self.waiting.pop_front(), self.times.pop()) else {
            return Ok(());
        };
        to.push(Entry { decode, ..entry }, samples_left)
    }
}

/// A picture of a stream without times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture {
    pub at: u64,
    pub bytes: u32,
    pub is_sync: bool,
    /// Where it comes in the order of presentation: counted from the last picture that nothing crosses, and that one's number.
    pub order: (u64, i64),
}

/// A picture that waits for its time: when it is decoded, and when it is presented.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    picture: Picture,
    decode: i64,
    presentation: Option<i64>,
}

/// Pictures that tell only in which order they are presented, each of which lasts for a tick.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    waiting: VecDeque<Waiting>,
    /// The tick of the next one, and those of pictures that have not been given to one that is presented.
    tick: i64,
    ticks: VecDeque<i64>,
    /// Orders of those that have no time yet, with how many came before.
    orders: BinaryHeap<Reverse<((u64, i64), u64)>>,
    pushed: u64,
    passed_on: u64,
}

impl Ordered {
    pub fn push(&mut self, picture: Picture, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        self.waiting.push_back(Waiting { picture, decode: self.tick, presentation: None });
        self.ticks.push_back(self.tick);
        self.tick += 1;
        self.orders.push(Reverse((picture.order, self.pushed)));
        self.pushed += 1;
        // Others may be presented first for ever; so one that has waited for long has them all presented.
        let left = if self.waiting.len() > WAITING_MAX { 0 } else { DEPTH };
        while self.orders.len() > left {
            self.present(to, samples_left)?;
        }
        Ok(())
    }

    /// A tick has no picture: the one before lasts longer.
    pub fn skip(&mut self) {
        self.tick += 1;
    }

    pub fn finish(mut self, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        while !self.orders.is_empty() {
            self.present(to, samples_left)?;
        }
        Ok(())
    }

    /// The next one in the order of presentation gets its time, and those go on that have one.
    fn present(&mut self, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        if let Some(Reverse((_, number))) = self.orders.pop()
            && let Some(waiting) = self.waiting.get_mut((number - self.passed_on) as usize)
        {
            waiting.presentation = self.ticks.pop_front();
        }
        while let Some(Waiting { picture, decode, presentation: Some(presentation) }) = self.waiting.front() {
            let Picture { at, bytes, is_sync, .. } = *picture;
            let (decode, presentation) = (*decode, *presentation);
            to.push(Entry { at, bytes, decode, presentation, is_sync }, samples_left)?;
            self.waiting.pop_front();
            self.passed_on += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::SAMPLES_MAX;

    fn entry(presentation: i64) -> Entry {
        Entry { at: 0, bytes: 1, decode: 0, presentation, is_sync: true }
    }

    fn times(builder: Builder) -> Vec<(i64, i64)> {
        let mut index = builder.finish(None).expect("samples");
        index.lead();
        index.entries_from(Default::default()).map(|entry| (entry.decode, entry.presentation)).collect()
    }

    #[test]
    fn decoding_follows_from_presentation() {
        let (mut presented, mut builder, mut left) = (Presented::default(), Builder::default(), SAMPLES_MAX);
        for time in [0, 120, 40, 80, 160] {
            presented.push(entry(time), &mut builder, &mut left).expect("room");
        }
        presented.end(&mut builder, &mut left).expect("room");
        assert_eq!(times(builder), [(-40, 0), (0, 120), (40, 40), (80, 80), (120, 160)]);
    }

    #[test]
    fn presentation_follows_from_the_order() {
        let (mut ordered, mut builder, mut left) = (Ordered::default(), Builder::default(), SAMPLES_MAX);
        for sequence in 0..20 {
            for order in [0, 6, 2, 4] {
                let picture = Picture { at: 0, bytes: 1, is_sync: order == 0, order: (sequence, order) };
                ordered.push(picture, &mut builder, &mut left).expect("room");
            }
        }
        ordered.finish(&mut builder, &mut left).expect("room");
        let times = times(builder);
        assert_eq!(times[..5], [(-1, 0), (0, 3), (1, 1), (2, 2), (3, 4)]);
        assert_eq!(times[76..], [(75, 76), (76, 79), (77, 77), (78, 78)]);
    }

    #[test]
    fn a_tick_without_a_picture_passes_all_the_same() {
        let (mut ordered, mut builder, mut left) = (Ordered::default(), Builder::default(), SAMPLES_MAX);
        for order in [0, 6, 2, 4] {
            let picture = Picture { at: 0, bytes: 1, is_sync: true, order: (0, order) };
            ordered.push(picture, &mut builder, &mut left).expect("room");
            ordered.skip();
        }
        ordered.finish(&mut builder, &mut left).expect("room");
        assert_eq!(times(builder), [(-2, 0), (0, 6), (2, 2), (4, 4)]);
    }

    #[test]
    fn a_picture_that_says_it_comes_last_holds_back_few() {
        let (mut ordered, mut builder, mut left) = (Ordered::default(), Builder::default(), SAMPLES_MAX);
        for number in 0..1000 {
            let order = if number == 0 { i64::MAX } else { number };
            let picture = Picture { at: 0, bytes: 1, is_sync: true, order: (0, order) };
            ordered.push(picture, &mut builder, &mut left).expect("room");
            assert!(ordered.waiting.len() <= WAITING_MAX);
        }
        ordered.finish(&mut builder, &mut left).expect("room");
        assert_eq!(times(builder).len(), 1000);
    }
}
