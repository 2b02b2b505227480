//! Decoder configuration records (ISO/IEC 14496-15, 5.3.3 and 8.3.3; AV1 in ISO base media files), as MP4 and Matroska have them.

use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;
use mp4_atom::{Atom, Av1c, Avcc, Hvcc};

/// What an AVCDecoderConfigurationRecord says; `None` if it is none.
pub(crate) fn h264(mut record: &[u8]) -> Option<(Codec, Format)> {
    let record = Avcc::decode_body(&mut record).ok()?;
    let (sps, pps) = (record.sequence_parameter_sets, record.picture_parameter_sets);
    Some((Codec::H264 { sps, pps }, Format::H264(Framing::Lengths(record.length_size))))
}

/// What an HEVCDecoderConfigurationRecord says; `None` if it is none.
pub(crate) fn h265(mut record: &[u8]) -> Option<(Codec, Format)> {
    const VPS: u8 = 32;
    let record = Hvcc::decode_body(&mut record).ok()?;
    let [mut vps, mut sps, mut pps] = [const { Vec::new() }; 3];
    for array in record.arrays {
        match array.nal_unit_type.wrapping_sub(VPS) {
            0 => vps.extend(array.nalus),
            1 => sps.extend(array.nalus),
            2 => pps.extend(array.nalus),
            _ => {}
        }
    }
    let framing = Framing::Lengths(record.length_size_minus_one + 1);
    Some((Codec::H265 { vps, sps, pps }, Format::H265(framing)))
}

/// AV1 by its AV1CodecConfigurationRecord (AV1 in ISO base media files, 2.3.3).
pub(crate) fn av1(mut record: &[u8]) -> Option<(Codec, Format)> {
    let record = Av1c::decode_body(&mut record).ok()?;
    let codec = Codec::Av1 {
        profile: record.seq_profile,
        level: record.seq_level_idx_0,
        tier: u8::from(record.seq_tier_0),
    };
    Some((codec, Format::Av1))
}
