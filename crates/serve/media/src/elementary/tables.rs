//! Which streams there are (ISO/IEC 13818-1, 2.4.4): the list of programs (PAT), and the map of each (PMT).

use mpeg2ts_reader::mpegts_crc::sum32;
use mpeg2ts_reader::packet::Packet;

use super::frames::Sort;

/// Programs whose maps are waited for.
const PROGRAMS_MAX: usize = 64;

const PROGRAMS_PID: u16 = 0;
const PROGRAMS_TABLE: u8 = 0;
const MAP_TABLE: u8 = 2;
/// Of either table, what comes before its entries and after them.
const SECTION_HEADER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;

/// How a stream is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    H264,
    H265,
    Sound(Sort),
    Klv {
        /// Whether each unit has a header of its own (SMPTE ST 1402, synchronous).
        has_cells: bool,
    },
    /// Private data of which nothing is told. Blu-ray discs' kind of stream has sound so that they have no type for.
    Private,
}

impl Coding {
    pub fn name(self) -> &'static str {
        match self {
            Self::H264 => "H.264",
            Self::H265 => "H.265",
            Self::Sound(Sort::Adts) => "AAC",
            Self::Sound(Sort::MpegAudio) => "MPEG audio",
            Self::Sound(Sort::Ac3) => "AC-3",
            Self::Sound(Sort::Opus { .. }) => "Opus",
            Self::Klv { .. } => "KLV",
            Self::Private => "private data",
        }
    }
}

/// A stream that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub pid: u16,
    pub coding: Coding,
    pub language: Option<String>,
}

/// The streams of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    pub streams: Vec<Stream>,
    /// What else there is: a phrase each.
    pub left_out: Vec<String>,
    /// Whether that has pictures.
    pub has_other_pictures: bool,
    /// Where its map is.
    pub place: Place,
}

/// Where the map of a program is: its number in the list, and which packets have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    number: u16,
    pid: u16,
}

/// The tables of a stream, as far as packets have told them.
#[derive(Default)]
pub(super) struct Tables {
    list: Section,
    /// Of each program, where its map is, the map as far as it is there, and what it says.
    programs: Option<Vec<(Place, Section, Option<Program>)>>,
}

impl Tables {
    pub fn are_complete(&self) -> bool {
        self.programs.as_ref().is_some_and(|programs| programs.iter().all(|(.., program)| program.is_some()))
    }

    /// Whether some map is there.
    pub fn has_program(&self) -> bool {
        self.programs.iter().flatten().any(|(.., program)| program.is_some())
    }

    pub fn take(&mut self, packet: &Packet) {
        let (pid, begins) = (u16::from(packet.pid()), packet.payload_unit_start_indicator());
        let Some(payload) = packet.payload() else { return };
        if pid == PROGRAMS_PID && self.programs.is_none() {
            let list = self.list.take(payload, begins, PROGRAMS_TABLE);
            self.programs = list.map(|list| {
                maps(&list.entries)
                    .take(PROGRAMS_MAX)
                    .map(|place| (place, Section::default(), None))
                    .collect()
            });
        }
        let programs = self.programs.iter_mut().flatten();
        for (place, section, program) in
            programs.filter(|(place, _, program)| place.pid == pid && program.is_none())
        {
            let map = section.take(payload, begins, MAP_TABLE);
            *program = map.map(|map| Program { place: *place, ..Program::read(&map.entries) });
        }
    }

    /// The first program with something to serve.
    pub fn finish(self) -> Option<Program> {
        let mut programs = self.programs?.into_iter().filter_map(|(.., program)| program);
        let mut chosen =
            programs.by_ref().find(|program| !program.streams.is_empty() || program.has_other_pictures)?;
        let others = programs.filter(|program| !program.streams.is_empty()).count();
        if others > 0 {
            chosen.left_out.push(format!("{others} other programs of the transport stream"));
        }
        Some(chosen)
    }
}

/// The map of the program that is served, which may be another one later, as may be its place.
pub(super) struct Watch {
    place: Place,
    list: Section,
    map: Section,
    /// What the last one said, and whose number it had.
    last: Option<Table>,
}

impl Watch {
    pub fn new(place: Place) -> Self {
        Self { place, list: Section::default(), map: Section::default(), last: None }
    }

    /// Whether packets have the list or the map.
    pub fn is_in(&self, pid: u16) -> bool {
        pid == PROGRAMS_PID || pid == self.place.pid
    }

    /// Takes such a packet, and returns what a map says that is not the one before.
    pub fn take(&mut self, packet: &Packet) -> Option<Program> {
        let (pid, begins) = (u16::from(packet.pid()), packet.payload_unit_start_indicator());
        let payload = packet.payload()?;
        if pid == PROGRAMS_PID {
            let list = self.list.take(payload, begins, PROGRAMS_TABLE)?;
            let same = maps(&list.entries).find(|place| place.number == self.place.number);
            let place = same.or(maps(&list.entries).next())?;
            if place != self.place {
                *self = Self { list: std::mem::take(&mut self.list), ..Self::new(place) };
            }
            return None;
        }
        let map = self.map.take(payload, begins, MAP_TABLE)?;
        let is_other = self.last.as_ref().is_some_and(|last| last.number != map.number);
        if is_other || self.last.as_ref() == Some(&map) {
            return None;
        }
        let program = Program { place: self.place, ..Program::read(&map.entries) };
        self.last = Some(map);
        Some(program)
    }
}

/// The places of the maps that a list of programs names.
fn maps(list: &[u8]) -> impl Iterator<Item = Place> {
    let word = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let places =
        list.chunks_exact(4).map(move |entry| Place { number: word(entry), pid: word(&entry[2..]) & 0x1FFF });
    // Number 0 is that of the network's own table.
    places.filter(|place| place.number != 0)
}

impl Program {
    /// By the content of its map.
    fn read(map: &[u8]) -> Self {
        let mut program = Self::default();
        let Some(descriptors) = map.get(2..4).map(length) else { return program };
        let mut rest = map.get(4 + descriptors..).unwrap_or_default();
        while let &[kind, high, low, a, b, ref after @ ..] = rest {
            let (descriptors, next) = after.split_at(after.len().min(length(&[a, b])));
            let pid = u16::from_be_bytes([high & 0x1F, low]);
            match coding(kind, descriptors) {
                Ok(coding) => {
                    let language = descriptor(descriptors, LANGUAGE).and_then(|language| language.get(..3));
                    let language =
                        language.and_then(|code| String::from_utf8(code.to_ascii_lowercase()).ok());
                    let language = language.filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase()));
                    program.streams.push(Stream {
                        pid,
                        coding,
                        language: language.filter(|code| code != "und"),
                    });
                }
                Err(name) => {
                    program.has_other_pictures |= is_pictures(kind);
                    program.left_out.push(format!("{name}, which is no codec that can be served"));
                }
            }
            rest = next;
        }
        program
    }
}

/// Tags of descriptors: registration, language (2.6), AC-3 and E-AC-3 (ETSI EN 300 468, annex D), and one that another tag follows.
const REGISTRATION: u8 = 0x05;
const LANGUAGE: u8 = 0x0A;
const AC3: u8 = 0x6A;
const EAC3: u8 = 0x7A;
const EXTENSION: u8 = 0x7F;
/// What follows the latter before the channels of Opus.
const OPUS: u8 = 0x80;

/// By the type of a stream (table 2-34) and what describes it; else its name.
fn coding(kind: u8, descriptors: &[u8]) -> Result<Coding, String> {
    let registered = descriptor(descriptors, REGISTRATION).and_then(|name| name.get(..4));
    let has = |tag| descriptor(descriptors, tag).is_some();
    match (kind, registered) {
        (0x1B, _) => Ok(Coding::H264),
        (0x24, _) => Ok(Coding::H265),
        (0x0F, _) => Ok(Coding::Sound(Sort::Adts)),
        (0x03 | 0x04, _) => Ok(Coding::Sound(Sort::MpegAudio)),
        // As ATSC, Blu-ray discs and others number them.
        (0x81 | 0x84 | 0x87 | 0xA1, _) => Ok(Coding::Sound(Sort::Ac3)),
        (0x06, Some(b"AC-3" | b"EAC3")) => Ok(Coding::Sound(Sort::Ac3)),
        (0x06, Some(b"Opus")) => match descriptor(descriptors, EXTENSION) {
            Some(&[OPUS, channels @ 1..=8, ..]) => Ok(Coding::Sound(Sort::Opus { channels })),
            _ => Err("Opus in streams of its own order".to_owned()),
        },
        (0x06, Some(b"KLVA")) => Ok(Coding::Klv { has_cells: false }),
        (0x15, Some(b"KLVA") | None) => Ok(Coding::Klv { has_cells: true }),
        (0x06, _) if has(AC3) || has(EAC3) => Ok(Coding::Sound(Sort::Ac3)),
        (0x06, None) if descriptors.is_empty() || descriptors[0] == LANGUAGE => Ok(Coding::Private),
        (0x01 | 0x02, _) => Err("MPEG-1 or MPEG-2 video".to_owned()),
        (0x10, _) => Err("MPEG-4 part 2 in a transport stream".to_owned()),
        (0x11, _) => Err("AAC in LATM".to_owned()),
        (kind, Some(name)) => {
            Err(format!("a stream of type {kind:#04x} ({})", String::from_utf8_lossy(name).escape_debug()))
        }
        (kind, None) => Err(format!("a stream of type {kind:#04x}")),
    }
}

/// MPEG-1, MPEG-2, MPEG-4, layers of H.264, JPEG 2000, VVC, AVS, Dirac, VC-1.
fn is_pictures(kind: u8) -> bool {
    matches!(kind, 0x01 | 0x02 | 0x10 | 0x1E..=0x23 | 0x33 | 0x42 | 0xD1 | 0xEA)
}

fn descriptor(mut descriptors: &[u8], wanted: u8) -> Option<&[u8]> {
    while let &[tag, bytes, ref rest @ ..] = descriptors {
        let content = rest.get(..usize::from(bytes))?;
        if tag == wanted {
            return Some(content);
        }
        descriptors = &rest[content.len()..];
    }
    None
}

/// The lower 12 bits.
fn length(bytes: &[u8]) -> usize {
    usize::from(bytes[0] & 0x0F) << 8 | usize::from(bytes[1])
}

/// A table of one section.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// Of the stream, or of the program.
    number: u16,
    entries: Vec<u8>,
}

/// A section of a table, which may go over several packets.
#[derive(Default)]
struct Section {
    bytes: Vec<u8>,
}

impl Section {
    /// A table, when all of it is there. One that is not valid yet is none.
    fn take(&mut self, payload: &[u8], begins: bool, table: u8) -> Option<Table> {
        let mut payload = payload;
        if begins {
            let (&before, rest) = payload.split_first()?;
            payload = rest.get(usize::from(before)..)?;
            self.bytes.clear();
        } else if self.bytes.is_empty() {
            return None;
        }
        self.bytes.extend(payload);
        let total = 3 + length(self.bytes.get(1..3)?);
        let section = self.bytes.get(..total)?;
        let is_whole = section[0] == table && sum32(section) == 0;
        let entries = section.get(SECTION_HEADER_BYTES..total.checked_sub(CHECKSUM_BYTES)?)?;
        let (number, is_valid) = (u16::from_be_bytes([section[3], section[4]]), section[5] & 1 == 1);
        (is_whole && is_valid).then(|| Table { number, entries: entries.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_tells_streams_and_their_languages() {
        let map = [
            &[0xE1, 0x00, 0xF0, 0x02, 0x09, 0x00][..],
            &[0x1B, 0xE1, 0x00, 0xF0, 0x00],
            &[
                0x06, 0xE1, 0x01, 0xF0, 0x0C, 0x05, 0x04, b'A', b'C', b'-', b'3', 0x0A, 0x04, b'd', b'e',
                b'u', 0,
            ],
            &[0x06, 0xE1, 0x02, 0xF0, 0x03, 0x7A, 0x01, 0x00],
            &[0x02, 0xE1, 0x03, 0xF0, 0x00],
            // A length that leads out of the map.
            &[0x0F, 0xE1, 0x04, 0xF0, 0xFF, 0x0A],
        ];
        let program = Program::read(&map.concat());
        let told: Vec<_> =
            program.streams.iter().map(|one| (one.pid, one.coding, one.language.as_deref())).collect();
        let expected = [
            (0x100, Coding::H264, None),
            (0x101, Coding::Sound(Sort::Ac3), Some("deu")),
            (0x102, Coding::Sound(Sort::Ac3), None),
            (0x104, Coding::Sound(Sort::Adts), None),
        ];
        assert_eq!(told, expected);
        assert!(program.has_other_pictures && program.left_out.len() == 1, "{program:?}");
        assert_eq!(Program::read(&[]), Program::default());
    }
}
