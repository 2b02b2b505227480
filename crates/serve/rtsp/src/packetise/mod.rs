//! Samples into RTP packets (RFC 3550, section 5.1), without copying them.
//!
//! A [`Packet`] is a few bytes of its own, followed by pieces of the buffer that the samples lie in: what `sendmsg` takes.
//!
//! ```text
//!   buffer   | 0 0 2 1 NAL unit .................. | 0 0 0 9 NAL |
//!                      \_______/\________/\______/     \_______/
//!   packets   RTP FU-A    1  RTP FU-A 2  RTP FU-A 3  RTP    4
//! ```

mod aac;
mod ac3;
mod av1;
pub mod jpeg;
mod klv;
mod mpeg;
mod mpeg4;
mod nal;
mod pcm;
mod t140;
mod vorbis;
mod vp8;
mod vp9;

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use crate::replay::{EXTENSION_BYTES, Mark};

pub use nal::Framing;

/// The bytes of an RTP header without contributing sources and extension.
pub const RTP_HEADER_BYTES: usize = 12;
/// The smallest bound on packets: one with a single packet of a transport stream.
pub const PACKET_BYTES_MIN: usize = RTP_HEADER_BYTES + 188;
/// The largest packet that a frame on the control connection can carry.
pub const PACKET_BYTES_MAX: usize = u16::MAX as usize;
/// How many pieces a packet can have, and how many samples.
pub const PIECES_MAX: usize = 8;
/// The bit of an RTP header that has an extension.
const EXTENDED: u8 = 0x10;
const HEAD_BYTES_MAX: usize = RTP_HEADER_BYTES + EXTENSION_BYTES + 2 + 2 * PIECES_MAX;

/// How samples become payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Format {
    /// Access units of H.264 (RFC 6184, non-interleaved mode).
    H264(Framing),
    /// Access units of H.265 (RFC 7798, in decoding order).
    H265(Framing),
    /// Access units of AAC without ADTS (RFC 3640, AAC-hbr).
    Aac,
    /// Frames of AC-3 (RFC 4184).
    Ac3,
    /// Frames of E-AC-3 (RFC 4598).
    Eac3,
    /// Temporal units of AV1 (AV1 RTP payload format of the Alliance for Open Media).
    Av1,
    /// Pictures of Motion JPEG (RFC 2435).
    Jpeg,
    /// KLV units (RFC 6597).
    Klv,
    /// Pictures of MPEG-4 part 2 (RFC 6416, section 5).
    Mpeg4,
    /// Opus packets (RFC 7587).
    Opus,
    /// Sound of one value after the other, in network byte order (RFC 3551, section 4.5; RFC 3190).
    Pcm {
        /// The bytes of all channels at one time; not 0.
        frame_bytes: u8,
    },
    /// Text (RFC 4103).
    T140 {
        /// In how many packets after its own a text is repeated (RFC 2198); 0, or a few.
        generations: u8,
    },
    /// Vorbis packets (RFC 5215).
    Vorbis {
        /// Which configuration they need, in 24 bits.
        ident: u32,
    },
    /// Frames of VP8 (RFC 7741).
    Vp8,
    /// Frames and superframes of VP9 (RFC 9628).
    Vp9,
    /// Frames of MPEG audio with their headers (RFC 2250, section 3.5).
    MpegAudio,
    /// Whole packets of a transport stream (RFC 2250, section 2).
    MpegTransport,
    /// The same where packets lie so many bytes from each other, with bytes of others between them.
    SparseTransport {
        /// From the first byte of a packet to the first byte of the next one.
        stride: u8,
    },
}

/// A sample of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Where it lies in the buffer.
    pub at: Range<usize>,
    /// Its RTP timestamp.
    pub timestamp: u32,
}

/// A sample that cannot be sent. Its packets up to there have been made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unsendable {
    /// It does not lie in the buffer.
    #[error("a sample ends after {buffer_bytes} bytes of buffer")]
    OutOfBuffer {
        /// How long the buffer is.
        buffer_bytes: usize,
    },
    /// A NAL unit's length leads out of its sample.
    #[error(
        "a NAL unit of {unit_bytes} bytes begins where its sample has {left_bytes} bytes left: the file is damaged"
    )]
    NalOutOfSample {
        /// What its length says.
        unit_bytes: usize,
        /// What is there.
        left_bytes: usize,
    },
    /// An OBU's length leads out of its sample.
    #[error(
        "an OBU of {unit_bytes} bytes begins where its sample has {left_bytes} bytes left: the file is damaged"
    )]
    ObuOutOfSample {
        /// What its length says.
        unit_bytes: u64,
        /// What is there.
        left_bytes: usize,
    },
    /// A picture that its payload format cannot carry.
    #[error("a JPEG picture cannot be sent: {0}")]
    Jpeg(jpeg::Unfit),
    /// Its format has no room for such a length.
    #[error(
        "a sample has {bytes} bytes, and its RTP payload format has room for {bytes_max}: the file is damaged"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// A transport stream in something else than packets of 188 bytes.
    #[error("{bytes} bytes of a transport stream are no multiple of 188: the file is damaged")]
    NotInPackets {
        /// How many bytes.
        bytes: usize,
    },
}

/// One RTP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// What stands in no buffer.
    own: Option<Arc<[u8]>>,
    piece_count: u8,
    pieces: [(u32, u32); PIECES_MAX],
    bytes: u32,
}

impl Packet {
    /// The RTP header and what the payload begins with.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_bytes.into()]
    }

    /// What follows it and stands in no buffer: of text only.
    pub fn own(&self) -> Option<&[u8]> {
        self.own.as_deref()
    }

    /// What follows that, as places in the buffer.
    pub fn pieces(&self) -> impl Iterator<Item = Range<usize>> {
        self.pieces[..self.piece_count.into()].iter().map(|(start, end)| *start as usize..*end as usize)
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Whether its marker is set.
    pub fn is_marked(&self) -> bool {
        self.head[1] & 0x80 != 0
    }

    /// All of it, at the end of `to`.
    pub fn copy_to(&self, buffer: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(self.head());
        to.extend_from_slice(self.own().unwrap_or_default());
        self.pieces().for_each(|piece| to.extend_from_slice(&buffer[piece]));
    }

    /// The same packet of another source, with its number and its timestamp there.
    pub fn of_source(&self, ssrc: u32, sequence: u16, timestamp: u32) -> Self {
        let mut packet = self.clone();
        packet.head[2..4].copy_from_slice(&sequence.to_be_bytes());
        packet.head[4..8].copy_from_slice(&timestamp.to_be_bytes());
        packet.head[8..12].copy_from_slice(&ssrc.to_be_bytes());
        packet
    }

    /// Adds an extension to the RTP header, for which [`Packetiser::extend`] has left room.
    pub fn extend(&mut self, mark: Mark) {
        let end = usize::from(self.head_bytes);
        self.head.copy_within(RTP_HEADER_BYTES..end, RTP_HEADER_BYTES + EXTENSION_BYTES);
        self.head[RTP_HEADER_BYTES..][..EXTENSION_BYTES].copy_from_slice(&mark.to_bytes());
        self.head[0] |= EXTENDED;
        self.head_bytes += EXTENSION_BYTES as u8;
        self.bytes += EXTENSION_BYTES as u32;
    }

    /// How long its payload is.
    pub fn payload_bytes(&self) -> usize {
        let extension_bytes = if self.head[0] & EXTENDED == 0 { 0 } else { EXTENSION_BYTES };
        self.bytes() - RTP_HEADER_BYTES - extension_bytes
    }

    fn mark(&mut self) {
        self.head[1] |= 0x80;
    }

    fn unmark(&mut self) {
        self.head[1] &= 0x7F;
    }

    fn bring(&mut self, own: Arc<[u8]>) {
        self.bytes += own.len() as u32;
        self.own = Some(own);
    }

    fn say(&mut self, bytes: &[u8]) {
        let at = usize::from(self.head_bytes);
        self.head[at..at + bytes.len()].copy_from_slice(bytes);
        self.head_bytes += bytes.len() as u8;
        self.bytes += bytes.len() as u32;
    }

    /// Buffers are shorter than 4 GiB: [`Packetiser::packetise`] sees to that.
    fn add(&mut self, piece: Range<usize>) {
        let piece = (piece.start as u32, piece.end as u32);
        self.bytes += piece.1 - piece.0;
        if let Some(last) = self.pieces[..self.piece_count.into()].last_mut()
            && last.1 == piece.0
        {
            last.1 = piece.1;
        } else {
            self.pieces[usize::from(self.piece_count)] = piece;
            self.piece_count += 1;
        }
    }
}

/// Makes the packets of one track, with sequence numbers that follow each other.
#[derive(Clone, Debug)]
pub struct Packetiser {
    format: Format,
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    packet_bytes_max: usize,
    extension_bytes: usize,
    payload_bytes_max: usize,
    texts: t140::Texts,
}

impl Packetiser {
    /// The first packet has the number `sequence`. None has more than `packet_bytes_max` bytes with its RTP header, within
    /// [`PACKET_BYTES_MIN`] and [`PACKET_BYTES_MAX`], but for Opus, whose packets cannot be divided.
    pub fn new(format: Format, payload_type: u8, ssrc: u32, sequence: u16, packet_bytes_max: usize) -> Self {
        let packet_bytes_max = packet_bytes_max.clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX);
        let payload_bytes_max = packet_bytes_max - RTP_HEADER_BYTES;
        let payload_type = payload_type & 0x7F;
        Self {
            format,
            payload_type,
            ssrc,
            sequence,
            packet_bytes_max,
            extension_bytes: 0,
            payload_bytes_max,
            texts: t140::Texts::default(),
        }
    }

    /// Whether packets leave room for an extension from here on. Then the smallest bound on them is larger by that.
    pub fn extend(&mut self, has_extension: bool) {
        self.extension_bytes = if has_extension { EXTENSION_BYTES } else { 0 };
        let bytes_max = self.packet_bytes_max.max(PACKET_BYTES_MIN + self.extension_bytes);
        self.payload_bytes_max = bytes_max - RTP_HEADER_BYTES - self.extension_bytes;
    }

    /// Whether a picture is one that no other picture needs, as far as its format tells.
    pub fn is_disposable(&self, buffer: &[u8], at: Range<usize>) -> bool {
        match self.format {
            Format::H264(framing) => nal::is_disposable(nal::Codec::H264, framing, buffer, at),
            Format::H265(framing) => nal::is_disposable(nal::Codec::H265, framing, buffer, at),
            _ => false,
        }
    }

    /// The number of the next packet.
    pub fn next_sequence(&self) -> u16 {
        self.sequence
    }

    /// The packets of samples that follow each other, at the end of `packets`. Small samples of audio share packets, where
    /// their format has that: so a caller that wants them sent at once passes them one by one.
    pub fn packetise(
        &mut self,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let buffer_bytes = buffer.len().min(u32::MAX as usize);
        for sample in samples {
            if sample.at.start > sample.at.end || sample.at.end > buffer_bytes {
                return Err(Unsendable::OutOfBuffer { buffer_bytes });
            }
        }
        match self.format {
            Format::H264(framing) => self.nal_units(nal::Codec::H264, framing, buffer, samples, packets),
            Format::H265(framing) => self.nal_units(nal::Codec::H265, framing, buffer, samples, packets),
            Format::Aac => self.aac(samples, packets),
            Format::MpegAudio => self.mpeg_audio(samples, packets),
            Format::MpegTransport => self.mpeg_transport(samples, packets),
            Format::SparseTransport { stride } => self.sparse_transport(stride.into(), samples, packets),
            Format::Ac3 => self.ac3(samples, packets),
            Format::Eac3 => self.eac3(samples, packets),
            Format::Av1 => self.av1(buffer, samples, packets),
            Format::Jpeg => self.jpeg(buffer, samples, packets),
            Format::Klv => self.klv(samples, packets),
            Format::Mpeg4 => self.mpeg4(samples, packets),
            Format::Opus => self.opus(samples, packets),
            Format::Pcm { frame_bytes } => self.pcm(frame_bytes, samples, packets),
            Format::T140 { generations } => self.t140(generations, buffer, samples, packets),
            Format::Vorbis { ident } => self.vorbis(ident, samples, packets),
            Format::Vp8 => self.vp8(samples, packets),
            Format::Vp9 => self.vp9(buffer, samples, packets),
        }
    }

    /// Samples that share no packet, each in as many parts as it takes, with a header before each part. The marker ends a
    /// sample.
    fn divided(
        &mut self,
        samples: &[Sample],
        header_bytes: usize,
        header: impl Fn(&mut Packet, &Sample, &Range<usize>),
        packets: &mut Vec<Packet>,
    ) {
        for sample in samples {
            for part in parts(sample.at.clone(), self.payload_bytes_max - header_bytes) {
                let mut packet = self.packet(sample.timestamp);
                header(&mut packet, sample, &part);
                if part.end == sample.at.end {
                    packet.mark();
                }
                packet.add(part);
                packets.push(packet);
            }
        }
    }

    /// Each packet is one (RFC 7587, section 4.2).
    fn opus(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        let bytes_max = PACKET_BYTES_MAX - RTP_HEADER_BYTES - self.extension_bytes;
        for sample in samples {
            check_length(sample, bytes_max)?;
            let mut packet = self.packet(sample.timestamp);
            packet.add(sample.at.clone());
            packets.push(packet);
        }
        Ok(())
    }

    /// The next packet, with its RTP header.
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +---+-+-+-------+-+-------------+-------------------------------+
    /// | 2 |P|X|   0   |M|     type    |        sequence number        |
    /// +---+-+-+-------+-+-------------+-------------------------------+
    /// |                           timestamp                           |
    /// +---------------------------------------------------------------+
    /// |                synchronization source (SSRC)                  |
    /// +---------------------------------------------------------------+
    /// ```
    fn packet(&mut self, timestamp: u32) -> Packet {
        let mut packet = Packet {
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            own: None,
            piece_count: 0,
            pieces: [(0, 0); PIECES_MAX],
            bytes: 0,
        };
        packet.say(&[0x80, self.payload_type]);
        packet.say(&self.sequence.to_be_bytes());
        packet.say(&timestamp.to_be_bytes());
        packet.say(&self.ssrc.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        packet
    }
}

fn check_length(sample: &Sample, bytes_max: usize) -> Result<(), Unsendable> {
    let bytes = sample.at.len();
    if bytes > bytes_max { Err(Unsendable::TooLong { bytes, bytes_max }) } else { Ok(()) }
}

/// How many samples from the first on fit into `bytes_max`, with `header_bytes` for each; at most [`PIECES_MAX`]. None if
/// the first does not.
fn fitting(samples: &[Sample], header_bytes: usize, bytes_max: usize) -> usize {
    let mut left = bytes_max;
    let fits = |sample: &&Sample| {
        let rest = left.checked_sub(sample.at.len() + header_bytes);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    samples.iter().take(PIECES_MAX).take_while(fits).count()
}

/// A range in parts of at most `bytes` bytes.
fn parts(range: Range<usize>, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(bytes).map(move |start| start..end.min(start + bytes))
}
