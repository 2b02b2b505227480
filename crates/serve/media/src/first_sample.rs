//! Tracks of which only the samples tell whether, and how, they can be sent.

use forebay_rtsp::packetise::{Format, Framing, jpeg};
use forebay_rtsp::presentation::Codec;

use crate::annex_b::{self, Heads};
use crate::error::{Error, Result};
use crate::index::Cursor;
use crate::media::{Found, Track};
use crate::source::Source;

/// The longest first sample that is looked at.
const SAMPLE_BYTES_MAX: u32 = 16 << 20;

/// Looks at the first sample of tracks of such a codec. Those that cannot be sent are left out.
pub(crate) fn look_at(source: &mut Source, found: &mut Found) -> Result<()> {
    for track in std::mem::take(&mut found.tracks) {
        match suited(source, track)? {
            Ok(track) => found.tracks.push(track),
            Err(phrase) => found.left_out.push(phrase),
        }
    }
    if found.tracks.is_empty() && !found.left_out.is_empty() {
        return Err(Error::NothingToServe(std::mem::take(&mut found.left_out)));
    }
    Ok(())
}

fn suited(source: &mut Source, mut track: Track) -> Result<Result<Track, String>> {
    let is_told = match &track.codec {
        Codec::Jpeg | Codec::Vp9 { .. } => false,
        Codec::H264 { sps, .. } | Codec::H265 { sps, .. } => !sps.is_empty(),
        _ => true,
    };
    if is_told {
        return Ok(Ok(track));
    }
    let Some(entry) = track.index().next(&mut Cursor::default()) else { return Ok(Ok(track)) };
    let (range, packing) = track.packed(&entry);
    let bytes = (range.end - range.start).min(SAMPLE_BYTES_MAX.into());
    let mut sample = source.copy(range.start, bytes, "the first picture")?;
    let sent_bytes = packing.unpack(&mut sample);
    sample.truncate(sent_bytes);
    match &mut track.codec {
        Codec::Jpeg => {
            if let Err(unfit) = jpeg::check(&sample) {
                return Ok(Err(format!("Motion JPEG that RTP cannot carry: {unfit}")));
            }
        }
        Codec::Vp9 { profile } => {
            // Two bits of a marker, then the lower and the upper bit of the profile (VP9 bitstream, 6.2).
            *profile = sample.first().map_or(0, |first| first >> 5 & 1 | first >> 3 & 2);
        }
        // Some writers have parameter sets in samples only.
        _ => {
            if let Some(sets) = sets(&sample, track.format) {
                track.codec = sets;
            }
        }
    }
    Ok(Ok(track))
}

/// A codec with the parameter sets of a picture.
fn sets(sample: &[u8], format: Format) -> Option<Codec> {
    let (codec, framing) = match format {
        Format::H264(framing) => (annex_b::Codec::H264, framing),
        Format::H265(framing) => (annex_b::Codec::H265, framing),
        _ => return None,
    };
    let mut heads = Heads::new(codec);
    match framing {
        Framing::StartCodes => heads.picture(sample),
        Framing::Lengths(bytes) => heads.picture_by_lengths(sample, bytes.clamp(1, 4).into()),
    };
    heads.has_sets().then(|| heads.codec())
}
