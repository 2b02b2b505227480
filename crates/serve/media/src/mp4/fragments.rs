//! Fragments (ISO/IEC 14496-12, 8.8): a few seconds of samples, with their table in front of them.

use mp4_atom::{Tfdt, Tfhd, Trex, Trun};

use super::boxes::{Boxes, decode};
use super::table::delay;
use super::{Movie, find_in};
use crate::error::{Error, Result};
use crate::index::{Entry, spend};

/// Of a sample's flags (8.8.3.1): decoding cannot begin here.
const IS_NO_SYNC: u32 = 0x1_0000;

/// Puts the samples of a fragment that begins at `start` into their indices.
pub(super) fn read(
    movie: &mut Movie,
    fragment: &[u8],
    start: u64,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<()> {
    // Where data begins that is not told to begin elsewhere: behind that of the track before.
    let mut data_at = start;
    for part in Boxes(fragment).filter(|one| &one.name == b"traf") {
        let header: Tfhd = find_in(part.content, &[b"tfhd"])
            .ok_or(Error::Damaged("a fragment does not say of which track it is"))?;
        let defaults = movie.defaults.iter().find(|one| one.track_id == header.track_id).cloned();
        let defaults = defaults.unwrap_or_default();
        let told = header.base_data_offset.map(|base| movie.origin.saturating_add(base));
        let base = told.unwrap_or(if header.default_base_is_moof { start } else { data_at });
        data_at = base;
        let mut draft = movie.drafts.iter_mut().find(|draft| draft.id == header.track_id && !draft.is_apart);
        let description =
            header.sample_description_index.unwrap_or(defaults.default_sample_description_index);
        let told: Option<Tfdt> = find_in(part.content, &[b"tfdt"]);
        if let (Some(draft), Some(time)) = (&mut draft, told) {
            let told = i64::try_from(time.base_media_decode_time).unwrap_or(i64::MAX);
            draft.begin_fragment(told, &mut movie.times);
        }
        for run in Boxes(part.content).filter(|one| &one.name == b"trun") {
            let run: Trun = decode(&run).ok_or(Error::Damaged("a run of samples (trun) cannot be read"))?;
            if let Some(offset) = run.data_offset {
                data_at = base.saturating_add_signed(offset.into());
            }
            let lengths = Lengths { header: &header, defaults: &defaults };
            for sample in run.samples.iter() {
                let bytes = lengths.bytes(sample.size);
                let end = data_at.saturating_add(bytes.into());
                if end > file_bytes {
                    // A recording that was cut off is good up to there.
                    return Ok(());
                }
                let at = std::mem::replace(&mut data_at, end);
                // Data that are left out are passed over: those that are not may begin behind them.
                let Some(draft) = &mut draft else {
                    spend(samples_left)?;
                    continue;
                };
                let step = lengths.step(sample.duration);
                let decode = draft.next_decode;
                let presentation = decode.saturating_add(sample.cts.map_or(0, delay));
                // Frames of sound refer to no others, whatever writers say of them.
                let is_sound = !draft.entry.codec.is_pictures();
                let is_sync = is_sound || lengths.flags(sample.flags) & IS_NO_SYNC == 0;
                draft.next_decode = decode.saturating_add(step);
                if draft.served.takes(description, at) {
                    draft.builder.push(Entry { at, bytes, decode, presentation, is_sync }, samples_left)?;
                    draft.last_step = Some(step);
                } else {
                    spend(samples_left)?;
                }
            }
        }
        if let Some(draft) = draft {
            movie.times.reach(draft.time_base.nanoseconds(draft.next_decode));
        }
    }
    Ok(())
}

/// What a sample does not say itself its track's part of the fragment says, and else the movie.
struct Lengths<'a> {
    header: &'a Tfhd,
    defaults: &'a Trex,
}

impl Lengths<'_> {
    fn bytes(&self, own: Option<u32>) -> u32 {
        own.or(self.header.default_sample_size).unwrap_or(self.defaults.default_sample_size)
    }

    fn step(&self, own: Option<u32>) -> i64 {
        own.or(self.header.default_sample_duration).unwrap_or(self.defaults.default_sample_duration).into()
    }

    fn flags(&self, own: Option<u32>) -> u32 {
        own.or(self.header.default_sample_flags).unwrap_or(self.defaults.default_sample_flags)
    }
}
