//! The tracks of a transport stream (ISO/IEC 13818-1): what its packets carry, by stream.
//!
//! ```text
//!   packets  | PAT | PMT | 100 | 101 | 100 | 100 | 102 | 100 | ...
//!   track    .             [ picture              ]             100: PES packets with times, parsed for key frames
//!                                [ frame ]                       101: frames of sound, whose headers tell their length
//! ```
//!
//! A sample is a range of the file with packets of other streams in it, which are taken out when it has been read
//! ([`Packing`](crate::Packing)).

mod frames;
mod pictures;
mod tables;
mod times;
mod units;

use std::sync::Arc;

use mpeg2ts_reader::packet::Packet;

use crate::annex_b::Codec as PictureCodec;
use crate::error::{Error, Result};
use crate::index::SAMPLES_MAX;
use crate::media::{Carriage, Found, Track};
use crate::packing::{PACKET_BYTES, Payloads};
use crate::source::Source;
use crate::transport::{Layout, next_packet};
use frames::Frames;
use pictures::Pictures;
use tables::{Coding, Program, Tables};
use times::{Pes, Times};
use units::Units;

/// How far the tables of a stream may be from its beginning.
const TABLES_BYTES_MAX: u64 = 16 << 20;

/// How many streams of a program are looked at.
const STREAMS_MAX: usize = 64;

/// Numbers that streams may have.
const PIDS: usize = 1 << 13;

/// The tracks of a program; `None` if all of it is better served as it is, since some of its pictures have no payload format
/// here, or nothing in it tells times.
pub(crate) fn read(source: &mut Source, from: u64, layout: Layout) -> Result<Option<Found>> {
    let Some(program) = find_program(source, from, layout)? else { return Ok(None) };
    let mut found = scan(source, from, layout, &program, Begin::AtKeyFrames)?;
    if found.lacks_key_frames {
        // Some encoders refresh pictures bit by bit: then any picture is as good as another.
        found = scan(source, from, layout, &program, Begin::Anywhere)?;
    }
    if found.scrambled_packets > found.packets / 2 {
        return Err(Error::Encrypted);
    }
    let tracks = found.tracks.len();
    let left_out = [found.left_out, program.left_out].concat();
    Ok((tracks > 0).then_some(Found { tracks: found.tracks, left_out, ..Found::default() }))
}

/// The first program with streams that can be served, if all of its pictures can.
fn find_program(source: &mut Source, from: u64, layout: Layout) -> Result<Option<Program>> {
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
    Ok(tables.finish().filter(|program| !program.has_other_pictures))
}

/// Which pictures are taken to be key frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    AtKeyFrames,
    Anywhere,
}

/// What a pass over all packets has found.
struct Scanned {
    tracks: Vec<Track>,
    left_out: Vec<String>,
    lacks_key_frames: bool,
    packets: u64,
    scrambled_packets: u64,
}

/// A stream that is being read.
struct Stream {
    pid: u16,
    name: &'static str,
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

fn scan(source: &mut Source, from: u64, layout: Layout, program: &Program, begin: Begin) -> Result<Scanned> {
    let mut streams: Vec<Stream> =
        program.streams.iter().take(STREAMS_MAX).map(|one| Stream::new(one, begin)).collect();
    let mut by_pid = vec![u8::MAX; PIDS];
    streams.iter().enumerate().for_each(|(number, one)| by_pid[usize::from(one.pid)] = number as u8);
    let mut times = Times::default();
    let mut samples_left = SAMPLES_MAX;
    let mut runs = vec![from];
    let (mut packets, mut scrambled_packets) = (0, 0);
    let mut at = from;
    loop {
        let bytes = source.up_to(at, PACKET_BYTES)?;
        if bytes.len() < PACKET_BYTES {
            break;
        }
        let Some(packet) = Packet::try_new(bytes) else {
            at = next_packet(source, at, layout)?;
            runs.push(at);
            continue;
        };
        packets += 1;
        let is_scrambled = packet.transport_scrambling_control().is_scrambled();
        scrambled_packets += u64::from(is_scrambled);
        let pid = u16::from(packet.pid());
        if let Some(stream) = streams.get_mut(usize::from(by_pid[usize::from(pid)])).filter(|_| !is_scrambled)
            && let Some(payload) = stream.payloads.payload(bytes, pid)
        {
            let header = payload.header.and_then(|header| Pes::parse(&bytes[header..]));
            let can_begin = packet.adaptation_field().is_some_and(|field| field.random_access_indicator());
            let own = Piece { at: at + payload.range.start as u64, bytes: &bytes[payload.range] };
            if payload.header.is_some() {
                stream.begin(header, can_begin, &mut times, &mut samples_left)?;
            }
            stream.take(own, &mut samples_left)?;
        }
        at += layout.stride;
    }
    let runs: Arc<[u64]> = runs.into();
    let mut scanned =
        Scanned { tracks: vec![], left_out: vec![], lacks_key_frames: false, packets, scrambled_packets };
    for stream in streams {
        let carriage = Carriage::Packets { pid: stream.pid, stride: layout.stride as u8, runs: runs.clone() };
        scanned.lacks_key_frames |= stream.lacks_key_frames();
        let name = stream.name;
        match stream.finish(&mut samples_left)? {
            Some(track) => scanned.tracks.push(track.carried(carriage)),
            None => scanned.left_out.push(format!("{name} without samples")),
        }
    }
    Ok(scanned)
}

impl Stream {
    fn new(told: &tables::Stream, begin: Begin) -> Self {
        let parser = match told.coding {
            Coding::H264 => Parser::Pictures(Box::new(Pictures::new(PictureCodec::H264, begin))),
            Coding::H265 => Parser::Pictures(Box::new(Pictures::new(PictureCodec::H265, begin))),
            Coding::Sound(sort) => Parser::Frames(Box::new(Frames::new(sort))),
            Coding::Klv { has_cells } => Parser::Units(Box::new(Units::new(has_cells))),
        };
        let language = told.language.clone();
        Self { pid: told.pid, name: told.coding.name(), language, payloads: Payloads::default(), parser }
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
            Parser::Pictures(pictures) => pictures.begin(header, can_begin, times, samples_left),
            Parser::Frames(frames) => {
                frames.begin(header, times);
                Ok(())
            }
            Parser::Units(units) => units.begin(header, times, samples_left),
        }
    }

    fn take(&mut self, piece: Piece, samples_left: &mut u64) -> Result<()> {
        match &mut self.parser {
            Parser::Pictures(pictures) => {
                pictures.take(piece);
                Ok(())
            }
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

    fn finish(self, samples_left: &mut u64) -> Result<Option<Track>> {
        match self.parser {
            Parser::Pictures(pictures) => pictures.finish(self.language, samples_left),
            Parser::Frames(frames) => frames.finish(self.language, samples_left),
            Parser::Units(units) => units.finish(self.language, samples_left),
        }
    }
}
