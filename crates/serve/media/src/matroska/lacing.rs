//! The times of frames that share a block, where only the block has a time.
//!
//! If neither the track nor the block tells how long frames last, they fill the time up to the next block of the track.

use super::Draft;
use crate::error::Result;
use crate::index::Entry;

/// Frames that last this many times as long as the ones before did not fill the time: there was a pause.
const PAUSE_FRAMES: i64 = 4;

/// The frames of a block, all with the time of the block.
#[derive(Debug, Default)]
pub(super) struct Laced {
    pub frames: Vec<Entry>,
    /// How long they last together, in ticks, if that is told.
    pub lasts: Option<i64>,
}

impl Laced {
    fn time(&self) -> i64 {
        self.frames.first().map_or(0, |first| first.presentation)
    }

    fn count(&self) -> i64 {
        self.frames.len() as i64
    }
}

impl Draft {
    /// The next block of the track.
    pub fn add(&mut self, block: Laced, samples_left: &mut u64) -> Result<()> {
        self.settle(Some(block.time()), samples_left)?;
        self.waiting = block;
        if self.waiting.lasts.is_some() || self.waiting.count() == 1 {
            self.settle(None, samples_left)?;
        }
        Ok(())
    }

    /// Gives times to the frames that wait for the time of the next block; `None` if there is none.
    pub fn settle(&mut self, next: Option<i64>, samples_left: &mut u64) -> Result<()> {
        let block = std::mem::take(&mut self.waiting);
        let (time, count) = (block.time(), block.count());
        let until_next = next.map(|next| next.saturating_sub(time)).filter(|lasts| *lasts > 0);
        // How long as many of the frames before have lasted.
        let as_before = self.lasted.map(|(lasted, frames)| lasted.saturating_mul(count) / frames);
        let is_pause =
            |lasts: i64| as_before.is_some_and(|before| lasts > before.saturating_mul(PAUSE_FRAMES));
        let lasts =
            block.lasts.or(until_next.filter(|lasts| !is_pause(*lasts))).or(as_before).unwrap_or_default();
        if count > 1 && lasts > 0 {
            self.lasted = Some((lasts, count));
        }
        for (number, frame) in (0..).zip(block.frames) {
            let later = i128::from(lasts) * i128::from(number) / i128::from(count);
            let presentation = frame.presentation.saturating_add(later as i64);
            self.order.push(Entry { presentation, ..frame }, &mut self.builder, samples_left)?;
        }
        Ok(())
    }
}
