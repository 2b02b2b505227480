//! A film in memory, in packets that belong to no source yet: all cameras that play it share them.

use std::ops::Range;
use std::sync::Arc;

use forebay_hls::Shape;
use forebay_media::Media;
use forebay_rtsp::packetise::{self, Packet, Packetiser, RTP_HEADER_BYTES};
use forebay_rtsp::presentation::{self, Codec, PcmValues, Presentation};
use thiserror::Error;

/// A film.
pub struct Film {
    buffer: Vec<u8>,
    packets: Vec<Packet>,
    /// In the order of sending.
    samples: Vec<Sample>,
    tracks: Vec<Track>,
    /// After how long it begins again.
    round_ns: u64,
    damaged: usize,
}

/// A track of it.
pub(crate) struct Track {
    pub codec: Codec,
    bits_per_second: Option<u64>,
    /// Of its pictures, where their headers tell it.
    size: Option<(u16, u16)>,
    /// Whether some of its samples need others.
    pub needs_sync: bool,
    /// Of one round.
    pub packets: u64,
    pub payload_bytes: u64,
    /// Its samples, as places in `samples`.
    places: Vec<u32>,
}

/// A sample of it.
pub(crate) struct Sample {
    pub track: usize,
    /// When it is sent, from the beginning of a round.
    pub at_ns: u64,
    /// How long that is before the next sample of its track.
    pub room_ns: u64,
    /// Its presentation on the codec's clock, from the beginning of a round.
    pub ticks: i64,
    pub is_sync: bool,
    pub packets: Range<u32>,
    pub payload_bytes: u64,
    /// What its track has before it in a round.
    packets_before: u64,
    payload_bytes_before: u64,
}

/// What its pictures are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pictures {
    /// As version 1 of ONVIF's Media service calls it; `None` where that has no name for it.
    pub encoding: Option<&'static str>,
    /// As version 2 calls it: the name of the payload format.
    pub format: &'static str,
    /// Width and height, where that is known.
    pub size: Option<(u16, u16)>,
    pub per_second: u32,
    pub bits_per_second: u64,
    /// How many there are from one that needs no others to the next.
    pub per_sync: u32,
    /// The profile of H.264 or H.265, as ONVIF calls it.
    pub profile: Option<&'static str>,
}

/// What its sound is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    /// As version 1 of ONVIF's Media service calls it; `None` where that has no name for it.
    pub encoding: Option<&'static str>,
    /// As version 2 calls it: the name of the payload format.
    pub format: &'static str,
    pub channels: u8,
    pub clock_rate: u32,
    pub bits_per_second: u64,
}

/// A profile of H.264 (Rec. ITU-T H.264, Annex A) or H.265 (Rec. ITU-T H.265, Annex A), as ONVIF calls it.
fn profile(codec: &Codec) -> Option<&'static str> {
    match codec {
        Codec::H264 { sps, .. } => sps.first()?.get(1).map(|profile| match profile {
            66 => "Baseline",
            77 => "Main",
            88 => "Extended",
            // All others are extensions of it.
            _ => "High",
        }),
        // Behind the header and the numbers of sets and layers (7.3.2.2 and 7.3.3).
        Codec::H265 { sps, .. } => match sps.first()?.get(3)? & 0x1F {
            1 => Some("Main"),
            2 => Some("Main10"),
            _ => None,
        },
        _ => None,
    }
}

/// Why there is no film.
#[derive(Debug, Error)]
pub enum Unreadable<E: core::error::Error> {
    /// Its samples cannot be read.
    #[error("its samples cannot be read: {0}")]
    Samples(E),
    /// It is larger than may be in memory.
    #[error("it has more than {0} bytes of samples: --memory allows more, up to 4G for one film")]
    TooLarge(u64),
    /// It takes no time.
    #[error("it has no samples that take time, so a camera cannot play it")]
    TakesNoTime,
}

/// Buffers of packets are shorter: places in them have 32 bits.
const BUFFER_BYTES_MAX: u64 = u32::MAX as u64;

impl Film {
    /// A film of at most `bytes_max` bytes, whose samples `read` reads. Packets have at most `packet_bytes_max` bytes.
    pub fn new<E: core::error::Error>(
        media: &Arc<Media>,
        packet_bytes_max: usize,
        bytes_max: u64,
        mut read: impl FnMut(Range<u64>, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, Unreadable<E>> {
        let bytes_max = bytes_max.min(BUFFER_BYTES_MAX);
        let mut film = Self::empty(media);
        let packetiser = |(number, track): (usize, &forebay_media::Track)| {
            Packetiser::new(track.format, track.codec.payload_type(number), 0, 0, packet_bytes_max)
        };
        let mut packetisers: Vec<Packetiser> = media.tracks().iter().enumerate().map(packetiser).collect();
        let tracks: Vec<usize> = (0..media.tracks().len()).collect();
        let mut begin_ns = None;
        for sample in media.plan(&tracks, 0) {
            // The sound that a decoder needs before the beginning was heard at the end of the round before.
            if sample.presentation_ns < 0 && !film.tracks[sample.track].needs_sync {
                continue;
            }
            let begin_ns = *begin_ns.get_or_insert(sample.decode_ns);
            let start = film.buffer.len();
            let bytes = sample.at.end - sample.at.start;
            if start as u64 + bytes > bytes_max {
                return Err(Unreadable::TooLarge(bytes_max));
            }
            film.buffer.resize(start + bytes as usize, 0);
            read(sample.at.clone(), &mut film.buffer[start..]).map_err(Unreadable::Samples)?;
            let count = sample.packing.unpack(&mut film.buffer[start..]);
            film.buffer.truncate(start + count);
            let at_ns = u64::try_from(sample.decode_ns.saturating_sub(begin_ns)).unwrap_or(0);
            film.add(&sample, at_ns, start..start + count, &mut packetisers[sample.track]);
        }
        film.close()
    }

    fn empty(media: &Arc<Media>) -> Self {
        let track = |track: &forebay_media::Track| Track {
            codec: track.codec.clone(),
            bits_per_second: track.bits_per_second(),
            size: None,
            needs_sync: track.has_groups(),
            packets: 0,
            payload_bytes: 0,
            places: Vec::new(),
        };
        Self {
            buffer: Vec::new(),
            packets: Vec::new(),
            samples: Vec::new(),
            tracks: media.tracks().iter().map(track).collect(),
            round_ns: media.duration_ns(),
            damaged: 0,
        }
    }

    fn add(
        &mut self,
        of_file: &forebay_media::Sample,
        at_ns: u64,
        at: Range<usize>,
        packetiser: &mut Packetiser,
    ) {
        let first = self.packets.len();
        let track = &mut self.tracks[of_file.track];
        if track.places.is_empty() {
            track.size = Shape::of(&track.codec, &self.buffer[at.clone()]).and_then(|shape| shape.size);
        }
        let sample = packetise::Sample { at, timestamp: 0 };
        if packetiser.packetise(&self.buffer, &[sample], &mut self.packets).is_err() {
            self.packets.truncate(first);
            self.damaged += 1;
            return;
        }
        let payload_bytes =
            self.packets[first..].iter().map(|packet| (packet.bytes() - RTP_HEADER_BYTES) as u64).sum();
        let track = &mut self.tracks[of_file.track];
        track.places.push(self.samples.len() as u32);
        self.samples.push(Sample {
            track: of_file.track,
            at_ns: at_ns.min(self.round_ns.saturating_sub(1)),
            room_ns: 0,
            ticks: of_file.timestamp,
            is_sync: of_file.is_sync,
            packets: first as u32..self.packets.len() as u32,
            payload_bytes,
            packets_before: track.packets,
            payload_bytes_before: track.payload_bytes,
        });
        track.packets += (self.packets.len() - first) as u64;
        track.payload_bytes += payload_bytes;
    }

    /// Nothing is added any more.
    fn close<E: core::error::Error>(mut self) -> Result<Self, Unreadable<E>> {
        if self.samples.is_empty() || self.round_ns == 0 {
            return Err(Unreadable::TakesNoTime);
        }
        for track in &self.tracks {
            let Some(first) = track.places.first() else { continue };
            let first_ns = self.samples[*first as usize].at_ns;
            let nexts = track.places.iter().skip(1);
            let next_ns: Vec<u64> = nexts.map(|place| self.samples[*place as usize].at_ns).collect();
            for (place, next_ns) in
                track.places.iter().zip(next_ns.into_iter().chain([self.round_ns + first_ns]))
            {
                let sample = &mut self.samples[*place as usize];
                sample.room_ns = next_ns.saturating_sub(sample.at_ns);
            }
        }
        Ok(self)
    }

    /// What its packets are made of.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// A packet, which belongs to no source yet.
    pub fn packet(&self, number: u32) -> &Packet {
        &self.packets[number as usize]
    }

    /// How many samples cannot be sent, because the file is damaged.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// What viewers are told of a camera that plays it.
    pub fn presentation(&self, title: String, version: u64) -> Presentation {
        let track = |track: &Track| presentation::Track {
            codec: track.codec.clone(),
            bits_per_second: track.bits_per_second,
        };
        Presentation {
            title,
            version,
            tracks: self.tracks.iter().map(track).collect(),
            duration_ns: None,
            recorded_ns: None,
            is_seekable: false,
        }
    }

    /// Its first track of pictures.
    pub(crate) fn pictures(&self) -> Option<Pictures> {
        let track = self.tracks.iter().find(|track| track.codec.is_pictures())?;
        let encoding = match track.codec {
            Codec::H264 { .. } => Some("H264"),
            Codec::Jpeg => Some("JPEG"),
            Codec::Mpeg4 { .. } => Some("MPEG4"),
            _ => None,
        };
        let syncs = track.places.iter().filter(|place| self.samples[**place as usize].is_sync).count();
        Some(Pictures {
            encoding,
            format: match track.codec {
                // So ONVIF writes it.
                Codec::Mpeg4 { .. } => "MPV4-ES",
                _ => track.codec.encoding_name(),
            },
            size: track.size,
            per_second: (track.places.len() as f64 * 1e9 / self.round_ns as f64).round() as u32,
            bits_per_second: track.bits_per_second.unwrap_or(0),
            per_sync: track.places.len().div_ceil(syncs.max(1)) as u32,
            profile: profile(&track.codec),
        })
    }

    /// Its first track of sound.
    pub(crate) fn sound(&self) -> Option<Sound> {
        let sound = |track: &Track| {
            let (encoding, channels) = match track.codec {
                Codec::Aac { channels, .. } => (Some("AAC"), channels),
                Codec::Pcm { values: PcmValues::MuLaw | PcmValues::ALaw, channels, .. } => {
                    (Some("G711"), channels)
                }
                Codec::Pcm { channels, .. }
                | Codec::Ac3 { channels, .. }
                | Codec::Eac3 { channels, .. }
                | Codec::Vorbis { channels, .. }
                | Codec::Opus { channels } => (None, channels),
                Codec::MultiOpus(_) | Codec::MpegAudio => (None, 2),
                _ => return None,
            };
            let (clock_rate, bits_per_second) =
                (track.codec.clock_rate(), track.bits_per_second.unwrap_or(0));
            let format = track.codec.encoding_name();
            Some(Sound { encoding, format, channels, clock_rate, bits_per_second })
        };
        self.tracks.iter().find_map(sound)
    }

    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub(crate) fn round_ns(&self) -> u64 {
        self.round_ns
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The first sample that is sent at a position of the round or later; the number of samples if there is none.
    pub(crate) fn place_at(&self, position_ns: u64) -> usize {
        self.samples.partition_point(|sample| sample.at_ns < position_ns)
    }

    /// How many packets and bytes of payload a track has before a sample of any track.
    pub(crate) fn before(&self, track: usize, place: usize) -> (u64, u64) {
        let track = &self.tracks[track];
        let next = track.places.partition_point(|one| (*one as usize) < place);
        track.places.get(next).map_or((track.packets, track.payload_bytes), |place| {
            let sample = &self.samples[*place as usize];
            (sample.packets_before, sample.payload_bytes_before)
        })
    }
}
