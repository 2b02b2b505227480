//! Whether a mapped file that a program faults through is read ahead, and how fast.
//!
//! # Model
//!
//! Many threads that fault through a large mapping in no order wait for each page by itself: a *storm*. Reading the rest in large
//! pieces, a *stream*, takes the device less time, if the program uses most of it. A look-up in a database begins in the same way.
//! Only what follows tells the two apart, so a stream begins with a small stake and grows with what it saves.
//!
//! A file has up to [`AREAS`] areas of equal size. [`BLOCKS`] blocks of [`BLOCK_PAGES`] pages in each are a sample. Looks at the
//! program's page map tell which pages of the sample the program has touched.
//!
//! * A storm is *spread* when [`STORM_AREAS_MIN`] areas have been touched, each in a part of its sample. What is read in sequence
//!   has touched one area in part.
//! * The area that was touched most is streamed first. An area without a touch is never streamed.
//! * A touch in an area that was streamed is a *hit*, a stall saved. The kernel maps a block at its first touch, so a block is one
//!   hit at most.
//!
//! The account is that of speculations (`account.rs`). With `S` as the time of a request that the device serves alone, and `c`
//! requests served at once:
//!
//! ```text
//!     balance = faults S / 16 + 3/4 hits S - pieces streamed (S / c + processor time of a piece)
//! ```
//!
//! The balance is what may be streamed next.
//!
//! # Bound
//!
//! A program that uses nothing of a stream loses a sixteenth of the time that its threads waited, as time of the device.
//!
//! A stream of all pages costs the device a certain time. What a stream has read so far has paid for itself when the program has
//! waited for as long. So a program that goes on for longer is streamed by ever larger steps, and one that ends sooner has
//! cost its stake.
//!
//! Times are in ticks.

use core::array;

use forebay_protocol::layout::STREAM_AREAS;

use crate::inflight::InflightLimit;
use crate::price::{SAVED_QUARTERS, STALL_US_MIN, STORM_AREAS_MIN, STREAM_PAGE_NS, WAITED_PART, ticks};

/// Areas of a file, at most.
pub const AREAS: usize = STREAM_AREAS;
/// Blocks of an area that are looked at.
pub const BLOCKS: usize = 16;
/// Pages of a block: as many as the kernel maps for one touch.
pub const BLOCK_PAGES: usize = 16;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// What is streamed by one request.
pub const PIECE_BYTES: u64 = 128 << 10;

const BLOCK_BYTES: u64 = BLOCK_PAGES as u64 * PAGE_BYTES;
/// The smallest area: all of it is in the sample.
const AREA_BYTES_MIN: u64 = BLOCKS as u64 * BLOCK_BYTES;
const ALL_BLOCKS: u16 = u16::MAX;

/// What is in a process's page table of the sample of one area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Pages.
    pub pages: u16,
    /// A bit for each block of which there is a page.
    pub blocks: u16,
}

/// What was touched since the last look, as far as the sample tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    /// Pages of areas that were not streamed.
    pub missed: u64,
    /// Blocks of areas that were.
    pub hits: u64,
}

/// What a fault and a piece cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    request: u64,
    piece: u64,
}

impl Prices {
    /// Those of a device with this limit; of one that nothing is known of, a fault counts as the shortest stall.
    #[must_use]
    pub fn of(limit: &InflightLimit, ticks_per_second: u64) -> Self {
        let request = match limit.base_ticks() {
            0 => ticks(STALL_US_MIN * 1_000, ticks_per_second),
            known => known,
        };
        let at_once = limit.serves_at_once().map_or(1, |_| limit.may_serve_at_once());
        let processor = ticks(PIECE_BYTES / PAGE_BYTES * STREAM_PAGE_NS, ticks_per_second);
        Self { request, piece: (request / u64::from(at_once)).saturating_add(processor).max(1) }
    }
}

impl Prices {
    /// Whether a piece is worth its price if one in so many spares a stall.
    #[must_use]
    pub const fn pay_for_one_in(&self, pieces: u64) -> bool {
        self.request / 4 * SAVED_QUARTERS / pieces >= self.piece
    }
}

/// What is known of a file that a process faults through.
#[derive(Clone, Debug)]
pub struct Storm {
    areas: [Area; AREAS],
    count: usize,
    area_bytes: u64,
    /// Whether there was a look.
    has_seen: bool,
    faults: u64,
    hits: u64,
    spent: u64,
    /// What was used of areas that were streamed, in pages.
    used: u64,
    order: [u8; AREAS],
    ordered: usize,
    /// Bytes handed out at the last look, in the order of the areas.
    position: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Area {
    seen: Seen,
    touches: u32,
    is_ordered: bool,
}

impl Storm {
    /// Of a file of so many bytes, of which nothing was looked at.
    #[must_use]
    pub fn new(file_bytes: u64) -> Self {
        let area_bytes = file_bytes.div_ceil(AREAS as u64).div_ceil(AREA_BYTES_MIN).max(1) * AREA_BYTES_MIN;
        Self {
            areas: [Area::default(); AREAS],
            count: file_bytes.div_ceil(area_bytes).min(AREAS as u64) as usize,
            area_bytes,
            has_seen: false,
            faults: 0,
            hits: 0,
            spent: 0,
            used: 0,
            order: [0; AREAS],
            ordered: 0,
            position: 0,
        }
    }

    /// The size of an area.
    #[must_use]
    pub const fn area_bytes(&self) -> u64 {
        self.area_bytes
    }

    /// Where the blocks of the sample of an area are in the file; none behind its end.
    pub fn sample(&self, area: usize) -> impl Iterator<Item = u64> + use<> {
        let (first, apart) = ((area as u64).saturating_mul(self.area_bytes), self.area_bytes / BLOCKS as u64);
        let blocks = if area < self.count { BLOCKS as u64 } else { 0 };
        (0..blocks).map(move |block| first.saturating_add(block * apart))
    }

    /// Takes what a look found, when so many bytes of the stream have been handed out. The first look only says what was there before.
    pub fn see(&mut self, seen: &[Seen; AREAS], position: u64) -> Fresh {
        let scale = self.area_bytes / AREA_BYTES_MIN;
        let streamed = (position / self.area_bytes).min(self.ordered as u64) as usize;
        let is_streamed: [bool; AREAS] =
            array::from_fn(|area| self.order[..streamed].contains(&(area as u8)));
        let mut fresh = Fresh::default();
        for ((area, seen), is_streamed) in self.areas.iter_mut().zip(seen).zip(is_streamed) {
            let pages = u64::from(seen.pages.saturating_sub(area.seen.pages)).saturating_mul(scale);
            let blocks = u64::from((seen.blocks & !area.seen.blocks).count_ones()).saturating_mul(scale);
            let touches = u32::from(seen.pages.saturating_sub(area.seen.pages));
            area.seen = *seen;
            if !self.has_seen {
                continue;
            }
            if is_streamed {
                fresh.hits = fresh.hits.saturating_add(blocks);
                self.used = self.used.saturating_add(pages);
            } else {
                fresh.missed = fresh.missed.saturating_add(pages);
                area.touches = area.touches.saturating_add(touches);
            }
        }
        self.has_seen = true;
        self.hits = self.hits.saturating_add(fresh.hits);
        fresh
    }

    /// The process had so many faults in this file since the last look. Returns up to where the stream may go on, in bytes of the
    /// areas of [`Self::order`], of which there may be so many.
    pub fn on_look(&mut self, faults: u64, position: u64, prices: Prices, areas_max: usize) -> u64 {
        self.faults = self.faults.saturating_add(faults);
        let pieces = position.saturating_sub(self.position).div_ceil(PIECE_BYTES);
        self.spent = self.spent.saturating_add(pieces.saturating_mul(prices.piece));
        self.position = position;
        if self.ordered > 0 || self.is_spread() {
            self.order_more(areas_max);
        }
        let earned = (self.faults.saturating_mul(prices.request) / WAITED_PART)
            .saturating_add(self.saved(prices) / 4 * SAVED_QUARTERS);
        let pieces = earned.saturating_sub(self.spent) / prices.piece;
        let end = self.end();
        position.saturating_add(pieces.saturating_mul(PIECE_BYTES)).min(end).max(position)
    }

    /// The areas that are streamed, in this order.
    #[must_use]
    pub fn order(&self) -> &[u8] {
        &self.order[..self.ordered]
    }

    /// Whether the stream has saved more than it has cost.
    #[must_use]
    pub fn pays(&self, prices: Prices) -> bool {
        self.saved(prices) > self.spent
    }

    /// Bytes that were streamed and that the process has mapped since.
    #[must_use]
    pub const fn used_bytes(&self) -> u64 {
        self.used.saturating_mul(PAGE_BYTES)
    }

    /// Whether there is nothing left to stream, where there may be so many areas.
    #[must_use]
    pub fn is_over(&self, areas_max: usize) -> bool {
        self.ordered > 0 && self.ordered >= self.count.min(areas_max) && self.position >= self.end()
    }

    fn end(&self) -> u64 {
        (self.ordered as u64).saturating_mul(self.area_bytes)
    }

    fn saved(&self, prices: Prices) -> u64 {
        self.hits.saturating_mul(prices.request)
    }

    fn is_spread(&self) -> bool {
        self.areas.iter().filter(|area| area.touches > 0 && !area.is_full()).count() >= STORM_AREAS_MIN
    }

    fn order_more(&mut self, areas_max: usize) {
        while self.ordered < self.count.min(areas_max) {
            let waiting = (0..self.count).filter(|area| self.areas[*area].may_be_streamed());
            let Some(most) = waiting.max_by_key(|area| self.areas[*area].touches) else { return };
            self.areas[most].is_ordered = true;
            self.order[self.ordered] = most as u8;
            self.ordered += 1;
        }
    }
}

impl Area {
    fn is_full(&self) -> bool {
        self.seen.blocks == ALL_BLOCKS && usize::from(self.seen.pages) >= BLOCKS * BLOCK_PAGES
    }

    fn may_be_streamed(&self) -> bool {
        !self.is_ordered && self.touches > 0 && !self.is_full()
    }
}
