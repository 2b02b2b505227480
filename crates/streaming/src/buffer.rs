//! What is read at once: samples that are due one after the other, wherever in the file they lie.

use std::iter::Peekable;
use std::ops::Range;

use crate::program::Planned;

/// Bytes between two samples that are rather read along than left out with another read.
const GAP_BYTES_MAX: u64 = 4 << 10;
/// What a buffer may have more than it is to have, and less, as parts of that.
const SPARE_PART: usize = 8;
const SHORT_PART: usize = 4;
/// The longest sample that is sent; nothing that anybody encodes is as long.
pub const SAMPLE_BYTES_MAX: u64 = 16 << 20;
/// The most samples of a buffer, so that many empty ones are no way to fill memory.
const SAMPLES_MAX: usize = 4096;

/// Samples and the bytes that they lie in.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    samples: Vec<Held>,
    reads: Vec<Read>,
    is_last: bool,
}

/// A sample in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it is to be sent, in nanoseconds of the program.
    pub decode_ns: i64,
    at: u32,
    bytes: u32,
    /// Its time on its clock, counted from the beginning of the program; wraps around.
    pub ticks: u32,
    /// Which track's, as the number among those of the program.
    pub lane: u8,
    /// Whether decoding can begin here.
    pub is_sync: bool,
}

/// What gathering needs of memory, so that it need not be asked for each time.
#[derive(Debug, Default)]
pub struct Scratch {
    taken: Vec<(usize, Range<u64>)>,
    order: Vec<usize>,
}

impl Held {
    /// Where it lies in the buffer.
    pub fn at(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.bytes as usize
    }
}

/// One read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which file of the program.
    pub file: usize,
    /// Where it begins there.
    pub offset: u64,
    /// Where it goes in the buffer.
    pub to: Range<usize>,
}

impl Buffer {
    /// Makes room for so many bytes, and gives back what it has more: memory that was for fewer streams once, or for a large
    /// picture. Returns how much room there is, which is about as much: thousands of buffers that change by a little each time
    /// leave memory in pieces. Whoever does so before buffers go to other threads has all of them in memory of its own, which
    /// is in fewer pieces, too.
    pub fn fit(&mut self, bytes: usize) -> usize {
        let close = bytes - bytes / SHORT_PART..=bytes + bytes / SPARE_PART;
        if self.bytes.len() > *close.end() {
            self.bytes.truncate(bytes);
            self.bytes.shrink_to_fit();
        }
        if !close.contains(&self.bytes.len()) {
            self.make_room(bytes);
        }
        self.bytes.len()
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
    }

    /// Takes the next samples, as many as come to `bytes_max` but at least one, and makes room for them. What lies in the
    /// buffer is of no more use; what is to be read now is [`Buffer::reads`].
    pub fn gather(
        &mut self,
        program: &mut Peekable<impl Iterator<Item = Planned>>,
        bytes_max: usize,
        scratch: &mut Scratch,
    ) {
        self.samples.clear();
        self.reads.clear();
        let Scratch { taken, order } = scratch;
        taken.clear();
        let mut left = bytes_max as u64;
        while let Some(planned) = program.peek() {
            let bytes = planned.at.end - planned.at.start;
            if bytes > SAMPLE_BYTES_MAX {
                program.next();
                continue;
            }
            if !taken.is_empty() && (bytes > left || taken.len() == SAMPLES_MAX) {
                break;
            }
            left = left.saturating_sub(bytes);
            taken.push((planned.file, planned.at.clone()));
            self.samples.push(Held {
                decode_ns: planned.decode_ns,
                at: 0,
                bytes: bytes as u32,
                ticks: planned.ticks,
                lane: planned.lane,
                is_sync: planned.is_sync,
            });
            program.next();
        }
        self.is_last = program.peek().is_none();
        order.clear();
        order.extend(0..taken.len());
        order.sort_unstable_by_key(|&number| (taken[number].0, taken[number].1.start, number));
        self.lay_out(taken, order);
    }

    /// Decides where in the buffer each sample comes to lie: as in the file, without what lies far between.
    fn lay_out(&mut self, taken: &[(usize, Range<u64>)], order: &[usize]) {
        let mut end = 0;
        for &number in order {
            let (file, at) = &taken[number];
            let extends = self.reads.last().is_some_and(|read| {
                let read_end = read.offset + (read.to.end - read.to.start) as u64;
                read.file == *file && at.start <= read_end + GAP_BYTES_MAX
            });
            if !extends {
                self.reads.push(Read { file: *file, offset: at.start, to: end..end });
            }
            let Some(read) = self.reads.last_mut() else { continue };
            let start = read.to.start + (at.start - read.offset) as usize;
            read.to.end = read.to.end.max(start + (at.end - at.start) as usize);
            end = read.to.end;
            self.samples[number].at = start as u32;
        }
        self.make_room(end);
    }

    /// What has to be read.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Each read, with where it goes.
    pub fn targets(&mut self) -> impl Iterator<Item = (usize, u64, &mut [u8])> {
        let mut rest = self.bytes.as_mut_slice();
        let mut at = 0;
        self.reads.iter().map(move |read| {
            let (_, after) = std::mem::take(&mut rest).split_at_mut(read.to.start - at);
            let (target, after) = after.split_at_mut(read.to.end - read.to.start);
            (rest, at) = (after, read.to.end);
            (read.file, read.offset, target)
        })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// In the order in which they are to be sent.
    pub fn samples(&self) -> &[Held] {
        &self.samples
    }

    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// What it takes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.samples.capacity() * size_of::<Held>()
            + self.reads.capacity() * size_of::<Read>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn planned(file: usize, at: u64, bytes: u64) -> Planned {
        Planned { file, lane: 0, at: at..at + bytes, decode_ns: 0, ticks: 0, is_sync: true }
    }

    /// The byte that a file has at a place.
    fn content(file: usize, at: u64) -> u8 {
        (at.wrapping_mul(31) ^ (at >> 8) ^ file as u64) as u8
    }

    fn fill(buffer: &mut Buffer) -> usize {
        let mut bytes = 0;
        for (file, offset, target) in buffer.targets() {
            bytes += target.len();
            (offset..).zip(target).for_each(|(at, byte)| *byte = content(file, at));
        }
        bytes
    }

    proptest! {
        #[test]
        fn every_sample_has_the_bytes_that_it_has_in_its_file(
            samples in prop::collection::vec((0..3_usize, 0..60_000_u64, 0..3_000_u64), 1..60),
            bytes_max in 0..40_000_usize,
        ) {
            let mut program = samples.iter().map(|(file, at, bytes)| planned(*file, *at, *bytes)).peekable();
            let mut buffer = Buffer::default();
            let mut seen = 0;
            while seen < samples.len() {
                buffer.gather(&mut program, bytes_max, &mut Scratch::default());
                fill(&mut buffer);
                prop_assert!(!buffer.samples().is_empty());
                for held in buffer.samples() {
                    let (file, at, bytes) = samples[seen];
                    let expected: Vec<u8> = (at..at + bytes).map(|at| content(file, at)).collect();
                    prop_assert_eq!(&buffer.bytes()[held.at()], expected);
                    seen += 1;
                }
                prop_assert_eq!(buffer.is_last(), seen == samples.len());
            }
        }
    }

    #[test]
    fn samples_that_lie_together_are_one_read() {
        // Two tracks in turns, as in most files, and one sample elsewhere.
        let samples =
            [planned(0, 5_000, 100), planned(0, 9_000, 50), planned(0, 5_100, 900), planned(0, 90_000, 1)];
        let mut buffer = Buffer::default();
        buffer.gather(&mut samples.into_iter().peekable(), 1 << 20, &mut Scratch::default());
        let reads: Vec<_> = buffer.reads().iter().map(|read| (read.offset, read.to.len())).collect();
        assert_eq!(reads, [(5_000, 4_050), (90_000, 1)]);
    }

    #[test]
    fn a_buffer_gives_memory_back_after_a_large_sample() {
        let mut buffer = Buffer::default();
        buffer.gather(&mut [planned(0, 0, 1 << 20)].into_iter().peekable(), 1_000, &mut Scratch::default());
        assert!(buffer.memory_bytes() >= 1 << 20);
        buffer.fit(1_000);
        buffer.gather(&mut [planned(0, 0, 1_000)].into_iter().peekable(), 1_000, &mut Scratch::default());
        assert!(buffer.memory_bytes() < 2 << 10, "{}", buffer.memory_bytes());
    }

    #[test]
    fn room_that_is_about_right_stays_as_it_is() {
        let mut buffer = Buffer::default();
        for (wanted, room) in
            [(8_000, 8_000), (7_500, 8_000), (10_000, 8_000), (11_000, 11_000), (8_000, 8_000)]
        {
            assert_eq!(buffer.fit(wanted), room, "{wanted}");
        }
    }

    #[test]
    fn what_no_encoder_makes_is_left_out() {
        let samples = [planned(0, 0, SAMPLE_BYTES_MAX + 1), planned(0, 0, 5)];
        let mut buffer = Buffer::default();
        buffer.gather(&mut samples.into_iter().peekable(), 1_000, &mut Scratch::default());
        assert_eq!(buffer.samples().len(), 1);
    }
}
