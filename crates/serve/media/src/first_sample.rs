//! Tracks of which only the samples tell whether, and how, they can be sent.

use forebay_rtsp::packetise::{Format, Framing, jpeg};
use forebay_rtsp::presentation::Codec;

use crate::annex_b::{self, Heads};
use crate::av1;
use crate::error::{Error, Result};
use crate::index::Cursor;
use crate::media::{Found, Track};
use crate::parameter_sets::ANY_LEVEL;
use crate::sound;
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
        Codec::Av1 { level, .. } => *level != ANY_LEVEL,
        Codec::Aac { config, .. } => !sound::lacks_channels(config),
        _ => true,
    };
    if is_told {
        return Ok(Ok(track));
    }
    let Some(entry) = track.index().next(&mut Cursor::default()) else { return Ok(Ok(track)) };
    let (range, packing) = track.packed(&entry);
    let bytes = (range.end - range.start).min(SAMPLE_BYTES_MAX.into());
    let mut sample = source.copy(range.start, bytes, "the first sample")?;
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
        Codec::Av1 { profile, level, tier } => {
            let Some(sequence) = av1::Sequence::of(&sample) else {
                return Ok(Err("AV1 without a decoder configuration".to_owned()));
            };
            (*profile, *level, *tier) = (sequence.profile, sequence.level, sequence.tier);
        }
        Codec::Aac { config, .. } => match sound::aac_of_frame(config, &sample) {
            Some(codec) => track.codec = codec,
            None => return Ok(Err("AAC that does not tell its channels".to_owned())),
        },
        // Some writers have parameter sets in samples only.
        _ => {
            if let Some(told) = sets(&sample, track.format) {
                (track.codec, track.format) = told;
            }
        }
    }
    Ok(Ok(track))
}

/// A codec with the parameter sets of a picture. Where nothing told that its units follow start codes, they may follow their lengths.
fn sets(sample: &[u8], format: Format) -> Option<(Codec, Format)> {
    let (codec, framing, of): (_, _, fn(Framing) -> Format) = match format {
        Format::H264(framing) => (annex_b::Codec::H264, framing, Format::H264),
        Format::H265(framing) => (annex_b::Codec::H265, framing, Format::H265),
        _ => return None,
    };
    let possible = match framing {
        Framing::StartCodes => &[framing, Framing::Lengths(4)][..],
        Framing::Lengths(_) => &[framing],
    };
    possible.iter().find_map(|framing| {
        let mut heads = Heads::new(codec);
        match *framing {
            Framing::StartCodes => heads.picture(sample),
            Framing::Lengths(bytes) => heads.picture_by_lengths(sample, bytes.clamp(1, 4).into()),
        };
        heads.has_sets().then(|| (heads.codec(), of(*framing)))
    })
}
