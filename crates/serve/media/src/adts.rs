//! AAC with a header before each frame (ADTS, ISO/IEC 14496-3, 1.A.2), which is left out when it is sent.
//!
//! ```text
//!   12 bits  1   2     1       2       4     1    3       4      13      11      2      16, if
//!   +------+---+-----+-------+-------+------+---+--------+---+--------+--------+-------+  protected
//!   | FFF  | v | 0 0 | not   | type  | rate |   | chan-  |   | length | full-  | more  | checksum
//!   |      |   |     | prot. |       |      |   | nels   |   |        | ness   |       |
//!   +------+---+-----+-------+-------+------+---+--------+---+--------+--------+-------+--
//! ```

use forebay_rtsp::packetise::Format;

use crate::error::{Error, Result};
use crate::index::{Builder, Entry, SAMPLES_MAX};
use crate::kind;
use crate::media::{Found, Track};
use crate::sound;
use crate::source::Source;
use crate::tags;
use crate::time::TimeBase;

pub(crate) const HEADER_BYTES: usize = 7;
pub(crate) const FRAME_SAMPLES: i64 = 1024;
/// The longest frame that a header can tell of.
const FRAME_BYTES_MAX: u64 = 1 << 13;

pub(crate) struct Header {
    pub config: [u8; 2],
    pub header_bytes: u64,
    /// Of header and payload.
    pub bytes: u64,
    pub blocks: u8,
}

impl Header {
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let bits = bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let field = |from_end: u32, count: u32| bits >> from_end & ((1 << count) - 1);
        let (sync, layer, is_bare) = (field(44, 12), field(41, 2), field(40, 1) == 1);
        let (object, rate, channels) = (field(38, 2) + 1, field(34, 4), field(30, 3));
        let header_bytes = if is_bare { 7 } else { 9 };
        let length = field(13, 13);
        let config = (object << 11 | rate << 7 | channels << 3) as u16;
        let is_one = sync == 0xFFF && layer == 0 && rate < 13 && length > header_bytes;
        let blocks = field(0, 2) as u8 + 1;
        is_one.then_some(Self { config: config.to_be_bytes(), header_bytes, bytes: length, blocks })
    }

    fn read(source: &mut Source, at: u64) -> Result<Option<Self>> {
        Ok(source.array(at)?.and_then(Self::parse))
    }
}

/// Where the first frame begins, if frames follow each other from `from` on.
pub(crate) fn first_frame(source: &mut Source, from: u64) -> Result<Option<u64>> {
    kind::first_frame(source, from, FRAME_BYTES_MAX, |source, at, before: Option<[u8; 2]>| {
        let header = Header::read(source, at)?;
        let like = header.filter(|header| before.is_none_or(|before| before == header.config));
        Ok(like.map(|header| (header.config, at + header.bytes)))
    })
}

pub(crate) fn read(source: &mut Source, from: u64) -> Result<Found> {
    let truncated = Error::Truncated { bytes: source.bytes(), missing: "the first frame" };
    let Some(first) = Header::read(source, from)? else { return Err(truncated) };
    let codec =
        sound::aac(first.config.to_vec()).ok_or(Error::Damaged("its first frame has no sample rate"))?;
    let time_base =
        TimeBase::per_second(codec.clock_rate()).ok_or(Error::Damaged("its time does not pass"))?;
    let (mut builder, mut samples_left) = (Builder::default(), SAMPLES_MAX);
    let (mut at, mut time, mut garbage) = (from, 0, 0);
    while at + HEADER_BYTES as u64 <= source.bytes() {
        let Some(header) = Header::read(source, at)?.filter(|header| header.config == first.config) else {
            let end_of_frame = |source: &mut Source, at| {
                let header = Header::read(source, at)?.filter(|header| header.config == first.config);
                Ok(header.map(|header| at + header.bytes))
            };
            let Some(next) = tags::next_frame(source, at, &mut garbage, end_of_frame)? else { break };
            at = next;
            continue;
        };
        if header.blocks > 1 {
            return Err(Error::NothingToServe(vec!["AAC with several blocks in a frame".to_owned()]));
        }
        let end = at + header.bytes;
        if end > source.bytes() {
            break;
        }
        let bytes = (header.bytes - header.header_bytes) as u32;
        let at_payload = at + header.header_bytes;
        let entry = Entry { at: at_payload, bytes, decode: time, presentation: time, is_sync: true };
        builder.push(entry, &mut samples_left)?;
        time += FRAME_SAMPLES;
        at = end;
    }
    let index = builder.finish(Some(FRAME_SAMPLES)).ok_or(truncated)?;
    let track = Track::new(codec, Format::Aac, None, time_base, index);
    Ok(Found { tracks: vec![track], ..Found::default() })
}
