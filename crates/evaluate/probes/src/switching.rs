//! Switches between two threads on one processor. The threads pass a byte to and fro through pipes, and each walks over a
//! working set of its own each time.
//!
//! The cost of a switch is the time of a hop, less the time of the same byte and the same working set in one thread. The
//! method is that of L. McVoy and C. Staelin, "lmbench: Portable Tools for Performance Analysis", USENIX 1996, which
//! switches processes. Threads share their address translations, so the cost of losing those is not included.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use forebay_vm::{Pages, Words};
use rustix::io::{read, write};
use rustix::pipe::pipe;

use crate::machine::stay_on_one_processor;
use crate::{Case, Error, Setting, size};

const SETS_BYTES: [usize; 7] = [64, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];
/// A sample takes about so long.
const SAMPLE: Duration = Duration::from_millis(20);
/// One word of each line.
const STRIDE: usize = 8;

/// A round trip through two pipes, and the cost of a switch by working set.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    let sets = SETS_BYTES.iter().step_by(if setting.quick { 3 } else { 1 });
    let costs = sets.map(|&bytes| {
        Case::new("context switch", size(bytes), ("cost", "us"), move || {
            let (hop_s, alone_s) = measure(bytes)?;
            // Nothing takes less than no time, however the two scatter.
            Ok(((hop_s - alone_s) * 1e6).max(0.0))
        })
    });
    let trip =
        Case::new("pipe", "two threads on one processor", ("round_trip", "us"), || Ok(measure(64)?.0 * 2e6));
    Ok(std::iter::once(trip).chain(costs).collect())
}

/// Seconds of a hop between the threads, and of the same without another thread.
fn measure(bytes: usize) -> Result<(f64, f64), Error> {
    let refused = |source: rustix::io::Errno| Error::refused("pass a byte through a pipe")(source);
    let (mine, to_me) = pipe().map_err(refused)?;
    let (others, to_other) = pipe().map_err(refused)?;
    // Threads of their own, since they stay on a processor. When one ends, its pipes break, and with that the other ends.
    let other = thread::spawn(move || -> Result<(), Error> {
        stay_on_one_processor()?;
        let set = set_of(bytes)?;
        while take(&others).map_err(refused)? {
            come_to(&set, bytes);
            write(&to_me, &[1]).map_err(refused)?;
        }
        Ok(())
    });
    let measuring = thread::spawn(move || -> Result<(f64, f64), Error> {
        stay_on_one_processor()?;
        let set = set_of(bytes)?;
        let trip_s = repeat(&mut || {
            write(&to_other, &[1])?;
            let _ = take(&mine)?;
            come_to(&set, bytes);
            Ok(())
        });
        drop(to_other);
        let (own, to_own) = pipe().map_err(refused)?;
        let alone_s = repeat(&mut || {
            write(&to_own, &[1])?;
            let _ = take(&own)?;
            come_to(&set, bytes);
            Ok(())
        });
        Ok((trip_s.map_err(refused)? / 2.0, alone_s.map_err(refused)?))
    });
    let measured = measuring.join().expect("a thread that measures does not panic");
    other.join().expect("a thread that answers does not panic")?;
    measured
}

/// Takes a byte; there is none where the other side is closed.
fn take(from: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(read(from, &mut [0u8; 1])? == 1)
}

/// Memory that is there: what was only read of it would be one page of zeros, however much it is.
fn set_of(bytes: usize) -> Result<Words, Error> {
    let set = Words::zeroed(bytes, Pages::Small)?;
    set[..bytes / size_of::<u64>()].iter().for_each(|word| word.store(1, Relaxed));
    Ok(set)
}

fn come_to(set: &[AtomicU64], bytes: usize) {
    let words = set[..bytes / size_of::<u64>()].iter().step_by(STRIDE);
    black_box(words.fold(0, |sum: u64, word| sum.wrapping_add(word.load(Relaxed))));
}

/// Seconds of one `step`, of as many as there is time for after the first few.
fn repeat(step: &mut dyn FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<f64> {
    for _ in 0..16 {
        step()?;
    }
    let (begun, mut done) = (Instant::now(), 0u32);
    while begun.elapsed() < SAMPLE / 2 {
        for _ in 0..64 {
            step()?;
        }
        done += 64;
    }
    Ok(begun.elapsed().as_secs_f64() / f64::from(done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_takes_longer_than_the_same_alone_and_a_working_set_longer_than_a_line() {
        let (hop_s, alone_s) = measure(64).unwrap();
        assert!(hop_s > 0.0 && alone_s > 0.0);
        let (_, with_set_s) = measure(2 << 20).unwrap();
        assert!(with_set_s > alone_s, "{with_set_s} {alone_s}");
    }
}
