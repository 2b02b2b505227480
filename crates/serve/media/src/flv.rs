//! FLV (Adobe Flash Video File Format Specification 10.1, annex E; Enhanced RTMP for codecs with a name): tags, each with its time.
//!
//! ```text
//!   +------+---------+--------+--------+-----------+----------------------------------+-----------+
//!   | kind | bytes   | time   | higher | stream, 0 | kind and codec, its fields, data | bytes, so |
//!   |      |         | in ms  | time   |           |                                  | far       |
//!   +------+---------+--------+--------+-----------+----------------------------------+-----------+
//!     8       24       24        8         24                                            32
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use memchr::memchr3;

use crate::damage::next_place;
use crate::error::{Error, Result};
use crate::index::{Builder, Entry, samples_max};
use crate::joints::Times;
use crate::media::{Carriage, Found, Track};
use crate::source::Source;
use crate::time::TimeBase;
use crate::{parameter_sets, sound};

const TAG_HEADER_BYTES: u64 = 11;
const SECOND_MS: i64 = 1000;
/// A time this far ahead of all before is a broken one, or one of another recording, which was joined to this one.
const JUMP_MS: i64 = 60 * SECOND_MS;
/// Of what a decoder is told.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 16;
const SOUND: u8 = 8;
const PICTURES: u8 = 9;
const OTHER_DATA: u8 = 15;
const SCRIPT: u8 = 18;
const IS_ENCRYPTED: u8 = 0x20;

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let Some([_, _, _, _, _, offset @ ..]) = source.array::<9>(0)? else {
        return Err(Error::Truncated { bytes: source.bytes(), missing: "its header" });
    };
    let mut samples_left = samples_max(source.bytes());
    let mut drafts = [Draft::default(), Draft::default()];
    let mut times = Times::new(SECOND_MS, JUMP_MS, None);
    let mut is_encrypted = false;
    // After the header come the bytes of the tag before the first one: none.
    let mut at = u64::from(u32::from_be_bytes(offset)).max(9) + 4;
    while at < source.bytes() {
        let Some((kind, tag)) = tag(source, at)? else {
            // A recording that was cut off is good up to there.
            let begins = |source: &mut Source, at| Ok(tag(source, at)?.is_some());
            let mark = |bytes: &[u8]| memchr3(SOUND, PICTURES, SCRIPT, bytes);
            let Some(next) = next_place(source, at + 1, mark, begins)? else { break };
            at = next;
            continue;
        };
        match kind & !IS_ENCRYPTED {
            SOUND | PICTURES if kind & IS_ENCRYPTED != 0 => is_encrypted = true,
            SOUND => {
                let has = sounds(source, &tag)?;
                drafts[1].take(source, &tag, has, &mut times, &mut samples_left)?;
            }
            PICTURES => {
                let has = pictures(source, &tag)?;
                drafts[0].take(source, &tag, has, &mut times, &mut samples_left)?;
            }
            _ => {}
        }
        at = tag.end + 4;
    }
    if is_encrypted && drafts.iter().all(|draft| draft.builder.is_empty()) {
        return Err(Error::Encrypted);
    }
    let mut found = Found::default();
    for draft in drafts {
        found.left_out.extend(draft.left_out.clone());
        found.tracks.extend(draft.track());
    }
    Ok(found)
}

/// Where a tag's data lie, and its time in milliseconds.
struct Tag {
    at: u64,
    end: u64,
    time: i64,
}

/// The tag at a place, with its kind; `None` if none is there, or not all of it. What follows it tells whether its length is right.
fn tag(source: &mut Source, at: u64) -> Result<Option<(u8, Tag)>> {
    let begin = |header: [u8; 11]| {
        let [kind, size @ .., a, b, c, higher, 0, 0, 0] = header else { return None };
        let bytes = size.iter().fold(0, |bytes, byte: &u8| bytes << 8 | u64::from(*byte));
        let time = i64::from(i32::from_be_bytes([higher, a, b, c]));
        matches!(kind & !IS_ENCRYPTED, SOUND | PICTURES | SCRIPT | OTHER_DATA).then_some((kind, bytes, time))
    };
    let Some((kind, bytes, time)) = source.array::<11>(at)?.and_then(begin) else { return Ok(None) };
    let tag = Tag { at: at + TAG_HEADER_BYTES, end: at + TAG_HEADER_BYTES + bytes, time };
    if tag.end > source.bytes() {
        return Ok(None);
    }
    // Some writers leave the length after it at 0.
    let after = source.beyond::<15>(tag.end)?;
    let is_right = after.is_none_or(|[a, b, c, d, next @ ..]| {
        u64::from(u32::from_be_bytes([a, b, c, d])) == TAG_HEADER_BYTES + bytes || begin(next).is_some()
    });
    Ok(is_right.then_some((kind, tag)))
}

/// What a tag has.
enum Has {
    Nothing,
    /// What a decoder is told, from here on.
    Configuration(Coded, u64),
    Sample(Sample),
    /// No codec that can be served.
    Other(String),
}

struct Sample {
    coded: Coded,
    at: u64,
    is_sync: bool,
    /// From decoding to presentation, in milliseconds.
    delay: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coded {
    H264,
    H265,
    Av1,
    Vp9,
    Aac,
    Opus,
    MpegAudio,
    /// G.711, or values of 16 bits.
    Plain {
        kind: u8,
        rate: u32,
        channels: u8,
    },
}

/// A track while its samples are being found.
#[derive(Default)]
struct Draft {
    served: Option<(Coded, sound::Plain)>,
    left_out: Option<String>,
    /// Whether its coding changes: no more of it is served.
    is_over: bool,
    builder: Builder,
}

impl Draft {
    fn take(
        &mut self,
        source: &mut Source,
        tag: &Tag,
        has: Has,
        times: &mut Times,
        samples_left: &mut u64,
    ) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        match has {
            Has::Nothing => Ok(()),
            Has::Other(phrase) => {
                self.left_out.get_or_insert(phrase);
                Ok(())
            }
            Has::Configuration(coded, at) => {
                let bytes = tag.end.saturating_sub(at).min(CONFIGURATION_BYTES_MAX);
                let told = source.copy(at, bytes, "what a decoder is told")?;
                match (configured(coded, &told), &self.served) {
                    (Some(served), Some((known, before))) if (*known, &before.0) != (coded, &served.0) => {
                        self.left_out = Some("what comes after a change of coding".to_owned());
                        self.is_over = true;
                    }
                    (Some(_), Some(_)) => {}
                    (Some(served), None) => self.served = Some((coded, served)),
                    (None, _) => {
                        let phrase = format!("{coded:?} whose decoder configuration cannot be read");
                        self.left_out.get_or_insert(phrase);
                    }
                }
                Ok(())
            }
            Has::Sample(sample) => self.add(tag, &sample, times, samples_left),
        }
    }

    fn add(&mut self, tag: &Tag, sample: &Sample, times: &mut Times, samples_left: &mut u64) -> Result<()> {
        let Sample { coded, at, is_sync, delay } = *sample;
        if self.served.is_none() {
            self.served = without_configuration(coded).map(|served| (coded, served));
        }
        let bytes = tag.end.checked_sub(at).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
        let is_known = self.served.as_ref().is_some_and(|(known, _)| *known == coded);
        if !is_known || bytes == 0 {
            return Ok(());
        }
        let before = (!self.builder.is_empty()).then(|| self.builder.last_decode());
        let decode = times.go_on(tag.time, before).max(before.unwrap_or(i64::MIN));
        self.builder.push(Entry { at, bytes, decode, presentation: decode + delay, is_sync }, samples_left)
    }

    fn track(self) -> Option<Track> {
        let (_, (codec, format, carriage)) = self.served?;
        let mut index = self.builder.finish(None)?;
        index.lead();
        let time_base = TimeBase::per_second(SECOND_MS as u32)?;
        Some(Track::new(codec, format, None, time_base, index).carried(carriage))
    }
}

/// How samples are served of a codec that needs a configuration.
fn configured(coded: Coded, told: &[u8]) -> Option<sound::Plain> {
    let (codec, format) = match coded {
        Coded::H264 => parameter_sets::h264(told)?,
        Coded::H265 => parameter_sets::h265(told)?,
        Coded::Av1 => parameter_sets::av1(told),
        Coded::Aac => (sound::aac(told.to_vec())?, Format::Aac),
        Coded::Opus => {
            let channels = *told.strip_prefix(b"OpusHead")?.get(1)?;
            sound::opus(channels, sound::opus_streams(told))?
        }
        _ => return without_configuration(coded),
    };
    Some((codec, format, Carriage::Whole))
}

/// How samples are served of a codec that needs none.
fn without_configuration(coded: Coded) -> Option<sound::Plain> {
    match coded {
        Coded::Vp9 => Some((Codec::Vp9 { profile: 0 }, Format::Vp9, Carriage::Whole)),
        Coded::MpegAudio => Some((Codec::MpegAudio, Format::MpegAudio, Carriage::Whole)),
        Coded::Plain { kind: 3, rate, channels } => sound::pcm(16, rate, channels, true),
        Coded::Plain { kind, rate, channels } => sound::g711(kind == 7, rate, channels),
        _ => None,
    }
}

/// Pictures (annex E.4.3.1; Enhanced RTMP, ExVideoTagHeader).
fn pictures(source: &mut Source, tag: &Tag) -> Result<Has> {
    const HAS_NAME: u8 = 0x80;
    let Tag { at, end, .. } = *tag;
    let head = source.up_to(at, (end - at).min(8) as usize)?;
    let Some(&first) = head.first() else { return Ok(Has::Nothing) };
    let is_sync = first >> 4 & 7 == 1;
    // Before 2023, what a tag has followed the codec; since then it takes the place of the codec, whose name follows.
    let (coded, what, header) = if first & HAS_NAME != 0 {
        let coded = match head.get(1..5) {
            Some(b"avc1") => Coded::H264,
            Some(b"hvc1") => Coded::H265,
            Some(b"av01") => Coded::Av1,
            Some(b"vp09") => Coded::Vp9,
            name => return Ok(Has::Other(named(name))),
        };
        (coded, first & 0xF, 5)
    } else {
        let coded = match first & 0xF {
            7 => Coded::H264,
            12 => Coded::H265,
            // Not a picture, but a sign for seeking.
            _ if first >> 4 == 5 => return Ok(Has::Nothing),
            other => return Ok(Has::Other(format!("pictures of FLV's codec {other}"))),
        };
        let Some(&what) = head.get(1) else { return Ok(Has::Nothing) };
        (coded, what, 2)
    };
    let has_delay = header == 2 || (matches!(coded, Coded::H264 | Coded::H265) && what == 1);
    let delay = if has_delay { source.array::<3>(at + header)?.unwrap_or_default() } else { [0; 3] };
    let [a, b, c] = delay;
    let delay = i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8);
    let data = at + header + if has_delay { 3 } else { 0 };
    Ok(match what {
        0 => Has::Configuration(coded, data),
        1 => Has::Sample(Sample { coded, at: data, is_sync, delay }),
        3 if header == 5 => Has::Sample(Sample { coded, at: data, is_sync, delay: 0 }),
        _ => Has::Nothing,
    })
}

/// Sound (annex E.4.2.1; Enhanced RTMP, ExAudioTagHeader).
fn sounds(source: &mut Source, tag: &Tag) -> Result<Has> {
    const RATES: [u32; 4] = [5_512, 11_025, 22_050, 44_100];
    let Tag { at, end, .. } = *tag;
    let head = source.up_to(at, (end - at).min(8) as usize)?;
    let Some(&first) = head.first() else { return Ok(Has::Nothing) };
    let (kind, rate) = (first >> 4, RATES[usize::from(first >> 2 & 3)]);
    let (has_16_bits, channels) = (first & 2 != 0, 1 + (first & 1));
    let sample = |coded, at| Has::Sample(Sample { coded, at, is_sync: true, delay: 0 });
    Ok(match kind {
        2 | 14 => sample(Coded::MpegAudio, at + 1),
        3 if has_16_bits => sample(Coded::Plain { kind, rate, channels }, at + 1),
        7 | 8 => sample(Coded::Plain { kind, rate: 8_000, channels }, at + 1),
        9 => {
            let coded = match head.get(1..5) {
                Some(b"mp4a") => Coded::Aac,
                Some(b"Opus") => Coded::Opus,
                Some(b".mp3") => Coded::MpegAudio,
                name => return Ok(Has::Other(named(name))),
            };
            match first & 0xF {
                0 => Has::Configuration(coded, at + 5),
                1 => sample(coded, at + 5),
                _ => Has::Nothing,
            }
        }
        10 => match head.get(1) {
            Some(0) => Has::Configuration(Coded::Aac, at + 2),
            Some(1) => sample(Coded::Aac, at + 2),
            _ => Has::Nothing,
        },
        other => Has::Other(format!("sound of FLV's codec {other}, which is no codec that can be served")),
    })
}

fn named(name: Option<&[u8]>) -> String {
    let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
    format!("{name}, which is no codec that can be served")
}
