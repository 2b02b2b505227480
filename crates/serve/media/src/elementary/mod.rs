//! The tracks of a transport stream (ISO/IEC 13818-1): what its packets carry, by stream.
//!
//! ```text
//!   packets  | PAT | PMT | 100 | 101 | 100 | 100 | 102 | 100 | ...
//!   track    .             [ picture              ]             100: pictures, which their units tell
//!                                [ frame ]                       101: frames of sound, whose headers tell their length
//! ```
//!
//! A sample is a range of the file with packets of other streams in it, which are taken out when it has been read
//! ([`Packing`](crate::Packing)).

mod duration;
mod frames;
mod opus;
mod picture_times;
mod pictures;
mod start_codes;
mod tables;
mod times;
mod units;

use std::sync::Arc;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation;
use mpeg2ts_reader::packet::Packet;

use crate::annex_b::Codec as PictureCodec;
use crate::error::{Error, Result};
use crate::index::{Builder, SAMPLES_MAX};
use crate::joints::Times;
use crate::media::{Carriage, Found, Track};
use crate::packing::{PACKET_BYTES, Payloads};
use crate::source::Source;
use crate::time::TimeBase;
use crate::transport::{Layout, next_packet};
use frames::Frames;
use pictures::Pictures;
use tables::{Coding, Program, Tables, Watch};
use times::Pes;
use units::Units;

/// How far the tables of a stream may be from its beginning.
const TABLES_BYTES_MAX: u64 = 16 << 20;

/// After so much of a stream, the maps are enough that have come by then.
const MAPS_BYTES_MAX: u64 = 1 << 20;

/// What is looked at of private data: two frames of sound, mostly.
const PRIVATE_BYTES: usize = 4 << 10;

/// How many streams of a program are looked at.
const STREAMS_MAX: usize = 64;

/// What stands for no stream, where there may be the number of one.
const NO_STREAM: u8 = u8::MAX;

/// Numbers that streams may have.
const PIDS: usize = 1 << 13;

/// What becomes of a stream by its tables.
pub(crate) enum Begun {
    Tracks(Box<Pass>),
    /// It is better served as it is, since some of its pictures have no payload format here, or since it has no tables.
    AsItIs,
    /// Its tables have not come yet.
    TooEarly,
}

/// The pass through all packets of a program.
pub(crate) struct Pass {
    from: u64,
    layout: Layout,
    program: Program,
    scan: Scan,
}

impl Pass {
    /// `is_all` says that no more of the stream is to come.
    pub fn begin(source: &mut Source, from: u64, layout: Layout, is_all: bool) -> Result<Begun> {
        let (tables, read_bytes) = read_tables(source, from, layout)?;
        let are_enough = tables.are_complete() || read_bytes >= TABLES_BYTES_MAX;
        // Maps may be missing for ever where a program was taken out of many.
        let has_some = read_bytes >= MAPS_BYTES_MAX && tables.has_program();
        if !(is_all || are_enough || has_some) {
            return Ok(Begun::TooEarly);
        }
        let Some(mut program) = tables.finish().filter(|program| !program.has_other_pictures) else {
            return Ok(Begun::AsItIs);
        };
        for stream in std::mem::take(&mut program.streams) {
            let coding = match stream.coding {
                Coding::Private => match private_coding(source, from, layout, stream.pid)? {
                    Private::Coded(coding) => Some(coding),
                    Private::NotYet if !is_all => return Ok(Begun::TooEarly),
                    Private::Other | Private::NotYet => None,
                },
                coding => Some(coding),
            };
            match coding {
                Some(coding) => program.streams.push(tables::Stream { coding, ..stream }),
                None => program.left_out.push("private data of which nothing is told".to_owned()),
            }
        }
        if program.streams.is_empty() {
            return Ok(Begun::AsItIs);
        }
        let scan = Scan::new(&program, from, Begin::AtKeyFrames);
        Ok(Begun::Tracks(Box::new(Self { from, layout, program, scan })))
    }

    pub fn at(&self) -> u64 {
        self.scan.at
    }

    /// How long all of it is, by its last packets.
    pub fn told_ns(&self, source: &mut Source) -> Result<Option<u64>> {
        duration::told_ns(source, self.from, self.layout, &self.program)
    }

    /// Whether there were pictures, and none that decoding can begin at.
    pub fn lacks_key_frames(&self) -> bool {
        self.scan.lacks_key_frames()
    }

    /// Whether there are units of pictures, and no picture.
    pub fn lacks_pictures(&self) -> bool {
        let is_it = |stream: &Stream| matches!(&stream.parser, Parser::Pictures(one) if one.lacks_pictures());
        self.scan.streams.iter().any(is_it)
    }

    /// Reads on up to a place; returns whether the file has ended before. It may begin again with another idea of key frames as
    /// long as nothing plays.
    pub fn go_on(&mut self, source: &mut Source, until: u64, may_begin_again: bool) -> Result<bool> {
        let has_ended = self.scan.go_on(source, until, self.layout)?;
        if has_ended && may_begin_again && self.scan.lacks_key_frames() {
            // Some encoders refresh pictures bit by bit: then any picture is as good as another.
            self.scan = Scan::new(&self.program, self.from, Begin::Anywhere);
            return Ok(false);
        }
        Ok(has_ended)
    }

    /// Where the stream is as it is, instead of its tracks, if nothing in it tells times.
    pub fn place(&self) -> (u64, Layout) {
        (self.from, self.layout)
    }

    /// Nothing more comes, so the last samples are all there.
    pub fn end(&mut self) -> Result<()> {
        let Scan { streams, samples_left, .. } = &mut self.scan;
        streams.iter_mut().try_for_each(|stream| stream.end(samples_left))
    }

    pub fn found(&self) -> Result<Found> {
        if self.scan.scrambled_packets > self.scan.packets / 2 {
            return Err(Error::Encrypted);
        }
        let mut found = self.scan.found(self.layout);
        found.left_out.extend(self.program.left_out.iter().cloned());
        Ok(found)
    }
}

/// The tables near the beginning, and how much has been read for them.
fn read_tables(source: &mut Source, from: u64, layout: Layout) -> Result<(Tables, u64)> {
    let mut tables = Tables::default();
    let end = from.saturating_add(TABLES_BYTES_MAX);
    let mut at = from;
    while at < end && !tables.are_complete() {
        let bytes = source.up_to(at, PACKET_BYTES)?;
        if bytes.len() < PACKET_BYTES {
            break;
        }
        let Some(packet) = Packet::try_new(bytes) else {
            at = next_packet(source, at, layout)?;
            continue;
        };
        tables.take(&packet);
        at += layout.stride;
    }
    Ok((tables, at - from))
}

/// What private data is.
enum Private {
    Coded(Coding),
    Other,
    /// What the file has of it is too little to tell.
    NotYet,
}

/// What private data is, by its beginning.
fn private_coding(source: &mut Source, from: u64, layout: Layout, pid: u16) -> Result<Private> {
    let mut payloads = Payloads::default();
    let mut begin: Option<Vec<u8>> = None;
    let mut at = from;
    while at < from.saturating_add(MAPS_BYTES_MAX) {
        let bytes = source.up_to(at, PACKET_BYTES)?;
        if bytes.len() < PACKET_BYTES {
            return Ok(if begin.is_some() { told(begin) } else { Private::NotYet });
        }
        if Packet::try_new(bytes).is_none() {
            at = next_packet(source, at, layout)?;
            continue;
        }
        if let Some(payload) = payloads.payload(bytes, pid) {
            if payload.header.is_some() {
                begin.get_or_insert_default();
            }
            if let Some(begin) = &mut begin {
                begin.extend(&bytes[payload.range]);
            }
            if begin.as_ref().is_some_and(|begin| begin.len() >= PRIVATE_BYTES) {
                break;
            }
        }
        at += layout.stride;
    }
    Ok(told(begin))
}

fn told(begin: Option<Vec<u8>>) -> Private {
    let sort = frames::Sort::of(&begin.unwrap_or_default());
    sort.map_or(Private::Other, |sort| Private::Coded(Coding::Sound(sort)))
}

/// Which pictures are taken to be key frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    AtKeyFrames,
    Anywhere,
}

/// A stream that is being read.
struct Stream {
    pid: u16,
    /// Which packets had it at first, and from where in the file on it has been in others.
    first_pid: u16,
    moved: Vec<(u64, u16)>,
    /// Where a new map says that it goes on.
    next_pid: Option<u16>,
    coding: Coding,
    language: Option<String>,
    payloads: Payloads,
    parser: Parser,
}

enum Parser {
    Pictures(Box<Pictures>),
    Frames(Box<Frames>),
    Units(Box<Units>),
}

/// A part of a stream, as it lies in the file.
#[derive(Clone, Copy)]
struct Piece<'a> {
    at: u64,
    bytes: &'a [u8],
}

/// How far the packets have been read, and what they have told.
struct Scan {
    streams: Vec<Stream>,
    by_pid: Vec<u8>,
    watch: Watch,
    times: Times,
    samples_left: u64,
    /// Where packets begin that follow each other.
    runs: Vec<u64>,
    packets: u64,
    scrambled_packets: u64,
    at: u64,
}

impl Scan {
    fn new(program: &Program, from: u64, begin: Begin) -> Self {
        let streams: Vec<Stream> =
            program.streams.iter().take(STREAMS_MAX).map(|one| Stream::new(one, begin)).collect();
        let mut by_pid = vec![NO_STREAM; PIDS];
        streams.iter().enumerate().for_each(|(number, one)| by_pid[usize::from(one.pid)] = number as u8);
        Self {
            streams,
            by_pid,
            watch: Watch::new(program.place),
            times: times::times(),
            samples_left: SAMPLES_MAX,
            runs: vec![from],
            packets: 0,
            scrambled_packets: 0,
            at: from,
        }
    }

    /// Returns whether the file has ended before `until`.
    fn go_on(&mut self, source: &mut Source, until: u64, layout: Layout) -> Result<bool> {
        while self.at < until {
            let bytes = source.up_to(self.at, PACKET_BYTES)?;
            if bytes.len() < PACKET_BYTES {
                return Ok(true);
            }
            let Some(packet) = Packet::try_new(bytes) else {
                self.at = next_packet(source, self.at, layout)?;
                self.runs.push(self.at);
                continue;
            };
            self.take(&packet, bytes)?;
            self.at += layout.stride;
        }
        Ok(false)
    }

    fn take(&mut self, packet: &Packet, bytes: &[u8]) -> Result<()> {
        self.packets += 1;
        let is_scrambled = packet.transport_scrambling_control().is_scrambled();
        self.scrambled_packets += u64::from(is_scrambled);
        let pid = u16::from(packet.pid());
        if self.watch.is_in(pid)
            && let Some(program) = self.watch.take(packet)
        {
            self.change(&program)?;
        }
        let number = usize::from(self.by_pid[usize::from(pid)]);
        let Some(stream) = self.streams.get(number).filter(|_| !is_scrambled) else { return Ok(()) };
        if stream.next_pid == Some(pid) {
            if !packet.payload_unit_start_indicator() {
                return Ok(());
            }
            self.go_on_in(number, pid)?;
        }
        let stream = &mut self.streams[number];
        let Some(payload) = stream.payloads.payload(bytes, pid) else { return Ok(()) };
        let header = payload.header.and_then(|header| Pes::parse(&bytes[header..]));
        let can_begin = packet.adaptation_field().is_some_and(|field| field.random_access_indicator());
        let own = Piece { at: self.at + payload.range.start as u64, bytes: &bytes[payload.range] };
        if payload.header.is_some() {
            stream.begin(header, can_begin, &mut self.times, &mut self.samples_left)?;
        }
        stream.take(own, &mut self.samples_left)
    }

    /// Has streams go on where a new map says that streams of their kind are.
    fn change(&mut self, program: &Program) -> Result<()> {
        // Of private data the map does not tell what has been found in them.
        let is_there = |stream: &Stream, one: &tables::Stream| {
            stream.pid == one.pid && [stream.coding, Coding::Private].contains(&one.coding)
        };
        let mut free: Vec<&tables::Stream> = program.streams.iter().collect();
        free.retain(|one| !self.streams.iter().any(|stream| is_there(stream, one)));
        let mut moves = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if let Some(pid) = stream.next_pid.take() {
                self.by_pid[usize::from(pid)] = NO_STREAM;
            }
            if program.streams.iter().any(|one| is_there(stream, one)) {
                continue;
            }
            let alike = |one: &&tables::Stream| one.coding == stream.coding;
            let same = free.iter().position(|one| alike(one) && one.language == stream.language);
            if let Some(found) = same.or_else(|| free.iter().position(alike)) {
                moves.push((number, free.remove(found).pid));
            }
        }
        // The old packets may come for a while yet, if no other stream is in the new ones.
        let is_free = |pid: u16| self.by_pid[usize::from(pid)] == NO_STREAM;
        if moves.iter().all(|(_, pid)| is_free(*pid)) {
            for (number, pid) in moves {
                self.by_pid[usize::from(pid)] = number as u8;
                self.streams[number].next_pid = Some(pid);
            }
            return Ok(());
        }
        moves.into_iter().try_for_each(|(number, pid)| self.go_on_in(number, pid))
    }

    /// A stream goes on in other packets.
    fn go_on_in(&mut self, number: usize, pid: u16) -> Result<()> {
        let stream = &mut self.streams[number];
        let before = &mut self.by_pid[usize::from(stream.pid)];
        if usize::from(*before) == number {
            *before = NO_STREAM;
        }
        self.by_pid[usize::from(pid)] = number as u8;
        stream.end(&mut self.samples_left)?;
        (stream.pid, stream.next_pid, stream.payloads) = (pid, None, Payloads::default());
        stream.moved.push((self.at, pid));
        Ok(())
    }

    fn lacks_key_frames(&self) -> bool {
        self.streams.iter().any(Stream::lacks_key_frames)
    }

    fn found(&self, layout: Layout) -> Found {
        let runs: Arc<[u64]> = self.runs.as_slice().into();
        let mut found = Found::default();
        for stream in &self.streams {
            let carriage = Carriage::Packets {
                pid: stream.first_pid,
                moved: stream.moved.clone(),
                stride: layout.stride as u8,
                runs: runs.clone(),
            };
            if matches!(&stream.parser, Parser::Frames(frames) if frames.has_others()) {
                let name = stream.coding.name();
                found.left_out.push(format!("frames of {name} that are coded otherwise than the first ones"));
            }
            match stream.track() {
                Some(track) => found.tracks.push(track.carried(carriage).numbered(stream.first_pid.into())),
                None => {
                    found.waiting += 1;
                    found.left_out.push(format!("{} without samples", stream.coding.name()));
                }
            }
        }
        found
    }
}

/// What of a stream's samples makes them a track.
struct Closing {
    coding: (presentation::Codec, Format),
    /// Ticks per second.
    rate: u32,
    /// How long the last sample lasts, if that is known.
    lasts: Option<i64>,
    samples: Builder,
}

impl Closing {
    /// `None` without samples.
    fn track(self, language: Option<String>) -> Option<Track> {
        let Self { coding: (codec, format), rate, lasts, samples } = self;
        let mut index = samples.finish(lasts)?;
        index.lead();
        Some(Track::new(codec, format, language, TimeBase::per_second(rate)?, index))
    }
}

impl Stream {
    fn new(told: &tables::Stream, begin: Begin) -> Self {
        let parser = match told.coding {
            Coding::H264 => Parser::Pictures(Box::new(Pictures::new(PictureCodec::H264, begin))),
            Coding::H265 => Parser::Pictures(Box::new(Pictures::new(PictureCodec::H265, begin))),
            Coding::Sound(sort) => Parser::Frames(Box::new(Frames::new(sort))),
            Coding::Klv { has_cells } => Parser::Units(Box::new(Units::new(has_cells))),
            // Private data is looked into before.
            Coding::Private => Parser::Units(Box::new(Units::new(false))),
        };
        let language = told.language.clone();
        Self {
            pid: told.pid,
            first_pid: told.pid,
            moved: Vec::new(),
            next_pid: None,
            coding: told.coding,
            language,
            payloads: Payloads::default(),
            parser,
        }
    }

    /// A PES packet begins.
    fn begin(
        &mut self,
        header: Option<Pes>,
        can_begin: bool,
        times: &mut Times,
        samples_left: &mut u64,
    ) -> Result<()> {
        match &mut self.parser {
            Parser::Pictures(pictures) => {
                pictures.begin(header, can_begin, times);
                Ok(())
            }
            Parser::Frames(frames) => {
                frames.begin(header, times);
                Ok(())
            }
            Parser::Units(units) => units.begin(header, times, samples_left),
        }
    }

    fn take(&mut self, piece: Piece, samples_left: &mut u64) -> Result<()> {
        match &mut self.parser {
            Parser::Pictures(pictures) => pictures.take(piece, samples_left),
            Parser::Frames(frames) => frames.take(piece, samples_left),
            Parser::Units(units) => {
                units.take(piece);
                Ok(())
            }
        }
    }

    fn lacks_key_frames(&self) -> bool {
        matches!(&self.parser, Parser::Pictures(pictures) if pictures.lacks_key_frames())
    }

    /// Nothing more comes.
    fn end(&mut self, samples_left: &mut u64) -> Result<()> {
        match &mut self.parser {
            Parser::Pictures(pictures) => pictures.end(samples_left),
            Parser::Frames(frames) => frames.end_all(samples_left),
            Parser::Units(units) => units.end(samples_left),
        }
    }

    fn track(&self) -> Option<Track> {
        let closing = match &self.parser {
            Parser::Pictures(pictures) => pictures.closing(),
            Parser::Frames(frames) => frames.closing(),
            Parser::Units(units) => units.closing(),
        };
        closing?.track(self.language.clone())
    }
}
