//! What is read at once: samples that are due one after the other, wherever in the file they lie.
//!
//! A buffer has parts. It is read as one, with one call for what lies together in a file. Each part is given back when its own
//! samples have been sent, so another stream can use its memory while the rest is being sent.

use std::iter::Peekable;
use std::ops::Range;

use forebay_media::Packing;
use forebay_rtsp::range::SECOND_NS;

use crate::program::{Edges, Planned};

/// Bytes between two samples that are rather read along than left out with another read.
const GAP_BYTES_MAX: u64 = 4 << 10;
/// Bytes of all such gaps in one read.
const GAPS_BYTES_MAX: usize = 64 << 10;
/// Places that one read goes to; readv(2) takes no more than 1024.
const SLICES_MAX: usize = 1000;
/// The longest sample that is sent; nothing that anybody encodes is as long.
pub const SAMPLE_BYTES_MAX: u64 = 16 << 20;
/// The most samples of a part, and the most parts, so that many empty ones are no way to fill memory.
const SAMPLES_MAX: usize = 4096;
const PARTS_MAX: usize = 32;

/// What is filled at once.
#[derive(Debug, Default)]
pub struct Buffer {
    parts: Vec<Part>,
    reads: Vec<Read>,
    slices: Vec<Slice>,
    packed: Vec<Packed>,
    is_last: bool,
}

/// A sample that does not lie in its file as it is sent.
#[derive(Clone, Debug)]
struct Packed {
    part: usize,
    /// Its number in the part.
    sample: usize,
    packing: Packing,
}

/// Samples and the bytes that they lie in, once there is memory for those.
#[derive(Debug, Default)]
pub struct Part {
    bytes: Vec<u8>,
    samples: Vec<Held>,
    room: usize,
    ends_buffer: bool,
}

/// A sample in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it is to be sent, in nanoseconds of the program.
    pub decode_ns: i64,
    at: u32,
    bytes: u32,
    /// Its time on its clock, counted from the beginning of the program; wraps around.
    pub ticks: u32,
    /// Which track's, as the number among those of the program.
    pub sender: u8,
    /// Whether decoding can begin here.
    pub is_sync: bool,
    /// What begins and ends here.
    pub edges: Edges,
}

/// What gathering needs of memory, so that it need not be asked for each time.
#[derive(Debug, Default)]
pub struct Scratch {
    taken: Vec<Taken>,
    ends: Vec<u32>,
}

/// A sample that has been taken from the program.
#[derive(Debug)]
struct Taken {
    file: usize,
    at: Range<u64>,
    part: usize,
    /// Its number in the part.
    sample: usize,
}

impl Held {
    /// Where it lies in the part.
    pub fn at(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.bytes as usize
    }

    /// When it is presented, to the tick of its clock of `rate` ticks per second, of which the lowest 32 bits are known: near
    /// `near_ns`. For every place that it is near to, that is the same.
    pub fn presentation_ns(&self, near_ns: i64, rate: u32) -> i64 {
        let scale = |value: i64, by: u64, of: u64| {
            let scaled = (i128::from(value) * i128::from(by)).div_euclid(i128::from(of.max(1)));
            i64::try_from(scaled).unwrap_or(i64::MAX)
        };
        let near = scale(near_ns, rate.into(), SECOND_NS);
        let off = self.ticks.wrapping_sub(near as u32) as i32;
        scale(near.saturating_add(off.into()), SECOND_NS, rate.into())
    }
}

/// One read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    file: usize,
    offset: u64,
    bytes: u64,
    slices: Range<usize>,
    gaps_bytes: usize,
}

/// Where the next bytes of a read go: to a part, or to where they are not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    part: Option<usize>,
    bytes: usize,
}

/// The room of a part for so many bytes: a sixteenth more at most, so that there are few sizes, and what one part leaves does
/// for another.
pub fn room_for(bytes: usize) -> usize {
    let step = 1 << (usize::BITS - bytes.leading_zeros()).saturating_sub(5);
    bytes.next_multiple_of(step)
}

/// Leaves out the next samples as far as they have more than `bytes_max`, or more than any may have; returns how many.
pub fn skip_too_long(program: &mut Peekable<impl Iterator<Item = Planned>>, bytes_max: u64) -> u64 {
    let bytes_max = bytes_max.min(SAMPLE_BYTES_MAX);
    let mut count = 0;
    while program.next_if(|planned| planned.at.end - planned.at.start > bytes_max).is_some() {
        count += 1;
    }
    count
}

/// How many bytes the next sample has, 0 at the end.
pub fn next_bytes(program: &mut Peekable<impl Iterator<Item = Planned>>) -> u64 {
    program.peek().map_or(0, |planned| planned.at.end - planned.at.start)
}

impl Part {
    /// How many bytes of memory it has, or is to have.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Gives it memory.
    pub(crate) fn furnish(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Its memory, which it has no more then.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// In the order in which they are to be sent.
    pub fn samples(&self) -> &[Held] {
        &self.samples
    }

    /// Whether it is the last of its buffer.
    pub fn ends_buffer(&self) -> bool {
        self.ends_buffer
    }
}

impl Buffer {
    /// Takes the next samples, as many as there is room for in `bytes_max`, in parts of `part_bytes` or of one sample. It has
    /// no memory yet. Then what it takes to read them is done by [`Buffer::read`].
    pub fn gather(
        program: &mut Peekable<impl Iterator<Item = Planned>>,
        bytes_max: usize,
        part_bytes: usize,
        scratch: &mut Scratch,
    ) -> Self {
        let mut buffer = Self::default();
        scratch.taken.clear();
        // Of the parts before the last one, and in that one.
        let (mut room, mut used) = (0, 0);
        while let Some(planned) = program.peek() {
            let bytes = planned.at.end - planned.at.start;
            let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes <= bytes_max) else { break };
            let is_full = |part: &Part| used + bytes > part_bytes || part.samples.len() == SAMPLES_MAX;
            let begins = buffer.parts.last().is_none_or(is_full);
            let before = if begins { room + room_for(used) } else { room };
            let after = if begins { bytes } else { used + bytes };
            if before + room_for(after) > bytes_max || (begins && buffer.parts.len() == PARTS_MAX) {
                break;
            }
            (room, used) = (before, after);
            if begins {
                buffer.parts.push(Part::default());
            }
            let number = buffer.parts.len() - 1;
            let part = &mut buffer.parts[number];
            let (file, at, sample) = (planned.file, planned.at.clone(), part.samples.len());
            scratch.taken.push(Taken { file, at, part: number, sample });
            if planned.packing != Packing::Plain {
                buffer.packed.push(Packed { part: number, sample, packing: planned.packing.clone() });
            }
            part.room = room_for(used);
            part.samples.push(Held {
                decode_ns: planned.decode_ns,
                at: 0,
                bytes: bytes as u32,
                ticks: planned.ticks,
                sender: planned.sender,
                is_sync: planned.is_sync,
                edges: planned.edges,
            });
            program.next();
        }
        buffer.is_last = program.peek().is_none();
        if let Some(part) = buffer.parts.last_mut() {
            part.ends_buffer = true;
        }
        buffer.lay_out(scratch);
        buffer
    }

    /// Decides where in its part each sample lies, in the order of the file, and what is one read.
    fn lay_out(&mut self, scratch: &mut Scratch) {
        self.reads.clear();
        self.slices.clear();
        let Scratch { taken, ends, .. } = scratch;
        ends.clear();
        ends.resize(self.parts.len(), 0);
        taken.sort_unstable_by_key(|one| (one.file, one.at.start, one.part, one.sample));
        for Taken { file, at, part, sample } in taken {
            let bytes = at.end - at.start;
            self.parts[*part].samples[*sample].at = ends[*part];
            ends[*part] += bytes as u32;
            if bytes > 0 {
                self.add_read(*file, at.start, bytes, *part);
            }
        }
    }

    fn add_read(&mut self, file: usize, offset: u64, bytes: u64, part: usize) {
        let gap = self.reads.last().filter(|read| read.file == file).and_then(|read| {
            let gap_bytes =
                offset.checked_sub(read.offset + read.bytes).filter(|gap| *gap <= GAP_BYTES_MAX)?;
            let gaps_bytes = read.gaps_bytes + gap_bytes as usize;
            let has_room = gaps_bytes <= GAPS_BYTES_MAX && read.slices.len() + 2 <= SLICES_MAX;
            has_room.then_some(gap_bytes as usize)
        });
        if gap.is_none() {
            let slices = self.slices.len()..self.slices.len();
            self.reads.push(Read { file, offset, bytes: 0, slices, gaps_bytes: 0 });
        }
        let gap_bytes = gap.unwrap_or(0);
        let Some(read) = self.reads.last_mut() else { return };
        if gap_bytes > 0 {
            self.slices.push(Slice { part: None, bytes: gap_bytes });
        }
        match self.slices[read.slices.start..].last_mut() {
            Some(slice) if slice.part == Some(part) => slice.bytes += bytes as usize,
            _ => self.slices.push(Slice { part: Some(part), bytes: bytes as usize }),
        }
        read.slices.end = self.slices.len();
        read.gaps_bytes += gap_bytes;
        read.bytes += gap_bytes as u64 + bytes;
    }

    /// Has all reads done that it takes: which file of the program, from where on, and where to. What lies in gaps goes to `gaps`.
    pub fn read<E>(
        &mut self,
        gaps: &mut Vec<u8>,
        mut read: impl FnMut(usize, u64, Vec<&mut [u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rests: Vec<&mut [u8]> = self.parts.iter_mut().map(|part| part.bytes.as_mut_slice()).collect();
        for one in &self.reads {
            if gaps.len() < one.gaps_bytes {
                gaps.resize(GAPS_BYTES_MAX, 0);
            }
            let mut gaps = gaps.as_mut_slice();
            let mut targets = Vec::with_capacity(one.slices.len());
            for slice in &self.slices[one.slices.clone()] {
                let target = match slice.part {
                    Some(part) => rests[part].split_off_mut(..slice.bytes),
                    None => gaps.split_off_mut(..slice.bytes),
                };
                targets.extend(target);
            }
            read(one.file, one.offset, targets)?;
        }
        self.unpack();
        Ok(())
    }

    /// Puts samples into the form that is sent. They are not longer then.
    fn unpack(&mut self) {
        for Packed { part, sample, packing } in self.packed.drain(..) {
            let Part { bytes, samples, .. } = &mut self.parts[part];
            let held = &mut samples[sample];
            held.bytes = packing.unpack(&mut bytes[held.at()]) as u32;
        }
    }

    /// How many bytes of memory it has, or is to have.
    pub fn room(&self) -> usize {
        self.parts.iter().map(Part::room).sum()
    }

    pub(crate) fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }

    /// Its parts.
    pub fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// More may come after it, though there is nothing now.
    pub fn set_not_last(&mut self) {
        self.is_last = false;
    }

    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        self.is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn planned(file: usize, at: u64, bytes: u64) -> Planned {
        let packing = Packing::Plain;
        let (at, edges) = (at..at + bytes, Edges::default());
        Planned { file, sender: 0, at, decode_ns: 0, ticks: 0, packing, is_sync: true, edges }
    }

    /// The byte that a file has at a place.
    fn content(file: usize, at: u64) -> u8 {
        (at.wrapping_mul(31) ^ (at >> 8) ^ file as u64) as u8
    }

    /// With memory.
    fn gathered(
        program: &mut Peekable<impl Iterator<Item = Planned>>,
        bytes_max: usize,
        part_bytes: usize,
    ) -> Buffer {
        let mut buffer = Buffer::gather(program, bytes_max, part_bytes, &mut Scratch::default());
        buffer.parts_mut().iter_mut().for_each(|part| part.furnish(vec![0; part.room()]));
        buffer
    }

    /// Reads, and tells what was read: file, place and length.
    fn fill(buffer: &mut Buffer) -> Vec<(usize, u64, usize)> {
        let mut reads = Vec::new();
        let read = |file, offset: u64, targets: Vec<&mut [u8]>| {
            let bytes = targets.into_iter().flatten();
            let count = (offset..).zip(bytes).map(|(at, byte)| *byte = content(file, at)).count();
            reads.push((file, offset, count));
            Ok::<(), ()>(())
        };
        buffer.read(&mut Vec::new(), read).expect("it is read");
        reads
    }

    proptest! {
        #[test]
        fn every_sample_has_the_bytes_that_it_has_in_its_file(
            samples in prop::collection::vec((0..3_usize, 0..60_000_u64, 0..3_000_u64), 1..60),
            bytes_max in 3_072..40_000_usize,
            part_bytes in 0..10_000_usize,
        ) {
            let mut program = samples.iter().map(|(file, at, bytes)| planned(*file, *at, *bytes)).peekable();
            let mut seen = 0;
            while seen < samples.len() {
                let mut buffer = gathered(&mut program, bytes_max, part_bytes);
                prop_assert!(buffer.room() <= bytes_max);
                fill(&mut buffer);
                prop_assert_eq!(buffer.is_last(), program.peek().is_none());
                let parts = buffer.into_parts();
                prop_assert!(parts.iter().all(|part| !part.samples().is_empty()));
                prop_assert!(parts.iter().all(|part| part.samples().len() == 1 || part.room() <= room_for(part_bytes)));
                let ends: Vec<_> = parts.iter().map(Part::ends_buffer).collect();
                prop_assert_eq!(ends.iter().position(|ends| *ends), Some(parts.len() - 1));
                for (part, held) in parts.iter().flat_map(|part| part.samples().iter().map(move |held| (part, held))) {
                    let (file, at, bytes) = samples[seen];
                    let expected: Vec<u8> = (at..at + bytes).map(|at| content(file, at)).collect();
                    prop_assert_eq!(&part.bytes()[held.at()], expected);
                    seen += 1;
                }
            }
        }

        #[test]
        fn room_is_enough_and_hardly_more(bytes in 0..SAMPLE_BYTES_MAX as usize) {
            prop_assert!((bytes..=bytes + bytes / 16).contains(&room_for(bytes)));
            prop_assert_eq!(room_for(room_for(bytes)), room_for(bytes));
        }
    }

    #[test]
    fn what_is_packed_in_the_file_is_not_in_the_buffer() {
        let packing = Packing::Reversed { bytes: 2 };
        let samples = [planned(0, 0, 3), Planned { packing, ..planned(0, 3, 4) }];
        let mut buffer = gathered(&mut samples.into_iter().peekable(), 1 << 20, 1 << 20);
        fill(&mut buffer);
        let parts = buffer.into_parts();
        let got: Vec<_> =
            parts[0].samples().iter().flat_map(|held| &parts[0].bytes()[held.at()]).copied().collect();
        assert_eq!(got, [0, 1, 2, 4, 3, 6, 5].map(|at| content(0, at)));
    }

    #[test]
    fn samples_that_lie_together_are_one_read_whatever_parts_they_go_to() {
        // Two tracks in turns, as in most files, and one sample elsewhere.
        let samples =
            [planned(0, 5_000, 100), planned(0, 9_000, 50), planned(0, 5_100, 900), planned(0, 90_000, 1)];
        for part_bytes in [1 << 20, 1_000, 1] {
            let mut buffer = gathered(&mut samples.clone().into_iter().peekable(), 1 << 20, part_bytes);
            assert_eq!(fill(&mut buffer), [(0, 5_000, 4_050), (0, 90_000, 1)], "{part_bytes}");
        }
    }

    #[test]
    fn reads_stay_within_what_the_kernel_takes_at_once() {
        // Every second sample of a file.
        let apart = |number: u64| planned(0, number * 1_000, 500);
        let buffer = gathered(&mut (0..2_000).map(apart).peekable(), 2 << 20, 2 << 20);
        assert!(buffer.reads.iter().all(|read| read.gaps_bytes <= GAPS_BYTES_MAX), "{:?}", buffer.reads);
        assert_eq!(buffer.reads.len(), 2_000_usize.div_ceil(GAPS_BYTES_MAX / 500 + 1));
        let close = |number: u64| planned(0, number * 3, 2);
        let buffer = gathered(&mut (0..2_000).map(close).peekable(), 2 << 20, 2 << 20);
        assert!(buffer.reads.iter().all(|read| read.slices.len() <= SLICES_MAX), "{:?}", buffer.reads);
    }

    #[test]
    fn what_no_encoder_makes_or_memory_does_not_hold_is_left_out() {
        let samples = [planned(0, 0, SAMPLE_BYTES_MAX + 1), planned(0, 0, 1_001), planned(0, 0, 5)];
        let mut program = samples.into_iter().peekable();
        assert_eq!((skip_too_long(&mut program, u64::MAX), next_bytes(&mut program)), (1, 1_001));
        assert_eq!((skip_too_long(&mut program, 1_000), next_bytes(&mut program)), (1, 5));
        let buffer = gathered(&mut program, 1_000, 1_000);
        assert!(buffer.parts[0].samples.len() == 1 && buffer.is_last());
        assert_eq!((skip_too_long(&mut program, 1_000), next_bytes(&mut program)), (0, 0));
    }
}
