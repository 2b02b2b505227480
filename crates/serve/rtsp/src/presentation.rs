//! What there is to play: tracks and how they are coded.

use crate::range::{Range, SECOND_NS, Unit};

/// A file, or a list of them, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    /// What it is called.
    pub title: String,
    /// Another one whenever what it consists of is.
    pub version: u64,
    /// What can be sent of it, in the order of their numbers in URLs.
    pub tracks: Vec<Track>,
    /// How long it is; `None` if it has no end, as a loop.
    pub duration_ns: Option<u64>,
    /// When it was recorded, from 1 January 1970, if it can be asked for by such times.
    pub recorded_ns: Option<u64>,
    /// Whether it can be played from any position.
    pub is_seekable: bool,
}

/// One stream of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// How it is coded.
    pub codec: Codec,
    /// Its mean rate in bits per second, if that is known.
    pub bits_per_second: Option<u64>,
}

/// A coding, with what a decoder has to know before the first packet.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Codec {
    /// H.264 (RFC 6184), with its parameter sets as NAL units.
    H264 {
        /// Sequence parameter sets.
        sps: Vec<Vec<u8>>,
        /// Picture parameter sets.
        pps: Vec<Vec<u8>>,
    },
    /// H.265 (RFC 7798), with its parameter sets as NAL units.
    H265 {
        /// Video parameter sets.
        vps: Vec<Vec<u8>>,
        /// Sequence parameter sets.
        sps: Vec<Vec<u8>>,
        /// Picture parameter sets.
        pps: Vec<Vec<u8>>,
    },
    /// AAC in access units without ADTS (RFC 3640).
    Aac {
        /// The AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).
        config: Vec<u8>,
        /// Samples per second.
        clock_rate: u32,
        /// How many channels.
        channels: u8,
    },
    /// Opus (RFC 7587).
    Opus {
        /// One or two.
        channels: u8,
    },
    /// Opus of any number of channels, as WebRTC and GStreamer describe it.
    MultiOpus(OpusStreams),
    /// AC-3 (RFC 4184).
    Ac3 {
        /// Samples per second.
        clock_rate: u32,
        /// How many channels.
        channels: u8,
    },
    /// E-AC-3 (RFC 4598).
    Eac3 {
        /// Samples per second.
        clock_rate: u32,
        /// How many channels.
        channels: u8,
    },
    /// Sound without compression.
    Pcm {
        /// How its values are written.
        values: PcmValues,
        /// Samples per second.
        clock_rate: u32,
        /// How many channels.
        channels: u8,
    },
    /// Vorbis (RFC 5215).
    Vorbis {
        /// Its headers, as packed headers (section 3.2.1).
        configuration: Vec<u8>,
        /// Samples per second.
        clock_rate: u32,
        /// How many channels.
        channels: u8,
    },
    /// VP8 (RFC 7741).
    Vp8,
    /// VP9 (RFC 9628).
    Vp9 {
        /// Its profile, 0 to 3.
        profile: u8,
    },
    /// AV1 (AV1 RTP payload format of the Alliance for Open Media).
    Av1 {
        /// Its profile, 0 to 2.
        profile: u8,
        /// `seq_level_idx` of its first operating point.
        level: u8,
        /// 0 for the main tier, 1 for the high one.
        tier: u8,
    },
    /// MPEG-4 part 2 (RFC 6416).
    Mpeg4 {
        /// The headers above pictures.
        config: Vec<u8>,
    },
    /// Motion JPEG (RFC 2435).
    Jpeg,
    /// Metadata in KLV units (RFC 6597).
    Klv,
    /// Text (RFC 4103).
    T140 {
        /// In how many packets after its own a text is repeated (RFC 2198).
        generations: u8,
    },
    /// MPEG audio of layers I to III (RFC 2250, section 3.5).
    MpegAudio,
    /// An MPEG-2 transport stream (RFC 2250, section 2).
    MpegTransport,
}

/// How many channels Opus has in which of its streams (RFC 7845, section 5.1.1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OpusStreams {
    /// How many streams a packet has.
    pub streams: u8,
    /// How many of those have two channels; they come first.
    pub coupled: u8,
    /// For each channel that is heard, the decoded one.
    pub mapping: Vec<u8>,
}

/// How the values of sound without compression are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PcmValues {
    /// G.711, mu-law.
    MuLaw,
    /// G.711, A-law.
    ALaw,
    /// 16 bits with a sign.
    L16,
    /// 24 bits with a sign.
    L24,
}

impl PcmValues {
    /// How many bytes a value has.
    pub fn bytes(self) -> u8 {
        match self {
            Self::MuLaw | Self::ALaw => 1,
            Self::L16 => 2,
            Self::L24 => 3,
        }
    }
}

impl Codec {
    /// RTP timestamps per second.
    pub fn clock_rate(&self) -> u32 {
        match self {
            Self::Aac { clock_rate, .. }
            | Self::Ac3 { clock_rate, .. }
            | Self::Eac3 { clock_rate, .. }
            | Self::Pcm { clock_rate, .. }
            | Self::Vorbis { clock_rate, .. } => *clock_rate,
            Self::Opus { .. } | Self::MultiOpus(_) => 48_000,
            Self::T140 { .. } => 1000,
            Self::H264 { .. }
            | Self::H265 { .. }
            | Self::Vp8
            | Self::Vp9 { .. }
            | Self::Av1 { .. }
            | Self::Mpeg4 { .. }
            | Self::Jpeg
            | Self::Klv
            | Self::MpegAudio
            | Self::MpegTransport => 90_000,
        }
    }

    /// The name of its payload format (RFC 4855), as descriptions have it.
    pub fn encoding_name(&self) -> &'static str {
        match self {
            Self::H264 { .. } => "H264",
            Self::H265 { .. } => "H265",
            Self::Aac { .. } => "mpeg4-generic",
            Self::Opus { .. } => "opus",
            Self::MultiOpus(_) => "multiopus",
            Self::Ac3 { .. } => "ac3",
            Self::Eac3 { .. } => "eac3",
            Self::Pcm { values, .. } => match values {
                PcmValues::MuLaw => "PCMU",
                PcmValues::ALaw => "PCMA",
                PcmValues::L16 => "L16",
                PcmValues::L24 => "L24",
            },
            Self::Vorbis { .. } => "vorbis",
            Self::Vp8 => "VP8",
            Self::Vp9 { .. } => "VP9",
            Self::Av1 { .. } => "AV1",
            Self::Mpeg4 { .. } => "MP4V-ES",
            Self::Jpeg => "JPEG",
            Self::Klv => "smpte336m",
            Self::T140 { generations: 0 } => "t140",
            Self::T140 { .. } => "red",
            Self::MpegAudio => "MPA",
            Self::MpegTransport => "MP2T",
        }
    }

    /// Whether its samples are pictures.
    pub fn is_pictures(&self) -> bool {
        match self {
            Self::H264 { .. }
            | Self::H265 { .. }
            | Self::Vp8
            | Self::Vp9 { .. }
            | Self::Av1 { .. }
            | Self::Mpeg4 { .. }
            | Self::Jpeg => true,
            Self::Aac { .. }
            | Self::Ac3 { .. }
            | Self::Eac3 { .. }
            | Self::Pcm { .. }
            | Self::Vorbis { .. }
            | Self::Opus { .. }
            | Self::MultiOpus(_)
            | Self::Klv
            | Self::T140 { .. }
            | Self::MpegAudio
            | Self::MpegTransport => false,
        }
    }

    /// Whether its samples are text.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::T140 { .. })
    }

    /// The number in its packets: of its own where the profile has one (RFC 3551, section 6), else by its track.
    pub fn payload_type(&self, track: usize) -> u8 {
        match self {
            Self::MpegAudio => 14,
            Self::MpegTransport => 33,
            Self::Jpeg => 26,
            Self::Pcm { values, clock_rate, channels } => match (values, clock_rate, channels) {
                (PcmValues::MuLaw, 8_000, 1) => 0,
                (PcmValues::ALaw, 8_000, 1) => 8,
                (PcmValues::L16, 44_100, 2) => 10,
                (PcmValues::L16, 44_100, 1) => 11,
                _ => dynamic(track),
            },
            _ => dynamic(track),
        }
    }
}

/// The number of a text in packets of that number, which repeat it.
pub(crate) fn repeated_payload_type(payload_type: u8) -> u8 {
    dynamic(usize::from(payload_type) + 1)
}

/// 96 to 127 are free; a presentation with more tracks has none of them played together.
fn dynamic(track: usize) -> u8 {
    96 + (track % 32) as u8
}

impl Presentation {
    /// All of it.
    pub fn range(&self) -> Range {
        Range { unit: Unit::Npt, from_ns: Some(0), until_ns: self.duration_ns }
    }

    /// What a client asked for, in normal play time; `None` if it counts by a clock and the recording does not.
    pub fn in_normal_play_time(&self, range: Range) -> Option<Range> {
        let origin_ns = match range.unit {
            Unit::Npt => 0,
            Unit::Clock => self.recorded_ns?,
        };
        let since = |ns: u64| ns.saturating_sub(origin_ns);
        Some(Range {
            unit: Unit::Npt,
            from_ns: range.from_ns.map(since),
            until_ns: range.until_ns.map(since),
        })
    }

    /// A part of it, in the unit that a client asked in.
    pub fn in_unit(&self, range: Range, unit: Unit) -> Range {
        let origin_ns = match unit {
            Unit::Npt => 0,
            Unit::Clock => self.recorded_ns.unwrap_or_default(),
        };
        let after = |ns: u64| ns.saturating_add(origin_ns);
        Range { unit, from_ns: range.from_ns.map(after), until_ns: range.until_ns.map(after) }
    }
}

/// Where `position_ns` lies on a track's clock, counted from the beginning of the presentation.
pub fn ticks(position_ns: u64, clock_rate: u32) -> u64 {
    (u128::from(position_ns) * u128::from(clock_rate) / u128::from(SECOND_NS)) as u64
}
