//! Codecs of which only the samples tell whether, and how, they can be sent.

use forebay_rtsp::packetise::jpeg;
use forebay_rtsp::presentation::Codec;

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
    if !matches!(track.codec, Codec::Jpeg | Codec::Vp9 { .. }) {
        return Ok(Ok(track));
    }
    let Some(entry) = track.index().next(&mut Cursor::default()) else { return Ok(Ok(track)) };
    let sample = source.copy(entry.at, entry.bytes.min(SAMPLE_BYTES_MAX).into(), "the first picture")?;
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
        _ => {}
    }
    Ok(Ok(track))
}
