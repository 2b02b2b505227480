//! Pictures of H.264 and H.265: one a PES packet with times, or two fields of the same time.

use forebay_rtsp::packetise::{Format, Framing};

use super::times::{CLOCK_RATE, Pes};
use super::{Begin, Closing, Piece};
use crate::annex_b::{Codec, Heads};
use crate::error::{Error, Result};
use crate::index::{Builder, Entry};
use crate::joints::Times;

/// What is looked at of a picture: parameter sets, and the beginning of the first slice.
const HEAD_BYTES_MAX: usize = 8 << 10;

pub(super) struct Pictures {
    codec: Codec,
    begin: Begin,
    heads: Heads,
    current: Option<Current>,
    /// The time of decoding of the one before.
    decode: Option<i64>,
    has_pictures: bool,
    has_begun: bool,
    builder: Builder,
}

/// A picture whose end has not come.
struct Current {
    times: (i64, i64),
    told: Pes,
    can_begin: bool,
    place: Option<(u64, u64)>,
    head: Vec<u8>,
}

impl Pictures {
    pub fn new(codec: Codec, begin: Begin) -> Self {
        Self {
            codec,
            begin,
            heads: Heads::new(codec),
            current: None,
            decode: None,
            has_pictures: false,
            has_begun: begin == Begin::Anywhere,
            builder: Builder::default(),
        }
    }

    pub fn begin(
        &mut self,
        header: Option<Pes>,
        can_begin: bool,
        times: &mut Times,
        samples_left: &mut u64,
    ) -> Result<()> {
        // Without a time, or with that of the one before, more of a picture comes.
        let Some(told) = header else { return Ok(()) };
        if self.current.as_ref().is_some_and(|current| current.told == told) {
            return Ok(());
        }
        self.end(samples_left)?;
        let decode = times.go_on(told.decode as i64, self.decode);
        let presentation = decode + told.delay();
        times.reach(presentation);
        self.decode = Some(decode);
        let times = (decode, presentation);
        self.current = Some(Current { times, told, can_begin, place: None, head: Vec::new() });
        Ok(())
    }

    pub fn take(&mut self, piece: Piece) {
        let Some(current) = &mut self.current else { return };
        let end = piece.at + piece.bytes.len() as u64;
        if piece.bytes.is_empty() {
            return;
        }
        current.place = Some((current.place.map_or(piece.at, |(begin, _)| begin), end));
        let room = HEAD_BYTES_MAX.saturating_sub(current.head.len());
        current.head.extend(&piece.bytes[..room.min(piece.bytes.len())]);
    }

    pub fn end(&mut self, samples_left: &mut u64) -> Result<()> {
        let Some(Current { times, can_begin, place: Some((at, end)), head, .. }) = self.current.take() else {
            return Ok(());
        };
        self.has_pictures = true;
        let is_key = self.heads.is_key(&head).unwrap_or(can_begin);
        self.has_begun |= is_key;
        // No decoder can begin with what comes before the first key frame.
        if !self.has_begun {
            return Ok(());
        }
        let bytes = u32::try_from(end - at).map_err(|_| Error::Damaged("a picture of more than 4 GiB"))?;
        let is_sync = is_key || self.begin == Begin::Anywhere;
        let (decode, presentation) = times;
        self.builder.push(Entry { at, bytes, decode, presentation, is_sync }, samples_left)
    }

    pub fn lacks_key_frames(&self) -> bool {
        let may_be_one = self.current.as_ref().is_some_and(|current| current.can_begin);
        self.has_pictures && !self.has_begun && !may_be_one
    }

    /// How all pictures so far are one track.
    pub fn closing(&self) -> Option<Closing> {
        let format = match self.codec {
            Codec::H264 => Format::H264(Framing::StartCodes),
            Codec::H265 => Format::H265(Framing::StartCodes),
        };
        let coding = (self.heads.codec(), format);
        Some(Closing { coding, rate: CLOCK_RATE, lasts: None, samples: self.builder.clone() })
    }
}
