//! Raw H.264 and H.265 (annex B of either): NAL units after start codes, access units found by a pass over all of them.
//!
//! ```text
//!   0 0 0 1 delimiter 0 0 0 1 SPS 0 0 0 1 PPS 0 0 1 slice 0 0 1 slice 0 0 0 1 slice ...
//!   +--------------------- access unit --------------------------+--- the next ---
//! ```
//!
//! Such a stream has no times, but pictures tell their order, and mostly how long each of them lasts.

mod access_units;
mod h264;
mod h265;
mod h265_sequence;
mod heads;

use forebay_rtsp::packetise::{Format, Framing};
use memchr::memmem;

use crate::error::{Error, Result};
use crate::index::{Builder, SAMPLES_MAX};
use crate::media::{Found, Track};
use crate::reorder::{Ordered, Picture};
use crate::source::Source;
use crate::time::TimeBase;

pub(crate) use access_units::{AccessUnits, Ended};
pub(crate) use heads::Heads;

const START_CODE: &[u8] = &[0, 0, 1];

/// What is looked at of a unit: all of a parameter set, and the header of a slice.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;

/// How far the first picture that can be decoded may be from the beginning: behind a group of pictures that was cut.
const PROBED_BYTES: u64 = 4 << 20;

/// How many pictures there may be before the first key frame. With more, there is none.
const FIRST_MAX: usize = 1000;

/// How many parameter sets of a kind are told to clients.
const SETS_MAX: usize = 16;

/// What a stream without times is taken to have, in pictures a second.
const PICTURES_PER_SECOND: u32 = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    H264,
    H265,
}

/// What a NAL unit is to the access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It comes before a picture, so an access unit begins here if there has been one.
    Before,
    /// The first of a picture.
    Picture { is_sync: bool, order: (u64, i64) },
    /// More of the picture that is there.
    Slice,
    /// What tells nothing of where an access unit begins.
    More,
}

/// Which codec it is: the one by whose rules every unit is possible up to a picture with its parameter sets. `None` if there is
/// no such picture near the beginning. What comes before the first start code may be the end of a unit.
pub(crate) fn codec(source: &mut Source) -> Result<Option<Codec>> {
    let Some(first) = next_unit(source, 0, PROBED_BYTES)? else { return Ok(None) };
    let (mut h264, mut h265) = (Some(h264::Pictures::default()), Some(h265::Pictures::default()));
    let mut next = Some(first);
    while let Some(unit) = next {
        let head = head(source, &unit)?;
        h264 = h264.filter(|_| h264::is_possible(head));
        h265 = h265.filter(|_| h265::is_possible(head));
        let is_picture = |role| matches!(role, Role::Picture { .. });
        if h264.as_mut().is_some_and(|pictures| is_picture(pictures.role(head)) && pictures.has_sets()) {
            return Ok(Some(Codec::H264));
        }
        if h265.as_mut().is_some_and(|pictures| is_picture(pictures.role(head)) && pictures.has_sets()) {
            return Ok(Some(Codec::H265));
        }
        if h264.is_none() && h265.is_none() {
            return Ok(None);
        }
        next = next_unit(source, unit.content, PROBED_BYTES)?;
    }
    Ok(None)
}

pub(crate) fn read_h264(source: &mut Source) -> Result<Found> {
    let mut pictures = h264::Pictures::default();
    let mut units = Stream::default();
    units.read(source, |head| pictures.role(head))?;
    let codec = pictures.codec();
    units.finish(source, codec, Format::H264(Framing::StartCodes), pictures.picture_time())
}

pub(crate) fn read_h265(source: &mut Source) -> Result<Found> {
    let mut pictures = h265::Pictures::default();
    let mut units = Stream::default();
    units.read(source, |head| pictures.role(head))?;
    let codec = pictures.codec();
    units.finish(source, codec, Format::H265(Framing::StartCodes), pictures.picture_time())
}

/// A NAL unit in the file.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Where its start code begins.
    start: u64,
    /// Where its header is.
    content: u64,
}

/// The first unit whose start code lies at `at` or after, and not far beyond `end`.
fn next_unit(source: &mut Source, mut at: u64, end: u64) -> Result<Option<Unit>> {
    let from = at;
    loop {
        if at >= end || source.up_to(at, START_CODE.len())?.len() < START_CODE.len() {
            return Ok(None);
        }
        let bytes = source.following(at)?;
        if let Some(found) = memmem::find(bytes, START_CODE) {
            let code = at + found as u64;
            // A zero before it is its own.
            let has_zero = code > from && source.up_to(code - 1, 1)? == [0];
            let start = if has_zero { code - 1 } else { code };
            return Ok(Some(Unit { start, content: code + START_CODE.len() as u64 }));
        }
        // A start code may lie across the end.
        at += (bytes.len() - (START_CODE.len() - 1)) as u64;
    }
}

/// Of a unit, what comes before the next one, without zeros at the end.
fn head<'a>(source: &'a mut Source, unit: &Unit) -> Result<&'a [u8]> {
    let bytes = source.up_to(unit.content, HEAD_BYTES_MAX)?;
    let end = memmem::find(bytes, START_CODE).unwrap_or(bytes.len());
    let zeros = bytes[..end].iter().rev().take_while(|byte| **byte == 0).count();
    Ok(&bytes[..end - zeros])
}

struct Stream {
    order: Ordered,
    builder: Builder,
    samples_left: u64,
    units: AccessUnits<u64>,
    /// Whether there was a picture that decoding can begin at, and those before it.
    has_begun: bool,
    first: Vec<Picture>,
}

impl Default for Stream {
    fn default() -> Self {
        let (order, builder, units) = Default::default();
        Self { order, builder, samples_left: SAMPLES_MAX, units, has_begun: false, first: Vec::new() }
    }
}

impl Stream {
    fn read(&mut self, source: &mut Source, mut role: impl FnMut(&[u8]) -> Role) -> Result<()> {
        let mut at = 0;
        while let Some(unit) = next_unit(source, at, u64::MAX)? {
            let role = role(head(source, &unit)?);
            if let Some(ended) = self.units.take(unit.start, role) {
                self.push(ended, source.bytes())?;
            }
            at = unit.content;
        }
        self.units.end().map_or(Ok(()), |ended| self.push(ended, source.bytes()))
    }

    fn push(&mut self, ended: Ended<u64>, file_bytes: u64) -> Result<()> {
        let Ended { begin: at, end, picture: (is_sync, order) } = ended;
        let bytes = picture_bytes(at, end.unwrap_or(file_bytes))?;
        // A stream that begins amid a group of pictures has some that no decoder can begin with.
        self.has_begun |= is_sync;
        let picture = Picture { at, bytes, is_sync, order };
        if self.has_begun {
            self.order.push(picture, &mut self.builder, &mut self.samples_left)?;
        } else {
            self.first.push(picture);
            if self.first.len() > FIRST_MAX {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// Takes the stream for one without key frames, which some encoders make.
    fn begin(&mut self) -> Result<()> {
        self.has_begun = true;
        for picture in std::mem::take(&mut self.first) {
            self.order.push(picture, &mut self.builder, &mut self.samples_left)?;
        }
        Ok(())
    }

    fn finish(
        mut self,
        source: &Source,
        codec: forebay_rtsp::presentation::Codec,
        format: Format,
        picture_time: Option<TimeBase>,
    ) -> Result<Found> {
        if !self.has_begun {
            self.begin()?;
        }
        self.order.finish(&mut self.builder, &mut self.samples_left)?;
        let truncated = Error::Truncated { bytes: source.bytes(), missing: "the first picture" };
        let mut index = self.builder.finish(Some(1)).ok_or(truncated)?;
        index.lead();
        let time_base = picture_time
            .or(TimeBase::per_second(PICTURES_PER_SECOND))
            .ok_or(Error::Damaged("its time does not pass"))?;
        let track = Track::new(codec, format, None, time_base, index);
        Ok(Found { tracks: vec![track], ..Found::default() })
    }
}

/// How long a picture is that lies between two places of a file.
pub(crate) fn picture_bytes(begin: u64, end: u64) -> Result<u32> {
    u32::try_from(end.saturating_sub(begin)).map_err(|_| Error::Damaged("a picture of more than 4 GiB"))
}

/// Keeps a parameter set that is not there yet.
fn keep(set: &[u8], sets: &mut Vec<Vec<u8>>) {
    if sets.len() < SETS_MAX && !sets.iter().any(|one| one == set) {
        sets.push(set.to_vec());
    }
}

/// The order of pictures from its low bits (H.264, 8.2.1.1; H.265, 8.3.1).
#[derive(Debug, Default)]
struct OrderCount {
    /// Of the last picture that others refer to.
    before: i64,
}

impl OrderCount {
    /// The order nearest to that of the picture before with these low bits.
    fn of(&self, low: u32, bits: u32) -> i64 {
        let (low, range) = (i64::from(low), 1_i64 << bits);
        let before_low = self.before.rem_euclid(range);
        let high = self.before - before_low;
        if low < before_low && before_low - low >= range / 2 {
            high + range + low
        } else if low > before_low && low - before_low > range / 2 {
            high - range + low
        } else {
            high + low
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_across_the_ends_of_windows() {
        for zeros in 0..6 {
            let mut file = vec![0xAA; (256 << 10) - zeros];
            file.extend([0, 0, 0, 1, 0x65, 0x88]);
            let mut source = Source::new(&file).expect("a source");
            let unit = next_unit(&mut source, 0, u64::MAX).expect("readable").expect("a unit");
            assert_eq!((unit.start, unit.content), (file.len() as u64 - 6, file.len() as u64 - 2));
            assert_eq!(head(&mut source, &unit).expect("readable"), [0x65, 0x88]);
            assert!(next_unit(&mut source, unit.content, u64::MAX).expect("readable").is_none());
        }
    }

    #[test]
    fn orders_go_on_where_their_low_bits_start_again() {
        let after = |before, low| OrderCount { before }.of(low, 4);
        assert_eq!(
            [after(0, 6), after(14, 2), after(14, 12), after(18, 14), after(-2, 4)],
            [6, 18, 12, 14, 4]
        );
    }
}
