//! The sample descriptions of a track (ISO/IEC 14496-12, 8.5.2), where it has several.
//!
//! A receiver is told of one coding. Samples with a description of another coding are left out. Where only parameter sets differ, each
//! key frame has those of its description before it:
//!
//! ```text
//!   file   | moov: sets 1, sets 2 | key frame | ... | key frame | ...
//!   sent   .                      | sets 1, key frame | ... | sets 2, key frame | ...
//! ```

use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;

use super::Unserved;
use super::boxes::{Box, Boxes};
use super::entry::SampleEntry;
use crate::media::Carriage;

/// More descriptions than a track has.
const DESCRIPTIONS_MAX: usize = 64;

/// How often the description may change on the way.
const PLACES_MAX: usize = 1 << 16;

/// Which samples of a track are served: those with one of its descriptions, or with another one that says the same, but for parameter
/// sets.
#[derive(Clone, Default)]
pub(super) struct Served {
    /// Of each description, whether its samples are coded otherwise.
    is_other: Vec<bool>,
    /// Of each description its parameter sets as they are sent, if they differ.
    sets: Vec<Vec<u8>>,
    /// From where in the file on samples have which description, in the order of decoding.
    places: Vec<(u64, u16)>,
    last_at: u64,
    /// Whether there are samples that are coded otherwise.
    pub has_others: bool,
}

impl Served {
    /// Whether a sample with a description is served, which lies at a place. Descriptions are counted from 1; one that is not there is
    /// taken for any.
    pub fn takes(&mut self, description: u32, at: u64) -> bool {
        let number = (description as usize).wrapping_sub(1);
        let is_other = self.is_other.get(number).copied().unwrap_or(false) || !self.note(number, at);
        self.has_others |= is_other;
        !is_other
    }

    /// Notes where a sample lies; returns whether there was room.
    fn note(&mut self, number: usize, at: u64) -> bool {
        if number >= self.sets.len() {
            return true;
        }
        let goes_on =
            at >= self.last_at && self.places.last().is_some_and(|(_, last)| usize::from(*last) == number);
        if !goes_on && self.places.len() == PLACES_MAX {
            return false;
        }
        self.last_at = at;
        if !goes_on {
            self.places.push((at, number as u16));
        }
        true
    }

    /// Whether samples of another track have descriptions with the same meaning.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.is_other == other.is_other && self.sets == other.sets
    }

    /// How samples lie in the file, which each do so as `plain` says.
    pub fn carriage(&self, plain: &Carriage) -> Carriage {
        if self.sets.is_empty() {
            return plain.clone();
        }
        let mut places = self.places.clone();
        places.sort_unstable();
        Carriage::Described { sets: self.sets.clone(), places }
    }
}

/// The entry of a sample description box that most samples have, by its number, and which samples are served then; `None` without
/// entries.
pub(super) fn most(descriptions: &[u8], number: u32) -> Option<(Result<SampleEntry, Unserved>, Served)> {
    let entries: Vec<Box> = Boxes(descriptions.get(8..)?).take(DESCRIPTIONS_MAX).collect();
    let entry = entries.get((number as usize).wrapping_sub(1)).or(entries.first())?;
    let chosen = entry.served();
    // All samples have the description where there is only one.
    let Some(one) = chosen.as_ref().ok().filter(|_| entries.len() > 1) else {
        let is_other = if entries.len() > 1 { vec![true; entries.len()] } else { Vec::new() };
        return Some((chosen, Served { is_other, ..Served::default() }));
    };
    let coded: Vec<Option<SampleEntry>> = entries.iter().map(|entry| entry.served().ok()).collect();
    let is_same = |other: &SampleEntry| (&one.codec, one.format) == (&other.codec, other.format);
    let is_alike = |(other, its): &(&Option<SampleEntry>, &Box)| {
        other.as_ref().is_some_and(|other| {
            let differs_in_sets = one.format == other.format && its.size() == entry.size();
            is_same(other) || (differs_in_sets && sets(one).is_some() && sets(other).is_some())
        })
    };
    let is_other: Vec<bool> = coded.iter().zip(&entries).map(|pair| !is_alike(&pair)).collect();
    let mut served = coded.iter().zip(&is_other).filter(|(_, is_other)| !**is_other).map(|(coded, _)| coded);
    let sets = if served.all(|other| other.as_ref().is_some_and(is_same)) {
        Vec::new()
    } else {
        coded.iter().map(|other| other.as_ref().and_then(sets).unwrap_or_default()).collect()
    };
    Some((chosen, Served { is_other, sets, ..Served::default() }))
}

/// The parameter sets of pictures, each with its length before it as in samples.
fn sets(entry: &SampleEntry) -> Option<Vec<u8>> {
    let (all, bytes): (Vec<&Vec<u8>>, _) = match (&entry.codec, entry.format) {
        (Codec::H264 { sps, pps }, Format::H264(Framing::Lengths(bytes))) => {
            (sps.iter().chain(pps).collect(), bytes)
        }
        (Codec::H265 { vps, sps, pps }, Format::H265(Framing::Lengths(bytes))) => {
            (vps.iter().chain(sps).chain(pps).collect(), bytes)
        }
        _ => return None,
    };
    let mut sets = Vec::new();
    for set in all {
        let length = (set.len() as u32).to_be_bytes();
        let (rest, length) = length.split_at(length.len() - usize::from(bytes.clamp(1, 4)));
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        sets.extend_from_slice(length);
        sets.extend_from_slice(set);
    }
    Some(sets)
}
