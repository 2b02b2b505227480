//! Which kind of file it is, by its structure: what follows what, and never a few bytes somewhere in it.

use crate::annex_b::{self, Codec};
use crate::error::{Error, Result};
use crate::source::Source;
use crate::transport::Layout;
use crate::{adts, mpeg_audio, tags, transport};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mp4,
    Matroska,
    /// Packets, the first of them at `from`.
    Transport {
        from: u64,
        layout: Layout,
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
    Avi,
    Wav,
    Ogg,
    Flv,
}

/// What an MP4 file, or a part of one, begins with.
const FIRST_BOXES: [&[u8; 4]; 14] = [
    b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"pnot", b"sidx", b"uuid",
    b"emsg", b"prft", b"udta",
];

/// What tells all kinds that begin with a name or a number of their own.
const KNOWN_BYTES: usize = 24;

const EBML: &[u8] = &[0x1A, 0x45, 0xDF, 0xA3];

/// What other media files begin with, where in them, and what they are called.
const OTHERS: &[(usize, &[u8], &str)] = &[
    (0, &[0x30, 0x26, 0xB2, 0x75, 0x8E, 0x66, 0xCF, 0x11], "ASF (WMV, WMA)"),
    (0, &[0, 0, 1, 0xBA], PROGRAM_STREAM),
    (0, &[0, 0, 1, 0xBB], PROGRAM_STREAM),
    (0, &[0, 0, 1, 0xE0], PROGRAM_STREAM),
    (0, &[0, 0, 1, 0xB3], "raw MPEG-1 or MPEG-2 video"),
    (0, &[0, 0, 1, 0xB0], "raw MPEG-4 part 2 video"),
    (0, &[0, 0, 1, 0xB6], "raw MPEG-4 part 2 video"),
    (0, &[0x06, 0x0E, 0x2B, 0x34], "MXF"),
    (0, b".RMF", "RealMedia"),
    (0, b"DKIF", "IVF"),
    (0, b"fLaC", "FLAC"),
    (0, b"caff", "CAF"),
    (8, b"AIFF", "AIFF"),
    (8, b"AIFC", "AIFF"),
    (0, b"#!AMR", "AMR"),
    (0, b".snd", "AU"),
    (0, b"wvpk", "WavPack"),
    (0, b"MAC ", "Monkey's Audio"),
    (0, b"nut/multimedia container", "NUT"),
    (0, b"YUV4MPEG2", "YUV4MPEG"),
    (0, b"DHAV", "a Dahua recording"),
    (0, b"IMKH", "a Hikvision recording"),
    (0, &[0x0B, 0x77], "raw AC-3"),
    (0, &[0x7F, 0xFE, 0x80, 0x01], "raw DTS"),
    (4, &[0xF8, 0x72, 0x6F, 0xBA], "raw TrueHD"),
    (4, &[0xF8, 0x72, 0x6F, 0xBB], "raw MLP"),
    (0, b"riff\x2E\x91\xCF\x11", "Wave64"),
    (0, b"TTA1", "TTA"),
    (0, b"DSD ", "DSF"),
    (0, b"Creative Voice File", "VOC"),
    (0, &[0x1F, 0x07, 0x00], "raw DV"),
    (0, &[0x12, 0x00, 0x0A], "raw AV1"),
    (0, b"BBCD", "raw Dirac"),
    (0, &[0, 0, 0, 0, 1, 0xBC], "GXF"),
    (0, &[0xB7, 0xD8, 0x00, 0x20], "WTV"),
    (0, b"FWS", "Flash (SWF)"),
    (0, b"CWS", "Flash (SWF)"),
    (0, b"FILM", "Sega FILM"),
    (0, b"GIF8", "GIF"),
    (0, b"\x89PNG", "PNG"),
    (0, &[0xFF, 0xD8, 0xFF], "JPEG, or Motion JPEG without a container"),
    (8, b"WEBP", "WebP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
];

const PROGRAM_STREAM: &str = "an MPEG program stream (MPG, VOB)";

pub(crate) fn of(source: &mut Source) -> Result<Kind> {
    let begin = source.up_to(0, KNOWN_BYTES)?;
    if begin.get(4..8).is_some_and(|name| FIRST_BOXES.iter().any(|one| name == *one)) {
        return Ok(Kind::Mp4);
    }
    if begin.starts_with(EBML) {
        return Ok(Kind::Matroska);
    }
    match begin {
        [b'R', b'I' | b'F', b'F' | b'6', b'F' | b'4', _, _, _, _, b'W', b'A', b'V', b'E', ..]
        | [b'B', b'W', b'6', b'4', _, _, _, _, b'W', b'A', b'V', b'E', ..] => return Ok(Kind::Wav),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' ', ..] => return Ok(Kind::Avi),
        [b'O', b'g', b'g', b'S', 0, ..] => return Ok(Kind::Ogg),
        [b'F', b'L', b'V', 1, ..] => return Ok(Kind::Flv),
        _ => {}
    }
    let is_at =
        |(at, bytes, _): &&(usize, &[u8], &str)| begin.get(*at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((_, _, name)) = OTHERS.iter().find(is_at) {
        return Err(Error::OtherKind(name));
    }
    if let Some((from, layout)) = transport::first_packet(source)? {
        return Ok(Kind::Transport { from, layout });
    }
    let after_tags = after_tags(source)?;
    if let Some(from) = adts::first_frame(source, after_tags)? {
        return Ok(Kind::Adts { from });
    }
    if let Some(from) = mpeg_audio::first_frame(source, after_tags)? {
        return Ok(Kind::MpegAudio { from });
    }
    match annex_b::codec(source)? {
        Some(Codec::H264) => Ok(Kind::H264),
        Some(Codec::H265) => Ok(Kind::H265),
        None => Err(Error::UnknownKind),
    }
}

/// Whether what is there is too little to tell the kind, so that it may be a recording that has only just begun: less than any kind
/// begins with, or a first packet of a transport stream.
pub(crate) fn is_open(source: &mut Source) -> Result<bool> {
    let begin = source.up_to(0, 2 * transport::STRIDE_MAX)?;
    Ok(begin.len() < KNOWN_BYTES || transport::may_be_first_packet(begin))
}

/// Where tags at the beginning end; there are several at times.
fn after_tags(source: &mut Source) -> Result<u64> {
    let mut at = 0;
    while let Some(end) = tags::end(source, at)? {
        at = end;
    }
    Ok(at)
}

/// How many frames in a row have to be like the first one. A file may have fewer.
const FRAMES_TO_KNOW: usize = 4;

/// Returns the header of a frame that begins at a place and where the frame ends, if it is like the one before.
type NextFrame<H> = fn(&mut Source, u64, Option<H>) -> Result<Option<(H, u64)>>;

/// Where frames of sound begin: at `from`, or a little later where the file begins amid a frame of at most `frame_bytes_max`.
pub(crate) fn first_frame<H: Copy>(
    source: &mut Source,
    from: u64,
    frame_bytes_max: u64,
    next: NextFrame<H>,
) -> Result<Option<u64>> {
    for begin in from..from.saturating_add(frame_bytes_max).min(source.bytes()) {
        let (mut at, mut before, mut count) = (begin, None, 0);
        while count < FRAMES_TO_KNOW
            && let Some((header, end)) = next(source, at, before)?
        {
            (at, before, count) = (end, Some(header), count + 1);
        }
        // The last frame may have been cut off.
        let is_all = begin == from && count > 0 && at >= source.bytes();
        if count == FRAMES_TO_KNOW || is_all {
            return Ok(Some(begin));
        }
    }
    Ok(None)
}
