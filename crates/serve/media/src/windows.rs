//! How Windows describes sound and pictures, in WAV, AVI and Matroska: WAVEFORMATEX and BITMAPINFOHEADER. Numbers have their
//! lowest byte first.

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use crate::sound::{self, Plain};

/// What a WAVEFORMATEX (or the shorter one of a WAV file) names, if that can be served; otherwise what to call it.
pub(crate) fn sound(header: &[u8]) -> Result<Plain, String> {
    /// What it is stands further back, at the beginning of a GUID.
    const EXTENSIBLE: u16 = 0xFFFE;
    let word = |at: usize| header.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
    let rate = u32::from(word(6)) << 16 | u32::from(word(4));
    let kind = if word(0) == EXTENSIBLE { word(24) } else { word(0) };
    let (channels, bits) = (u8::try_from(word(2)).unwrap_or(0), word(14));
    let served = match kind {
        1 => sound::pcm(bits.into(), rate, channels, true),
        6 => sound::g711(true, rate, channels),
        7 => sound::g711(false, rate, channels),
        _ => None,
    };
    served.ok_or_else(|| match kind {
        1 | 6 | 7 => format!("sound in values of {bits} bits, which RTP has no payload for"),
        3 => "sound in values of floating point, which RTP has no payload for".to_owned(),
        _ => format!("sound of format {kind:#06x}, which is no codec that can be served"),
    })
}

/// What a BITMAPINFOHEADER of 40 bytes names, with what the codec has after it; `None` if it cannot be served.
pub(crate) fn pictures(header: &[u8]) -> Option<(Codec, Format)> {
    match header.get(16..20)?.to_ascii_uppercase().as_slice() {
        b"XVID" | b"DIVX" | b"DX50" | b"FMP4" | b"MP4V" => {
            Some((Codec::Mpeg4 { config: header.get(40..)?.to_vec() }, Format::Mpeg4))
        }
        b"MJPG" => Some((Codec::Jpeg, Format::Jpeg)),
        _ => None,
    }
}
