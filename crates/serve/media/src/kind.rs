//! Which kind of file it is, by its content.

use crate::annex_b::{self, Codec};
use crate::error::{Error, Result};
use crate::source::Source;
use crate::{adts, mpeg_audio, transport};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mp4,
    Matroska,
    /// Packets of 188 bytes, the first of them at `from`.
    Transport {
        from: u64,
    },
    H264,
    H265,
    /// Frames of AAC, after tags.
    Adts {
        from: u64,
    },
    /// Frames of MPEG audio, after tags.
    MpegAudio {
        from: u64,
    },
}

/// What an MP4 file, or a part of one, begins with.
const FIRST_BOXES: [&[u8; 4]; 8] = [b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide"];

const EBML: &[u8] = &[0x1A, 0x45, 0xDF, 0xA3];

pub(crate) fn of(source: &mut Source) -> Result<Kind> {
    let begin = source.up_to(0, 12)?;
    if begin.get(4..8).is_some_and(|name| FIRST_BOXES.iter().any(|one| name == *one)) {
        return Ok(Kind::Mp4);
    }
    if begin.starts_with(EBML) {
        return Ok(Kind::Matroska);
    }
    if let Some(from) = transport::first_packet(source)? {
        return Ok(Kind::Transport { from });
    }
    let from = after_tags(source)?;
    if adts::is_frame(source, from)? {
        return Ok(Kind::Adts { from });
    }
    if mpeg_audio::is_frame(source, from)? {
        return Ok(Kind::MpegAudio { from });
    }
    match annex_b::codec(source)? {
        Some(Codec::H264) => Ok(Kind::H264),
        Some(Codec::H265) => Ok(Kind::H265),
        None => Err(Error::UnknownKind),
    }
}

/// Where ID3 tags end; there are several at times.
fn after_tags(source: &mut Source) -> Result<u64> {
    let mut at = 0;
    while let Some([b'I', b'D', b'3', _, _, flags, size @ ..]) = source.array::<10>(at)? {
        // Seven bits in each byte of the size, which is without header and footer.
        let bytes = size.iter().fold(0, |bytes, byte| bytes << 7 | u64::from(byte & 0x7F));
        let footer = if flags & 0x10 != 0 { 10 } else { 0 };
        at += 10 + bytes + footer;
    }
    Ok(at)
}
