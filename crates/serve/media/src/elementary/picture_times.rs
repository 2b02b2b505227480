//! When pictures are decoded and seen that have no times of their own (ISO/IEC 13818-1, 2.4.3.7). These are all but the first one of
//! a PES packet, and those of packets without times.
//!
//! ```text
//!   decoded   | 10     | -      | -      | 40     |     a packet of three pictures, and the next one
//!   given     .        | 20     | 30     .               in equal parts
//!   seen      | 20     | 50     | 30     | 40     |     by the order that the pictures tell
//! ```

use super::times::CLOCK_RATE;
use crate::error::Result;
use crate::index::{Builder, Entry};

/// How many pictures wait for one with a time. Times come every 700 ms (2.7.4).
const WAITING_MAX: usize = 512;

/// What a stream is taken to have that tells nothing, in pictures a second.
const PICTURES_PER_SECOND: i64 = 25;

/// The longest time that a picture is believed to last.
const STEP_MAX: i64 = 10 * CLOCK_RATE as i64;

/// A picture is seen at most so many pictures after it is decoded (ITU-T H.264, A.3.1), or fields twice.
const DEPTH: i64 = 32;

/// A picture in the order of decoding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    pub at: u64,
    pub bytes: u32,
    pub is_sync: bool,
    /// Whether it is served. Those before the first key frame are not, but time passes with them.
    pub is_served: bool,
    /// Where it comes in the order of presentation, as in [`Picture`](crate::reorder::Picture).
    pub order: (u64, i64),
}

/// When a picture is decoded, and when it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub decode: i64,
    pub presentation: i64,
}

/// A picture whose times are known.
#[derive(Clone, Copy, Debug)]
struct Known {
    times: Own,
    order: (u64, i64),
}

/// Gives times to the pictures of a stream.
#[derive(Debug)]
pub(super) struct PictureTimes {
    /// How far the orders of two pictures in a row are apart, where nothing else is known.
    usual_orders: i64,
    last: Option<Known>,
    waiting: Vec<Picture>,
    /// How long a picture lasts, as far as that has been measured.
    step: Option<i64>,
    /// What lies between two pictures that were seen in one sequence: ticks, and orders.
    distance: Option<(i64, i64)>,
    /// From decoding to presentation of the picture that began the last sequence.
    first_delay: i64,
}

impl PictureTimes {
    pub fn new(usual_orders: i64) -> Self {
        Self { usual_orders, last: None, waiting: Vec::new(), step: None, distance: None, first_delay: 0 }
    }

    /// Whether a picture may have no time.
    pub fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// About when the pictures that wait are over; `None` if none do.
    pub fn waiting_until(&self, told_step: Option<i64>) -> Option<i64> {
        let last = self.last.filter(|_| !self.waiting.is_empty())?;
        let steps = self.waiting.len() as i64 * self.known_step(told_step);
        Some(last.times.decode.saturating_add(steps))
    }

    /// The next picture. `told_step` is how long a picture lasts as the stream says.
    pub fn push(
        &mut self,
        picture: Picture,
        own: Option<Own>,
        told_step: Option<i64>,
        to: &mut Builder,
        samples_left: &mut u64,
    ) -> Result<()> {
        let Some(times) = own else {
            self.waiting.push(picture);
            let is_full = self.waiting.len() >= WAITING_MAX;
            return if is_full { self.end(told_step, to, samples_left) } else { Ok(()) };
        };
        let known = Known { times, order: picture.order };
        self.give(Some(known), told_step, to, samples_left)?;
        if self.last.is_none_or(|last| last.order.0 != known.order.0) {
            self.first_delay = times.presentation.saturating_sub(times.decode);
        }
        self.last = Some(known);
        add(picture, times, to, samples_left)
    }

    /// No picture with a time follows those that wait.
    pub fn end(&mut self, told_step: Option<i64>, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        self.give(None, told_step, to, samples_left)
    }

    fn known_step(&self, told: Option<i64>) -> i64 {
        let known = self.step.or(told).filter(|step| (1..=STEP_MAX).contains(step));
        known.unwrap_or(i64::from(CLOCK_RATE) / PICTURES_PER_SECOND)
    }

    /// Gives times to those that wait, before the picture that is known next.
    fn give(
        &mut self,
        next: Option<Known>,
        told_step: Option<i64>,
        to: &mut Builder,
        samples_left: &mut u64,
    ) -> Result<()> {
        let Some(begin) = self.last else { return Ok(()) };
        let steps = self.waiting.len() as i64 + 1;
        let until = next.map(|next| next.times.decode.saturating_sub(begin.times.decode));
        // Where pictures were lost, or streams were joined, more time passes than they take.
        let most = 2 * self.known_step(told_step) * steps;
        let until = until.filter(|ticks| (1..=most).contains(ticks));
        if let Some(next) = next.filter(|next| next.order.0 == begin.order.0 && next.order.1 != begin.order.1)
        {
            let ticks = next.times.presentation.saturating_sub(begin.times.presentation);
            self.distance = Some((ticks, next.order.1.saturating_sub(begin.order.1)));
        }
        self.step = until.map(|ticks| ticks / steps).filter(|step| *step > 0).or(self.step);
        let step = self.known_step(told_step);
        let mut last = begin;
        for (picture, number) in std::mem::take(&mut self.waiting).into_iter().zip(1..) {
            let since = until.map_or(number * step, |ticks| ticks * number / steps);
            let decode = begin.times.decode.saturating_add(since);
            let is_first = picture.order.0 != last.order.0;
            let seen = if is_first { None } else { self.seen(last, picture.order.1, step) };
            let is_possible = |seen: &i64| (decode..=decode.saturating_add(DEPTH * step)).contains(seen);
            let presentation = seen.filter(is_possible).unwrap_or(decode.saturating_add(self.first_delay));
            let times = Own { decode, presentation };
            last = Known { times, order: picture.order };
            add(picture, times, to, samples_left)?;
        }
        self.last = Some(last);
        Ok(())
    }

    /// When a picture is seen by its distance to another one of its sequence.
    fn seen(&self, near: Known, order: i64, step: i64) -> Option<i64> {
        let (ticks, orders) = self.distance.unwrap_or((step, self.usual_orders));
        let distance = i128::from(order) - i128::from(near.order.1);
        let ticks = distance.checked_mul(ticks.into())?.checked_div(orders.into())?;
        near.times.presentation.checked_add(i64::try_from(ticks).ok()?)
    }
}

fn add(picture: Picture, times: Own, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
    let Picture { at, bytes, is_sync, is_served, .. } = picture;
    let Own { decode, presentation } = times;
    let entry = Entry { at, bytes, decode, presentation, is_sync };
    if is_served { to.push(entry, samples_left) } else { Ok(()) }
}
