//! Throughput of memory: words at each stride of a working set, from the first to the last, again and again.
//!
//! Words are loaded and stored one by one, by an instruction each, whatever the stride. The C library fills and copies
//! blocks; plain loops work on arrays of numbers. The bytes of the words loaded, stored or copied count, those of a copy
//! once. Other bytes of a cache line do not count.
//!
//! The lines of a stream are by one processor, and by all of them at once, each with a part of the arrays. They are those of J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance
//! Computers", 1995, which counts each array that a loop names.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use forebay_vm::{Pages, Words, free_bytes};

use crate::{Case, Error, Setting, Unsuited, size};

const SMALLEST_BYTES: usize = 4 << 10;
const WORD_BYTES: usize = size_of::<u64>();
const THROUGHPUT: (&str, &str) = ("throughput", "MB/s");
/// Words that are under way together.
const LANES: usize = 8;
/// A pass over fewer words would measure little but its own beginning and end.
const WORDS_MIN: usize = 2 * LANES;
/// A sample takes so long at least, and is of whole passes.
const SAMPLE: Duration = Duration::from_millis(1);

/// What is done with the words at one stride.
struct Stride {
    words: usize,
    load: fn(&[AtomicU64]) -> u64,
    store: fn(&[AtomicU64]),
    copy: fn(&[AtomicU64], &[AtomicU64]),
}

impl Stride {
    const fn of<const WORDS: usize>() -> Self {
        Self { words: WORDS, load: load::<WORDS>, store: store::<WORDS>, copy: copy::<WORDS> }
    }
}

/// From 8 B to 4 KiB.
const STRIDES: [Stride; 10] = [
    Stride::of::<1>(),
    Stride::of::<2>(),
    Stride::of::<4>(),
    Stride::of::<8>(),
    Stride::of::<16>(),
    Stride::of::<32>(),
    Stride::of::<64>(),
    Stride::of::<128>(),
    Stride::of::<256>(),
    Stride::of::<512>(),
];

/// The sum of the words at the stride.
fn load<const STRIDE: usize>(words: &[AtomicU64]) -> u64 {
    let chunks = words.chunks_exact(LANES * STRIDE);
    let rest: u64 = chunks.remainder().iter().step_by(STRIDE).fold(0, |sum, word| sum ^ word.load(Relaxed));
    let mut sums = [0u64; LANES];
    for chunk in chunks {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(chunk[lane * STRIDE].load(Relaxed));
        }
    }
    sums.into_iter().fold(rest, u64::wrapping_add)
}

fn store<const STRIDE: usize>(words: &[AtomicU64]) {
    let chunks = words.chunks_exact(LANES * STRIDE);
    chunks.remainder().iter().step_by(STRIDE).for_each(|word| word.store(1, Relaxed));
    for chunk in chunks {
        for lane in 0..LANES {
            chunk[lane * STRIDE].store(1, Relaxed);
        }
    }
}

fn copy<const STRIDE: usize>(from: &[AtomicU64], to: &[AtomicU64]) {
    let (from, to) = (from.chunks_exact(LANES * STRIDE), to.chunks_exact(LANES * STRIDE));
    let rest = from.remainder().iter().zip(to.remainder()).step_by(STRIDE);
    rest.for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
    for (from, to) in from.zip(to) {
        for lane in 0..LANES {
            to[lane * STRIDE].store(from[lane * STRIDE].load(Relaxed), Relaxed);
        }
    }
}

/// Surfaces of loads, stores and copies, curves of blocks, and the four lines of a stream.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    check_free(setting.bytes_max.max(STREAM_ARRAYS * setting.stream_bytes))?;
    let words = Words::zeroed(setting.bytes_max, Pages::Small)?;
    words.chunks(512).for_each(|page| page[0].store(1, Relaxed));
    let mut cases = surfaces(setting, &Rc::new(words));
    cases.extend(blocks(setting));
    cases.extend(streams(setting.stream_bytes));
    Ok(cases)
}

/// What is done with all words of a working set.
type Pass = Box<dyn Fn(&[AtomicU64])>;

fn surfaces(setting: &Setting, words: &Rc<Words>) -> Vec<Case> {
    let strides = STRIDES.iter().step_by(if setting.quick { 3 } else { 1 });
    let mut cases = Vec::new();
    for bytes in working_sets(setting) {
        for stride in strides.clone() {
            let case = format!("{}/stride {}", size(bytes), size(stride.words * WORD_BYTES));
            let count = bytes / WORD_BYTES;
            let mut add = |subject, count: usize, pass: Pass| {
                let moved = count.div_ceil(stride.words);
                if moved >= WORDS_MIN {
                    let words = Rc::clone(words);
                    let mut passes = Passes::default();
                    cases.push(Case::new(subject, case.clone(), THROUGHPUT, move || {
                        Ok(passes.mb_s(moved * WORD_BYTES, &mut || pass(&words)))
                    }));
                }
            };
            let &Stride { load, store, copy, .. } = stride;
            add(
                "memory load",
                count,
                Box::new(move |words| {
                    black_box(load(&words[..count]));
                }),
            );
            add("memory store", count, Box::new(move |words| store(&words[..count])));
            add(
                "memory copy",
                count / 2,
                Box::new(move |words| {
                    copy(&words[..count / 2], &words[count / 2..count]);
                }),
            );
        }
    }
    cases
}

/// From 4 KiB to the largest, in powers of two, or of eight if quick.
pub(crate) fn working_sets(setting: &Setting) -> Vec<usize> {
    let step = if setting.quick { 8 } else { 2 };
    let sets = std::iter::successors(Some(SMALLEST_BYTES), |bytes| bytes.checked_mul(step));
    let below = sets.take_while(|bytes| *bytes < setting.bytes_max);
    below.chain([setting.bytes_max]).collect()
}

/// Numbers of the arrays that blocks and streams are of. They are there while one of their cases is.
type Arrays = Rc<RefCell<Vec<Vec<f64>>>>;

fn blocks(setting: &Setting) -> Vec<Case> {
    let arrays: Arrays = Rc::default();
    let mut cases = Vec::new();
    for bytes in working_sets(setting) {
        let half = bytes / 2 / size_of::<f64>();
        let longest = setting.bytes_max / 2 / size_of::<f64>();
        let case = |subject: &str, moved: usize, pass: fn(&mut [f64], &mut [f64])| {
            let (arrays, mut passes) = (Rc::clone(&arrays), Passes::default());
            Case::new(subject, size(bytes), THROUGHPUT, move || {
                let mut arrays = arrays.borrow_mut();
                arrays.resize_with(2, || vec![1.0; longest]);
                let [to, from] = &mut arrays[..] else { unreachable!("there are two") };
                Ok(passes.mb_s(moved * size_of::<f64>(), &mut || pass(&mut to[..half], &mut from[..half])))
            })
        };
        cases.push(case("memory block fill", 2 * half, |to, from| {
            black_box(to).fill(0.0);
            black_box(from).fill(0.0);
        }));
        cases.push(case("memory block copy", half, |to, from| black_box(to).copy_from_slice(from)));
    }
    cases
}

/// What a line of a stream does with its arrays.
type StreamPass = fn(&mut [f64], &mut [f64], &mut [f64]);

/// A line of a stream: its name, how many arrays it names, and what it does.
type StreamLine = (&'static str, usize, StreamPass);

const STREAM_LINES: [StreamLine; 4] = [
    ("copy", 2, |a, _, c| c.iter_mut().zip(&*a).for_each(|(c, a)| *c = *a)),
    ("scale", 2, |_, b, c| b.iter_mut().zip(&*c).for_each(|(b, c)| *b = 3.0 * c)),
    ("add", 3, |a, b, c| c.iter_mut().zip(&*a).zip(&*b).for_each(|((c, a), b)| *c = a + b)),
    ("triad", 3, |a, b, c| a.iter_mut().zip(&*b).zip(&*c).for_each(|((a, b), c)| *a = b + 3.0 * c)),
];
const STREAM_ARRAYS: usize = 3;

/// By one processor, and by all where there are more.
fn streams(array_bytes: usize) -> Vec<Case> {
    let count = array_bytes / size_of::<f64>();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let arrays: Arrays = Rc::default();
    let case = |(name, named, line): StreamLine, threads: usize| {
        let (arrays, mut passes) = (Rc::clone(&arrays), Passes::default());
        let case = if threads == 1 { name.to_owned() } else { format!("{name}/{threads} processors") };
        Case::new("memory stream", case, THROUGHPUT, move || {
            let mut arrays = arrays.borrow_mut();
            arrays.resize_with(STREAM_ARRAYS, || vec![1.0; count]);
            let [a, b, c] = &mut arrays[..] else { unreachable!("there are three") };
            Ok(passes.mb_s(named * count * size_of::<f64>(), &mut || match threads {
                1 => line(black_box(a), black_box(b), black_box(c)),
                _ => by_parts(threads, line, [&mut *a, &mut *b, &mut *c]),
            }))
        })
    };
    let by = |threads| STREAM_LINES.map(|line| case(line, threads));
    let by_all = (processors > 1).then(|| by(processors));
    by(1).into_iter().chain(by_all.into_iter().flatten()).collect()
}

/// A line of a stream, each thread with its part of all arrays.
fn by_parts(threads: usize, line: StreamPass, [a, b, c]: [&mut [f64]; STREAM_ARRAYS]) {
    let part = a.len().div_ceil(threads);
    thread::scope(|scope| {
        let parts = a.chunks_mut(part).zip(b.chunks_mut(part)).zip(c.chunks_mut(part));
        for ((a, b), c) in parts {
            scope.spawn(move || line(black_box(a), black_box(b), black_box(c)));
        }
    });
}

/// Half of what is free is the others'.
pub(crate) fn check_free(bytes: usize) -> Result<(), Error> {
    let free = free_bytes().unwrap_or(u64::MAX);
    if bytes as u64 > free / 2 {
        let (needed, free) = (size(bytes), forebay_quantity::bytes(free as f64));
        return Err(Unsuited::LittleMemory { needed, free }.into());
    }
    Ok(())
}

/// How many passes make a sample; none before the first, which fills the caches.
#[derive(Debug, Default)]
pub(crate) struct Passes(u32);

impl Passes {
    /// Seconds of one pass.
    pub(crate) fn seconds(&mut self, pass: &mut dyn FnMut()) -> f64 {
        if self.0 == 0 {
            pass();
            self.0 = 1;
        }
        loop {
            let begun = Instant::now();
            (0..self.0).for_each(|_| pass());
            let elapsed = begun.elapsed();
            if elapsed >= SAMPLE || self.0 >= 1 << 24 {
                return elapsed.as_secs_f64() / f64::from(self.0);
            }
            self.0 *= 2;
        }
    }

    fn mb_s(&mut self, bytes: usize, pass: &mut dyn FnMut()) -> f64 {
        bytes as f64 / 1e6 / self.seconds(pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count as u64).map(AtomicU64::new).collect()
    }

    #[test]
    fn each_stride_comes_to_its_words_and_no_others() {
        // Not a multiple of anything.
        let count: usize = 9001;
        for stride in &STRIDES {
            let at_stride = || (0..count).step_by(stride.words);
            let moved = at_stride().count();
            assert_eq!(moved, count.div_ceil(stride.words));
            let marked = words(count);
            (stride.store)(&marked);
            let changed = marked.iter().zip(0..).filter(|(word, place)| word.load(Relaxed) != *place);
            // Word 1 is 1 before as well.
            assert_eq!(changed.count(), moved - usize::from(stride.words == 1));
            let (from, to) = (
                words(count),
                words(0).into_iter().chain((0..count).map(|_| AtomicU64::new(u64::MAX))).collect::<Vec<_>>(),
            );
            (stride.copy)(&from, &to);
            assert!(at_stride().all(|place| to[place].load(Relaxed) == place as u64));
            assert_eq!(to.iter().filter(|word| word.load(Relaxed) != u64::MAX).count(), moved);
            let one_at_each: Vec<AtomicU64> = (0..8 * 4096)
                .map(|place: usize| AtomicU64::new(u64::from(place.is_multiple_of(stride.words))))
                .collect();
            assert_eq!((stride.load)(&one_at_each), one_at_each.len().div_ceil(stride.words) as u64);
        }
    }

    #[test]
    fn all_parts_of_a_stream_are_worked_on_by_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let [mut a, mut b, mut c] = [vec![1.0; 1000], vec![2.0; 1000], vec![0.0; 1000]];
            for (_, _, line) in STREAM_LINES {
                by_parts(threads, line, [&mut a, &mut b, &mut c]);
            }
            // c = a = 1, b = 3c = 3, c = a + b = 4, a = b + 3c = 15.
            assert_eq!((a, b, c), (vec![15.0; 1000], vec![3.0; 1000], vec![4.0; 1000]), "{threads}");
        }
    }

    #[test]
    fn working_sets_end_at_the_largest() {
        let sets = |quick, bytes_max| {
            working_sets(&Setting { quick, folder: "/".into(), bytes_max, stream_bytes: bytes_max })
        };
        assert_eq!(sets(false, 20 << 10), [4 << 10, 8 << 10, 16 << 10, 20 << 10]);
        assert_eq!(sets(true, 256 << 10), [4 << 10, 32 << 10, 256 << 10]);
    }

    #[test]
    fn a_working_set_beyond_memory_is_refused_with_a_remedy() {
        let refusal = check_free(1 << 45).unwrap_err().to_string();
        assert!(refusal.contains("33554432 MiB") && refusal.contains("--quick"), "{refusal}");
    }
}
