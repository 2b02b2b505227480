//! The sample table of a track (ISO/IEC 14496-12, 8.6.1 and 8.7): runs of durations, sizes one by one, chunks that samples
//! lie in without gaps.

use mp4_atom::{Atom, Co64, Ctts, Stco, Stsc, Stss, Stsz, StszSamples, Stts};

use super::find_in;
use crate::error::{Error, Result};
use crate::index::{Builder, Entry};

/// Puts all samples of a table into an index, and returns how long the last one lasts.
pub(super) fn read(
    table: &[u8],
    builder: &mut Builder,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<Option<i64>> {
    let sizes: Stsz = required(table, b"stsz", "a track has no table of sizes (stsz)")?;
    let count = match &sizes.samples {
        StszSamples::Identical { count, .. } => *count,
        StszSamples::Different { sizes } => sizes.len() as u32,
    };
    if count == 0 {
        return Ok(None);
    }
    let durations: Stts = required(table, b"stts", "a track has no table of durations (stts)")?;
    let mut durations = runs(durations.entries.iter().map(|run| (run.sample_count, run.sample_delta.into())));
    let delays: Ctts = optional(table, b"ctts")?.unwrap_or_default();
    let mut delays = runs(delays.entries.iter().map(|run| (run.sample_count, run.sample_offset)));
    let syncs: Option<Stss> = optional(table, b"stss")?;
    let mut syncs = syncs.as_ref().map(|syncs| syncs.entries.iter().copied().peekable());
    let mut places = Places::read(table)?;

    let (mut decode, mut last_step) = (0_i64, 0);
    for number in 0..count {
        let bytes = match &sizes.samples {
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
        builder.push(Entry { at, bytes, decode, presentation, is_sync }, samples_left)?;
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
    builder: &mut Builder,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<Option<i64>> {
    let sizes: Stsz = required(table, b"stsz", "a track has no table of sizes (stsz)")?;
    let mut left = match &sizes.samples {
        StszSamples::Identical { count, .. } => *count,
        StszSamples::Different { sizes } => sizes.len() as u32,
    };
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
        builder.push(Entry { at, bytes, decode, presentation: decode, is_sync: true }, samples_left)?;
        last_step = step * i64::from(frames);
        decode = decode.saturating_add(last_step);
        left -= frames;
    }
    Ok(Some(last_step))
}

/// Where samples lie, in their order.
struct Places {
    offsets: Vec<u64>,
    chunks: Stsc,
    /// Which run of `chunks` the next chunk is in, and its number.
    run: usize,
    chunk: usize,
    left_in_chunk: u32,
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
        Ok(Self { offsets, chunks, run: 0, chunk: 0, left_in_chunk: 0, at: 0 })
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
            self.chunk += 1;
            self.at = *offset;
        }
        Ok(())
    }
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
    let Some(mut content) = super::within(table, &[name]) else { return Ok(None) };
    A::decode_body(&mut content).map(Some).map_err(|_| Error::Damaged("a table of a track cannot be read"))
}
