//! The sample table of a track (ISO/IEC 14496-12, 8.6.1 and 8.7): runs of durations, sizes one by one, chunks that samples
//! lie in without gaps.

use std::collections::BTreeMap;

use mp4_atom::{Atom, Co64, Ctts, Stco, Stsc, Stss, Stsz, StszSamples, Stts};

use super::descriptions::Served;
use super::{find_in, within};
use crate::error::{Error, Result};
use crate::index::{Builder, Entry, spend};

/// Puts all samples of a table into an index, and returns how long the last one lasts.
pub(super) fn read(
    table: &[u8],
    served: &mut Served,
    builder: &mut Builder,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<Option<i64>> {
    let sizes = sizes(table)?;
    let count = count_of(&sizes);
    if count == 0 {
        return Ok(None);
    }
    let durations: Stts = required(table, b"stts", "a track has no table of durations (stts)")?;
    let mut durations = runs(durations.entries.iter().map(|run| (run.sample_count, run.sample_delta.into())));
    let delays: Ctts = optional(table, b"ctts")?.unwrap_or_default();
    let mut delays = runs(delays.entries.iter().map(|run| (run.sample_count, delay(run.sample_offset))));
    let syncs: Option<Stss> = optional(table, b"stss")?;
    let mut syncs = syncs.as_ref().map(|syncs| syncs.entries.iter().copied().peekable());
    let mut places = Places::read(table)?;

    let (mut decode, mut last_step) = (0_i64, 0);
    for number in 0..count {
        let bytes = match &sizes {
            StszSamples::Identical { size, .. } => *size,
            StszSamples::Different { sizes } => sizes[number as usize],
        };
        let at = places.next(bytes)?;
        if at.checked_add(bytes.into()).is_none_or(|end| end > file_bytes) {
            return Err(Error::Truncated { bytes: file_bytes, missing: "a sample that its table tells of" });
        }
        let is_sync = syncs.as_mut().is_none_or(|syncs| {
            while syncs.next_if(|sync| *sync <= number).is_some() {}
            syncs.peek() == Some(&(number + 1))
        });
        let presentation = decode.saturating_add(delays.next().unwrap_or_default());
        if served.takes(places.description, at) {
            builder.push(Entry { at, bytes, decode, presentation, is_sync }, samples_left)?;
        } else {
            spend(samples_left)?;
        }
        last_step = durations.next().unwrap_or(last_step);
        decode = decode.saturating_add(last_step);
    }
    Ok(Some(last_step))
}

/// The same of sound without compression, where a sample of the table is a value for each channel: those that lie together are
/// one sample, of at most `frames_max`. How long one of the table is its coding tells: tables have been seen to say otherwise.
pub(super) fn read_blocks(
    table: &[u8],
    frame_bytes: u8,
    frames_max: u32,
    served: &mut Served,
    builder: &mut Builder,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<Option<i64>> {
    let mut left = count_of(&sizes(table)?);
    if left == 0 {
        return Ok(None);
    }
    let durations: Stts = required(table, b"stts", "a track has no table of durations (stts)")?;
    let step = durations.entries.first().map_or(1, |run| i64::from(run.sample_delta));
    let mut places = Places::read(table)?;
    let (mut decode, mut last_step) = (0_i64, 0);
    while left > 0 {
        let (at, frames) = places.next_block(left.min(frames_max.max(1)), frame_bytes)?;
        let bytes = frames * u32::from(frame_bytes);
        if at.checked_add(bytes.into()).is_none_or(|end| end > file_bytes) {
            return Err(Error::Truncated { bytes: file_bytes, missing: "a sample that its table tells of" });
        }
        if served.takes(places.description, at) {
            builder.push(Entry { at, bytes, decode, presentation: decode, is_sync: true }, samples_left)?;
        } else {
            spend(samples_left)?;
        }
        last_step = step * i64::from(frames);
        decode = decode.saturating_add(last_step);
        left -= frames;
    }
    Ok(Some(last_step))
}

/// The number of the description that most samples have, the first of such; `None` without samples.
pub(super) fn description_of_most(table: &[u8]) -> Option<u32> {
    let runs = find_in::<Stsc>(table, &[b"stsc"])?.entries;
    let offsets = within(table, &[b"stco"]).or_else(|| within(table, &[b"co64"]))?;
    let chunks = u32::from_be_bytes(offsets.get(4..8)?.try_into().ok()?);
    let ends = runs.iter().skip(1).map(|run| run.first_chunk).chain([chunks.saturating_add(1)]);
    let mut counts = BTreeMap::<u32, u64>::new();
    for (run, end) in runs.iter().zip(ends) {
        let chunks = end.saturating_sub(run.first_chunk);
        let count = counts.entry(run.sample_description_index).or_default();
        *count = u64::from(chunks).saturating_mul(run.samples_per_chunk.into()).saturating_add(*count);
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(description, _)| description)
}

/// The lengths of all samples, which some writers pack into fewer bits (8.7.3.3).
fn sizes(table: &[u8]) -> Result<StszSamples> {
    let Some(compact) = within(table, &[b"stz2"]) else {
        let sizes: Stsz = required(table, b"stsz", "a track has no table of sizes (stsz, stz2)")?;
        return Ok(sizes.samples);
    };
    let unreadable = Error::Damaged("a track's table of sizes (stz2) cannot be read");
    let &[_, _, _, _, _, _, _, bits, a, b, c, d, ref sizes @ ..] = compact else { return Err(unreadable) };
    let count = u32::from_be_bytes([a, b, c, d]) as usize;
    let sizes: Vec<u32> = match bits {
        4 => sizes.iter().flat_map(|two| [two >> 4, two & 0xF]).map(u32::from).take(count).collect(),
        8 => sizes.iter().map(|size| u32::from(*size)).take(count).collect(),
        16 => {
            sizes.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).take(count).collect()
        }
        _ => return Err(unreadable),
    };
    if sizes.len() == count { Ok(StszSamples::Different { sizes }) } else { Err(unreadable) }
}

fn count_of(sizes: &StszSamples) -> u32 {
    match sizes {
        StszSamples::Identical { count, .. } => *count,
        StszSamples::Different { sizes } => sizes.len() as u32,
    }
}

/// Where samples lie, in their order.
struct Places {
    offsets: Vec<u64>,
    chunks: Stsc,
    /// Which run of `chunks` the next chunk is in, and its number.
    run: usize,
    chunk: usize,
    left_in_chunk: u32,
    /// Which description the samples of the chunk have.
    description: u32,
    at: u64,
}

impl Places {
    fn read(table: &[u8]) -> Result<Self> {
        let offsets = match optional::<Co64>(table, b"co64")? {
            Some(table) => table.entries,
            None => {
                let table: Stco = required(table, b"stco", "a track has no table of chunks (stco, co64)")?;
                table.entries.into_iter().map(u64::from).collect()
            }
        };
        let chunks = required(table, b"stsc", "a track does not say how many samples a chunk has (stsc)")?;
        Ok(Self { offsets, chunks, run: 0, chunk: 0, left_in_chunk: 0, description: 0, at: 0 })
    }

    fn next(&mut self, bytes: u32) -> Result<u64> {
        self.open_chunk()?;
        self.left_in_chunk -= 1;
        let at = self.at;
        self.at = at.saturating_add(bytes.into());
        Ok(at)
    }

    /// Where the next samples lie, of the same length, and how many of them lie together: at most `count_max`.
    fn next_block(&mut self, count_max: u32, bytes: u8) -> Result<(u64, u32)> {
        self.open_chunk()?;
        // Within 32 bits with any length.
        let count = self.left_in_chunk.min(count_max).min(1 << 24);
        self.left_in_chunk -= count;
        let at = self.at;
        self.at = at.saturating_add(u64::from(count) * u64::from(bytes));
        Ok((at, count))
    }

    fn open_chunk(&mut self) -> Result<()> {
        while self.left_in_chunk == 0 {
            let few = Error::Damaged("a track has more samples than its chunks have room for");
            let Some(offset) = self.offsets.get(self.chunk) else { return Err(few) };
            let runs = &self.chunks.entries;
            // Chunks are counted from 1.
            let begins =
                |run: usize| runs.get(run).is_some_and(|run| run.first_chunk as usize <= self.chunk + 1);
            while begins(self.run + 1) {
                self.run += 1;
            }
            let Some(run) = runs.get(self.run) else { return Err(few) };
            self.left_in_chunk = run.samples_per_chunk;
            self.description = run.sample_description_index;
            self.chunk += 1;
            self.at = *offset;
        }
        Ok(())
    }
}

/// From decoding to presentation. Old writers of QuickTime put negative ones into tables whose version has none.
pub(super) fn delay(told: i64) -> i64 {
    i64::from(told as i32)
}

/// The value of each sample, where a table has values for so many in a row.
fn runs(table: impl Iterator<Item = (u32, i64)>) -> impl Iterator<Item = i64> {
    table.flat_map(|(count, value)| std::iter::repeat_n(value, count as usize))
}

fn required<A: Atom>(table: &[u8], name: &[u8; 4], missing: &'static str) -> Result<A> {
    find_in(table, &[name]).ok_or(Error::Damaged(missing))
}

/// A table that may be absent, but not unreadable.
fn optional<A: Atom>(table: &[u8], name: &[u8; 4]) -> Result<Option<A>> {
    let Some(mut content) = within(table, &[name]) else { return Ok(None) };
    A::decode_body(&mut content).map(Some).map_err(|_| Error::Damaged("a table of a track cannot be read"))
}
