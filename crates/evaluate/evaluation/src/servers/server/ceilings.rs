//! What the caches and the memory of this machine take and deliver: measured in a second, or as `forebay evaluate host` has
//! measured it at length.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use crate::experiments::Ceilings;
use forebay_counters::simulation::Caches;
use forebay_results::{Report, Row};

use crate::Error;
use crate::harness::random::Random;

const LINE_BYTES: usize = 64;
/// More loads than this tell nothing more.
const LOADS: usize = 1 << 20;
/// What one thread reads to see what memory delivers.
const READ_BYTES: usize = 128 << 20;
/// The largest working set that is tried.
const WORKING_SET_MAX: usize = 512 << 20;

/// A working set that a later cache than the first one holds, and one that no cache holds, in bytes.
fn working_sets(last_cache_bytes: usize) -> (usize, usize) {
    (last_cache_bytes / 8, (4 * last_cache_bytes).clamp(128 << 20, WORKING_SET_MAX))
}

fn last_cache_bytes() -> usize {
    Caches::of_this_machine().map_or(32 << 20, |caches| caches.last.bytes as usize)
}

/// Measures.
pub(super) fn measured() -> Ceilings {
    let (cached, uncached) = working_sets(last_cache_bytes());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Ceilings {
        cache_s: load_s(cached),
        memory_s: load_s(uncached),
        memory_bytes_per_s: thread::scope(|scope| {
            let reading: Vec<_> = (0..processors).map(|_| scope.spawn(read_bytes_per_s)).collect();
            reading.into_iter().map(|thread| thread.join().expect("reading does not panic")).sum()
        }),
    }
}

/// Time of one of a chain of loads that goes to all lines of a working set in no order (Sattolo's cycle).
fn load_s(bytes: usize) -> f64 {
    let words = LINE_BYTES / size_of::<u32>();
    let lines = bytes / LINE_BYTES;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = Random::new(bytes as u64);
    (1..lines).rev().for_each(|line| order.swap(line, random.below(line)));
    let mut next = vec![0u32; lines * words];
    (0..lines).for_each(|line| next[line * words] = order[line] * words as u32);
    let mut place = 0;
    let mut walk = |loads| (0..loads).for_each(|_| place = next[place] as usize);
    walk(lines.min(LOADS));
    let begun = Instant::now();
    walk(LOADS);
    let elapsed_s = begun.elapsed().as_secs_f64();
    black_box(place);
    elapsed_s / LOADS as f64
}

fn read_bytes_per_s() -> f64 {
    let words = vec![1u64; READ_BYTES / size_of::<u64>()];
    let begun = Instant::now();
    black_box(black_box(&words).iter().sum::<u64>());
    READ_BYTES as f64 / begun.elapsed().as_secs_f64()
}

/// What those say.
pub(super) fn of(report: &Report) -> Result<Ceilings, Error> {
    from_rows(&report.rows, last_cache_bytes()).ok_or_else(|| {
        Error::Load(
            "the results of forebay evaluate host lack latency or memory load: measure these too".into(),
        )
    })
}

fn from_rows(rows: &[Row], last_cache_bytes: usize) -> Option<Ceilings> {
    let (cached, uncached) = working_sets(last_cache_bytes);
    let of = |subject: &'static str, unit: &'static str| {
        let rows = rows.iter().filter(move |row| row.subject == subject && row.unit == unit);
        rows.filter_map(|row| Some((bytes_of(row.case.split('/').next()?)?, row.value)))
    };
    let nearest = |bytes: usize| {
        let apart = |of: f64| (of / bytes as f64).ln().abs();
        of("latency", "ns")
            .min_by(|one, other| apart(one.0).total_cmp(&apart(other.0)))
            .map(|(_, ns)| ns / 1e9)
    };
    let largest = of("memory load", "MB/s").map(|(bytes, _)| bytes).fold(0.0, f64::max);
    let loads = of("memory load", "MB/s").filter(|(bytes, _)| *bytes == largest);
    let memory_bytes_per_s = loads.map(|(_, megabytes)| megabytes * 1e6).reduce(f64::max)?;
    Some(Ceilings { cache_s: nearest(cached)?, memory_s: nearest(uncached)?, memory_bytes_per_s })
}

/// Of `64 KiB`, for instance.
fn bytes_of(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let shift = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit)?;
    Some(number.parse::<f64>().ok()? * f64::from(1u32 << (10 * shift)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_the_host_gives_the_ceilings() {
        let row = |subject, case, metric, unit, value| Row::once(subject, case, metric, unit, value);
        let rows = [
            row("latency", "32 KiB/huge pages", "latency", "ns", 1.0),
            row("latency", "8 MiB/huge pages", "latency", "ns", 20.0),
            row("latency", "256 MiB/huge pages", "latency", "ns", 100.0),
            row("memory load", "64 KiB/stride 8 B", "throughput", "MB/s", 90_000.0),
            row("memory load", "256 MiB/stride 8 B", "throughput", "MB/s", 15_000.0),
            row("memory load", "256 MiB/stride 4 KiB", "throughput", "MB/s", 1_000.0),
        ];
        let ceilings = from_rows(&rows, 64 << 20).unwrap();
        assert_eq!(ceilings, Ceilings { cache_s: 20e-9, memory_s: 100e-9, memory_bytes_per_s: 15e9 });
        assert_eq!(from_rows(&rows[..3], 64 << 20), None);
    }

    #[test]
    fn loads_from_memory_take_longer_than_from_the_first_cache() {
        assert!(load_s(16 << 10) < load_s(256 << 20));
    }
}
