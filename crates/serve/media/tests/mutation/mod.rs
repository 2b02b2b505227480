//! Changes of media files that know how a file is built: where its boxes, elements, packets, units and frames begin, and
//! where they tell their size.

use std::ops::Range;

use memchr::memmem;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Of an input. The longest one to begin with has less.
const INPUT_BYTES_MAX: usize = 300_000;

/// Of a block, what is changed most: tables of few entries, headers, parameter sets.
const HEAD_BYTES: usize = 48;

/// A kind of media file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mp4,
    Matroska,
    Transport,
    H264,
    H265,
    Adts,
    MpegAudio,
    Avi,
    Wav,
    Ogg,
    Flv,
}

/// A part of a file: a box, an element, a packet, a NAL unit, a frame.
#[derive(Clone, Debug)]
struct Block {
    start: usize,
    /// Where it tells how long it is, if it does.
    size: Option<Range<usize>>,
    content: usize,
    end: usize,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Mp4,
        Self::Matroska,
        Self::Transport,
        Self::H264,
        Self::H265,
        Self::Adts,
        Self::MpegAudio,
        Self::Avi,
        Self::Wav,
        Self::Ogg,
        Self::Flv,
    ];

    pub fn has(self, name: &str) -> bool {
        let endings: &[&str] = match self {
            Self::Mp4 => &["mp4", "mov"],
            Self::Matroska => &["mkv"],
            Self::Transport => &["ts"],
            Self::H264 => &["h264"],
            Self::H265 => &["h265"],
            Self::Adts => &["aac"],
            Self::MpegAudio => &["mp2", "mp3"],
            Self::Avi => &["avi"],
            Self::Wav => &["wav"],
            Self::Ogg => &["ogg"],
            Self::Flv => &["flv"],
        };
        name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
    }

    /// The blocks of a file, outer ones before inner ones.
    fn blocks(self, file: &[u8]) -> Vec<Block> {
        const PACKET_BYTES: usize = 188;
        let mut blocks = Vec::new();
        match self {
            Self::Mp4 => each_within(file, boxes, &mut blocks),
            Self::Matroska => each_within(file, elements, &mut blocks),
            Self::Transport => between((0..file.len()).step_by(PACKET_BYTES), 4, file.len(), &mut blocks),
            Self::H264 | Self::H265 => {
                between(memmem::find_iter(file, &[0, 0, 1]), 3, file.len(), &mut blocks);
            }
            Self::Adts | Self::MpegAudio => {
                let least = if self == Self::Adts { 0xF0 } else { 0xE0 };
                let marks = file.windows(2).enumerate().filter(|(_, two)| two[0] == 0xFF && two[1] >= least);
                between(marks.map(|(at, _)| at), 0, file.len(), &mut blocks);
            }
            Self::Avi | Self::Wav => chunks(file, &mut blocks),
            Self::Ogg => between(memmem::find_iter(file, b"OggS"), 27, file.len(), &mut blocks),
            Self::Flv => tags(file, &mut blocks),
        }
        blocks
    }

    fn write_size(self, file: &mut [u8], at: Range<usize>, size: u64) {
        let mark = 1 << (7 * at.len());
        let size = match self {
            Self::Matroska => size & (mark - 1) | mark,
            Self::Avi | Self::Wav => (size as u32).swap_bytes().into(),
            _ => size,
        };
        write_number(file, at, size);
    }
}

/// What `list` finds in a file, and in what it finds. They may lie in each other any number of times.
fn each_within<L>(file: &[u8], list: L, blocks: &mut Vec<Block>)
where
    L: Fn(&[u8], Range<usize>, &mut Vec<Block>) -> Vec<Range<usize>>,
{
    let mut inner = list(file, 0..file.len(), blocks);
    while let Some(within) = inner.pop() {
        inner.extend(list(file, within, blocks));
    }
}

fn boxes(file: &[u8], within: Range<usize>, blocks: &mut Vec<Block>) -> Vec<Range<usize>> {
    let mut inner = Vec::new();
    let mut at = within.start;
    while let Some(header) = file[..within.end].get(at..at + 8) {
        let bytes = read_number(&header[..4]) as usize;
        let is_name = header[4..].iter().all(|byte| (b' '..=b'z').contains(byte));
        if !is_name || !(8..=within.end - at).contains(&bytes) {
            break;
        }
        let block = Block { start: at, size: Some(at..at + 4), content: at + 8, end: at + bytes };
        blocks.push(block.clone());
        // Inner boxes begin at once, or after the fields of descriptions, of sound or of pictures.
        inner.extend([0, 8, 28, 78].map(|before| (block.content + before).min(block.end)..block.end));
        at = block.end;
    }
    inner
}

fn elements(file: &[u8], within: Range<usize>, blocks: &mut Vec<Block>) -> Vec<Range<usize>> {
    let mut inner = Vec::new();
    // EBML, segment, information, tracks, cluster, and what has several fields in these.
    const OUTER: [u64; 9] =
        [0x1A45_DFA3, 0x1853_8067, 0x1549_A966, 0x1654_AE6B, 0x1F43_B675, 0xA0, 0xAE, 0xE0, 0xE1];
    let length = |at: usize| file[..within.end].get(at).map(|byte| byte.leading_zeros() as usize + 1);
    let mut at = within.start;
    while let Some(id_bytes) = length(at)
        && let Some(size_bytes) = length(at + id_bytes).filter(|bytes| *bytes <= 8)
        && let content = at + id_bytes + size_bytes
        && content <= within.end
    {
        let size_at = at + id_bytes..content;
        let mask = (1 << (7 * size_bytes)) - 1;
        let size = read_number(&file[size_at.clone()]) & mask;
        let end =
            if size == mask { within.end } else { within.end.min(content.saturating_add(size as usize)) };
        blocks.push(Block { start: at, size: Some(size_at), content, end });
        if OUTER.contains(&read_number(&file[at..at + id_bytes])) {
            inner.push(content..end);
        }
        at = end;
    }
    inner
}

/// Lists and the chunks in them, one after the other.
fn chunks(file: &[u8], blocks: &mut Vec<Block>) {
    let mut at = 0;
    while let Some([header @ .., a, b, c, d]) = file.get(at..at + 8) {
        let size = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let (is_list, end) = (matches!(header, b"RIFF" | b"LIST"), file.len().min(at + 8 + size));
        let content = if is_list { end.min(at + 12) } else { at + 8 };
        blocks.push(Block { start: at, size: Some(at + 4..at + 8), content, end });
        at = if is_list { at + 12 } else { end + size % 2 };
    }
}

fn tags(file: &[u8], blocks: &mut Vec<Block>) {
    let mut at = 13;
    while let Some(size) = file.get(at + 1..at + 4) {
        let end = file.len().min(at + 15 + read_number(size) as usize);
        blocks.push(Block { start: at, size: Some(at + 1..at + 4), content: end.min(at + 11), end });
        at = end;
    }
}

/// What is before the first of `marks`, and blocks that begin at each of them and end at the next.
fn between(marks: impl Iterator<Item = usize>, header_bytes: usize, end: usize, blocks: &mut Vec<Block>) {
    let mut marks: Vec<usize> = [0].into_iter().chain(marks).chain([end]).collect();
    marks.dedup();
    blocks.extend(marks.windows(2).map(|two| Block {
        start: two[0],
        size: None,
        content: two[1].min(two[0] + header_bytes),
        end: two[1],
    }));
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn write_number(file: &mut [u8], at: Range<usize>, number: u64) {
    let bytes = at.len();
    file[at].copy_from_slice(&number.to_be_bytes()[8 - bytes..]);
}

/// Random choices that a seed makes again.
pub struct Choices(TestRng);

impl Choices {
    pub fn new(seed: u64) -> Self {
        let bytes = [seed.to_le_bytes(), [0xF0; 8]].concat();
        Self(TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn is_one_of(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Small ones as often as large ones.
    fn length(&mut self, max: usize) -> usize {
        let bits = self.below(usize::BITS as usize - max.leading_zeros() as usize + 1);
        self.below(1 << bits).min(max)
    }

    /// A place in the file: mostly at the beginning of a block, where it says what it is.
    fn place(&mut self, file: &[u8], blocks: &[Block]) -> usize {
        let place = if blocks.is_empty() || self.is_one_of(8) {
            self.below(file.len())
        } else {
            let block = &blocks[self.below(blocks.len())];
            let from = if self.is_one_of(4) { block.start } else { block.content };
            let bytes = block.end - from;
            from + if self.is_one_of(2) { self.length(bytes) } else { self.below(bytes.min(HEAD_BYTES) + 1) }
        };
        place.min(file.len() - 1)
    }

    /// What may be the limit of something, for a field of the file with what it has and what comes after it.
    fn number(&mut self, file: &[u8], at: &Range<usize>) -> u64 {
        let max = u64::MAX >> (64 - 8 * at.len());
        let (old, file_bytes) = (read_number(&file[at.clone()]), file.len() as u64);
        let next = file.get(at.end..at.end + at.len()).map_or(0, read_number);
        let number = match self.below(20) {
            small @ 0..4 => small as u64,
            4 => max,
            5 => max - 1,
            6 => max >> 1,
            7 => (max >> 1) + 1,
            8 => file_bytes,
            9 => file_bytes - at.start as u64,
            10 => file_bytes.wrapping_sub(old),
            11 => old.wrapping_add(1),
            12 => old.wrapping_sub(1),
            13 => old << 1,
            14 => old.wrapping_add(next),
            15 => next,
            16 => 1 << self.below(8 * at.len()),
            17 => (1 << self.below(8 * at.len())) - 1,
            18 => old.wrapping_neg(),
            _ => self.0.random(),
        };
        number & max
    }

    /// One of the files of a kind, with one change or some.
    pub fn changed(&mut self, kind: Kind, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut file = corpus[self.below(corpus.len())].clone();
        for _ in 0..1 + self.length(8) {
            let other = &corpus[self.below(corpus.len())];
            self.mutate(kind, &mut file, other);
            file.truncate(INPUT_BYTES_MAX);
        }
        file
    }

    /// One change of many sorts.
    fn mutate(&mut self, kind: Kind, file: &mut Vec<u8>, other: &[u8]) {
        if file.is_empty() {
            file.extend(other);
        }
        let blocks = kind.blocks(file);
        let at = self.place(file, &blocks);
        match self.below(16) {
            0..3 => file[at] ^= 1 << self.below(8),
            3..7 => {
                let bytes = [1, 2, 4, 8][self.below(4)];
                let at = at..file.len().min(at + bytes);
                let number = self.number(file, &at);
                write_number(file, at, number);
            }
            7 => {
                let end = file.len().min(at + 1 + self.length(64));
                self.0.fill(&mut file[at..end]);
            }
            8 if self.is_one_of(4) => file.truncate(at),
            8 => {
                let end = at + self.length(file.len() - at);
                self.replace(kind, file, &blocks, at..end, &[]);
            }
            9 => {
                let end = at + self.length(file.len() - at);
                let again = self.again(&file[at..end]);
                self.replace(kind, file, &blocks, end..end, &again);
            }
            10 => {
                let from = self.place(other, &kind.blocks(other));
                file.truncate(at);
                file.extend(&other[from..]);
            }
            11..16 if !blocks.is_empty() => self.mutate_block(kind, file, &blocks, other),
            _ => {}
        }
    }

    /// Puts a block elsewhere, or another one in its place, or changes how long it says it is.
    fn mutate_block(&mut self, kind: Kind, file: &mut Vec<u8>, blocks: &[Block], other: &[u8]) {
        let block = blocks[self.below(blocks.len())].clone();
        let second = blocks[self.below(blocks.len())].clone();
        let (span, second_span) = (block.start..block.end, second.start..second.end);
        let content = file[span.clone()].to_vec();
        match self.below(8) {
            0 => self.replace(kind, file, blocks, span, &[]),
            1 => {
                let again = self.again(&content);
                self.replace(kind, file, blocks, block.end..block.end, &again);
            }
            2 => self.replace(kind, file, blocks, second.start..second.start, &content),
            // The later one first, so that the other stays where it is.
            3 if span.end <= second_span.start || second_span.end <= span.start => {
                let second_content = file[second_span.clone()].to_vec();
                let mut both = [(span, second_content), (second_span, content)];
                both.sort_by_key(|(span, _)| span.start);
                let [(first, before), (last, after)] = both;
                self.replace(kind, file, blocks, last, &after);
                self.replace(kind, file, blocks, first, &before);
            }
            4 => {
                let others = kind.blocks(other);
                if let Some(one) = others.get(self.below(others.len().max(1))) {
                    self.replace(kind, file, blocks, span, &other[one.start..one.end]);
                }
            }
            // Another's header: a name, or a type.
            5 => {
                let header = file[second.start..second.content].to_vec();
                self.replace(kind, file, blocks, block.start..block.content, &header);
            }
            6 if kind == Kind::Mp4 => {
                let size = (block.end - block.start) as u64 + 8;
                let size =
                    if self.is_one_of(2) { size } else { self.number(file, &(block.start..block.content)) };
                write_number(file, block.start..block.start + 4, 1);
                self.replace(kind, file, blocks, block.content..block.content, &size.to_be_bytes());
            }
            _ => {
                if let Some(at) = block.size {
                    let size = self.number(file, &at);
                    kind.write_size(file, at, size);
                }
            }
        }
    }

    /// The same a few times, or very often.
    fn again(&mut self, bytes: &[u8]) -> Vec<u8> {
        let most = INPUT_BYTES_MAX / bytes.len().max(1);
        bytes.repeat(1 + self.length(most.max(1)))
    }

    /// Puts other bytes in the place of some, and mostly tells the blocks around them.
    fn replace(&mut self, kind: Kind, file: &mut Vec<u8>, blocks: &[Block], span: Range<usize>, with: &[u8]) {
        if !self.is_one_of(4) {
            let around = blocks.iter().filter(|one| one.content <= span.start && span.end <= one.end);
            for block in around {
                if let Some(at) = block.size.clone() {
                    let size = read_number(&file[at.clone()]).wrapping_add(with.len() as u64);
                    kind.write_size(file, at, size.wrapping_sub(span.len() as u64));
                }
            }
        }
        file.splice(span, with.iter().copied());
    }
}
