//! Decoder configuration records (ISO/IEC 14496-15, 5.3.3 and 8.3.3; AV1 in ISO base media files), as MP4 and Matroska have them.
//!
//! Some writers put bytes after a record of H.264, or cut one of H.265 at its end. So a record tells the sets that are whole in it;
//! those that it lacks are looked for in samples. Others write no record, or an empty one.

use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;
use mp4_atom::{Atom, Av1c};

/// What an AVCDecoderConfigurationRecord says; `None` if it is none.
pub(crate) fn h264(record: &[u8]) -> Option<(Codec, Format)> {
    let &[1, _, _, _, lengths, count, ref rest @ ..] = record else { return None };
    let mut rest = rest;
    let sps = sets(&mut rest, (count & 0x1F).into());
    let count = rest.split_off_first().copied().unwrap_or_default();
    let pps = sets(&mut rest, count.into());
    Some((Codec::H264 { sps, pps }, Format::H264(Framing::Lengths((lengths & 3) + 1))))
}

/// What an HEVCDecoderConfigurationRecord says; `None` if it is none.
pub(crate) fn h265(record: &[u8]) -> Option<(Codec, Format)> {
    const VPS: u8 = 32;
    const LENGTHS_AT: usize = 21;
    let lengths = record.get(LENGTHS_AT)?;
    let (&arrays, mut rest) = record[LENGTHS_AT + 1..].split_first()?;
    let [mut vps, mut sps, mut pps] = [const { Vec::new() }; 3];
    for _ in 0..arrays {
        let &[kind, high, low, ref array @ ..] = rest else { break };
        rest = array;
        let array = sets(&mut rest, u16::from_be_bytes([high, low]));
        match (kind & 0x3F).wrapping_sub(VPS) {
            0 => vps.extend(array),
            1 => sps.extend(array),
            2 => pps.extend(array),
            _ => {}
        }
    }
    Some((Codec::H265 { vps, sps, pps }, Format::H265(Framing::Lengths((lengths & 3) + 1))))
}

/// So many sets with their lengths before them, as far as they are whole.
fn sets(rest: &mut &[u8], count: u16) -> Vec<Vec<u8>> {
    let mut sets = Vec::new();
    for _ in 0..count {
        let &[high, low, ref set @ ..] = *rest else { break };
        let Some((set, after)) = set.split_at_checked(u16::from_be_bytes([high, low]).into()) else {
            // What is left of it is no other set.
            *rest = &[];
            break;
        };
        sets.push(set.to_vec());
        *rest = after;
    }
    sets
}

/// H.264 and H.265 of which only samples tell.
pub(crate) fn untold_h264() -> (Codec, Format) {
    (Codec::H264 { sps: Vec::new(), pps: Vec::new() }, Format::H264(Framing::StartCodes))
}

pub(crate) fn untold_h265() -> (Codec, Format) {
    let [vps, sps, pps] = [const { Vec::new() }; 3];
    (Codec::H265 { vps, sps, pps }, Format::H265(Framing::StartCodes))
}

/// The level of AV1 that says nothing of how large pictures are (AV1 bitstream, annex A.3): then the first sample is asked.
pub(crate) const ANY_LEVEL: u8 = 31;

/// AV1 by its AV1CodecConfigurationRecord (AV1 in ISO base media files, 2.3.3), or of any level.
pub(crate) fn av1(mut record: &[u8]) -> (Codec, Format) {
    let codec = match Av1c::decode_body(&mut record) {
        Ok(record) => Codec::Av1 {
            profile: record.seq_profile,
            level: record.seq_level_idx_0,
            tier: u8::from(record.seq_tier_0),
        },
        Err(_) => Codec::Av1 { profile: 0, level: ANY_LEVEL, tier: 0 },
    };
    (codec, Format::Av1)
}
