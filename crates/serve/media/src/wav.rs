//! WAV, and RF64 and BW64 for files of more than 4 GiB (EBU Tech 3306): chunks, of which one says what the sound is, and one has it.
//!
//! ```text
//!   +------+-------+------+------+-------+--------+------+-------+------------------
//!   | RIFF | bytes | WAVE | fmt  | bytes | format | data | bytes | values, values, ...
//!   +------+-------+------+------+-------+--------+------+-------+------------------
//! ```

use forebay_rtsp::packetise::Format;

use crate::error::{Error, Result};
use crate::index::{Builder, Entry, samples_max};
use crate::media::{Found, Track};
use crate::source::Source;
use crate::time::TimeBase;
use crate::windows;

/// Writers have a handful of chunks before the sound.
const CHUNKS_MAX: usize = 10_000;
/// Of a description.
const FORMAT_BYTES_MAX: u64 = 1 << 10;
/// How much sound is one sample: a part of a second, and so many bytes at most.
const BLOCKS_PER_SECOND: u32 = 50;
const BLOCK_BYTES_MAX: u32 = 64 << 10;

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let missing = |missing| Error::Truncated { bytes: source.bytes(), missing };
    let (no_format, no_sound) = (missing("what its sound is"), missing("its sound"));
    let (mut at, mut format, mut long_bytes) = (12, None, None);
    for _ in 0..CHUNKS_MAX {
        let Some([n, a, m, e, bytes @ ..]) = source.array::<8>(at)? else { break };
        let (content, bytes) = (at + 8, u64::from(u32::from_le_bytes(bytes)));
        match &[n, a, m, e] {
            b"fmt " => {
                format = Some(source.copy(content, bytes.min(FORMAT_BYTES_MAX), "what its sound is")?)
            }
            b"ds64" => long_bytes = source.array::<16>(content)?.map(|sizes| low_first(&sizes[8..])),
            b"data" => {
                // A writer that cannot go back leaves a length that cannot be.
                let told = match (bytes, long_bytes) {
                    (0xFFFF_FFFF, Some(bytes)) => bytes,
                    (0 | 0xFFFF_FFFF, _) => u64::MAX,
                    (bytes, _) => bytes,
                };
                let end = content.saturating_add(told).min(source.bytes());
                let format = format.ok_or(Error::Damaged("its sound comes before what it is"))?;
                return found(source, &format, content, end);
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = content + bytes + bytes % 2;
    }
    Err(if format.is_none() { no_format } else { no_sound })
}

fn low_first(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn found(source: &Source, format: &[u8], begin: u64, end: u64) -> Result<Found> {
    let (codec, format, carriage) = match windows::sound(format) {
        Ok(served) => served,
        Err(phrase) => return Err(Error::NothingToServe(vec![phrase])),
    };
    let rate = codec.clock_rate();
    let frame_bytes = match format {
        Format::Pcm { frame_bytes } => u32::from(frame_bytes),
        _ => 1,
    };
    let time_base = TimeBase::per_second(rate).ok_or(Error::Damaged("its time does not pass"))?;
    let frames_max = (rate / BLOCKS_PER_SECOND).min(BLOCK_BYTES_MAX / frame_bytes).max(1);
    let mut left = end.saturating_sub(begin) / u64::from(frame_bytes);
    let (mut builder, mut samples_left) = (Builder::default(), samples_max(source.bytes()));
    let (mut at, mut time, mut last) = (begin, 0, 0);
    while left > 0 {
        let frames = u64::from(frames_max).min(left);
        let bytes = frames as u32 * frame_bytes;
        builder
            .push(Entry { at, bytes, decode: time, presentation: time, is_sync: true }, &mut samples_left)?;
        (at, left, last) = (at + u64::from(bytes), left - frames, frames as i64);
        time += last;
    }
    let Some(index) = builder.finish(Some(last)) else { return Err(Error::NothingToServe(Vec::new())) };
    let track = Track::new(codec, format, None, time_base, index).carried(carriage);
    Ok(Found { tracks: vec![track], ..Found::default() })
}
