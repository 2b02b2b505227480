//! Pictures of H.264 and H.265: cut by what their units are, wherever PES packets begin.
//!
//! ```text
//!   packets    | header, time | picture | picture | header | rest of it, picture | header, time | picture
//!   times                     ^ own     ^ none                       ^ none                     ^ own
//! ```
//!
//! The time of a packet is that of the first picture that begins in it (ISO/IEC 13818-1, 2.4.3.7).

use forebay_rtsp::packetise::{Format, Framing};

use super::picture_times::{Own, Picture, PictureTimes};
use super::start_codes::StartCodes;
use super::times::{CLOCK_RATE, Pes};
use super::{Begin, Closing, Piece};
use crate::annex_b::{AccessUnits, Codec, Ended, HEAD_BYTES_MAX, Heads, picture_bytes};
use crate::error::Result;
use crate::index::Builder;
use crate::joints::Times;

pub(super) struct Pictures {
    codec: Codec,
    begin: Begin,
    heads: Heads,
    codes: StartCodes,
    /// The unit whose end has not come.
    unit: Option<Unit>,
    units: AccessUnits<Place>,
    /// What the header of the last PES packet says, and the last one that a picture has its time of.
    told: Option<Told>,
    used: Option<Pes>,
    /// The last time of decoding that was told.
    decode: Option<i64>,
    can_begin: bool,
    times: PictureTimes,
    has_units: bool,
    has_pictures: bool,
    has_begun: bool,
    builder: Builder,
}

/// What a PES packet tells of the first picture in it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Told {
    pes: Pes,
    times: Own,
}

/// Where a unit begins.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    /// Where the unit before ends.
    before: u64,
    told: Option<Told>,
}

/// A unit as far as it has come.
struct Unit {
    place: Place,
    head: Vec<u8>,
    /// Whether its access unit knows of it.
    is_taken: bool,
}

impl Pictures {
    pub fn new(codec: Codec, begin: Begin) -> Self {
        // Orders of H.264 count fields.
        let usual_orders = match codec {
            Codec::H264 => 2,
            Codec::H265 => 1,
        };
        Self {
            codec,
            begin,
            heads: Heads::new(codec),
            codes: StartCodes::default(),
            unit: None,
            units: AccessUnits::default(),
            told: None,
            used: None,
            decode: None,
            can_begin: false,
            times: PictureTimes::new(usual_orders),
            has_units: false,
            has_pictures: false,
            has_begun: begin == Begin::Anywhere,
            builder: Builder::default(),
        }
    }

    /// A PES packet begins.
    pub fn begin(&mut self, header: Option<Pes>, can_begin: bool, times: &mut Times) {
        self.can_begin = can_begin;
        let Some(pes) = header else {
            self.told = None;
            return;
        };
        if self.told.is_some_and(|told| told.pes == pes) {
            return;
        }
        if let Some(until) = self.times.waiting_until(self.step()) {
            times.reach(until);
        }
        let decode = times.go_on(pes.decode as i64, self.decode);
        let presentation = decode + pes.delay();
        times.reach(presentation);
        self.decode = Some(decode);
        self.told = Some(Told { pes, times: Own { decode, presentation } });
    }

    pub fn take(&mut self, piece: Piece, samples_left: &mut u64) -> Result<()> {
        let mut from = 0;
        for code in self.codes.take(piece) {
            self.add(&piece.bytes[from..code.unit], samples_left)?;
            self.end_unit(true, samples_left)?;
            let place = Place { at: code.at, before: code.before, told: self.told };
            self.has_units = true;
            self.unit = Some(Unit { place, head: Vec::new(), is_taken: false });
            from = code.unit;
        }
        self.add(&piece.bytes[from..], samples_left)
    }

    /// Nothing more comes.
    pub fn end(&mut self, samples_left: &mut u64) -> Result<()> {
        self.end_unit(false, samples_left)?;
        if let Some(ended) = self.units.end() {
            self.push(ended, samples_left)?;
        }
        self.codes = StartCodes::default();
        self.times.end(self.step(), &mut self.builder, samples_left)
    }

    /// More of the unit.
    fn add(&mut self, bytes: &[u8], samples_left: &mut u64) -> Result<()> {
        let Some(unit) = self.unit.as_mut().filter(|unit| !unit.is_taken) else { return Ok(()) };
        let room = HEAD_BYTES_MAX - unit.head.len();
        unit.head.extend(&bytes[..room.min(bytes.len())]);
        if unit.head.len() < HEAD_BYTES_MAX {
            return Ok(());
        }
        unit.is_taken = true;
        let (place, head) = (unit.place, std::mem::take(&mut unit.head));
        self.take_unit(place, &head, samples_left)
    }

    /// The unit ends, with a start code after it or without.
    fn end_unit(&mut self, has_code: bool, samples_left: &mut u64) -> Result<()> {
        let Some(Unit { place, mut head, is_taken: false }) = self.unit.take() else { return Ok(()) };
        if has_code {
            head.pop();
        }
        let zeros = head.iter().rev().take_while(|byte| **byte == 0).count();
        self.take_unit(place, &head[..head.len() - zeros], samples_left)
    }

    fn take_unit(&mut self, place: Place, head: &[u8], samples_left: &mut u64) -> Result<()> {
        let role = self.heads.role(head);
        self.units.take(place, role).map_or(Ok(()), |ended| self.push(ended, samples_left))
    }

    /// An access unit has ended.
    fn push(&mut self, ended: Ended<Place>, samples_left: &mut u64) -> Result<()> {
        let Ended { begin: Place { at, told, .. }, end, picture: (is_key, order) } = ended;
        let own = told.filter(|told| self.used != Some(told.pes));
        self.used = own.map(|told| told.pes).or(self.used);
        self.has_pictures = true;
        if own.is_none() && !self.times.has_begun() {
            return Ok(());
        }
        self.has_begun |= is_key;
        let end = end.map(|next| next.before).or(self.codes.end()).unwrap_or(at);
        let picture = Picture {
            at,
            bytes: picture_bytes(at, end)?,
            is_sync: is_key || self.begin == Begin::Anywhere,
            // No decoder can begin with what comes before the first key frame.
            is_served: self.has_begun,
            order,
        };
        let (own, step) = (own.map(|told| told.times), self.step());
        self.times.push(picture, own, step, &mut self.builder, samples_left)
    }

    /// How long a picture lasts as the stream says, in ticks.
    fn step(&self) -> Option<i64> {
        self.heads.picture_time().map(|time| time.on_clock(1, CLOCK_RATE))
    }

    pub fn lacks_key_frames(&self) -> bool {
        self.has_pictures && !self.has_begun && !self.can_begin
    }

    /// Whether there are units, and none of a picture.
    pub fn lacks_pictures(&self) -> bool {
        self.has_units && !self.has_pictures
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
