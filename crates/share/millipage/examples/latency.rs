//! Measures what a fetch, a barrier and a lock cost two hosts, in microseconds: medians and 90 % quantiles. The first
//! host measures.
//!
//! `forebay share -n 2 --separate --transport shm -- target/release/examples/latency`

use std::{
    env,
    error::Error,
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use forebay_millipage::{Host, Options, Placement, join};
use rustix::thread::{CpuSet, sched_setaffinity};

const SAMPLES: usize = 2_000;

/// What the other host's program does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    /// Waits at a barrier.
    Idle,
    /// Computes.
    Computing,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rank = env::var("FOREBAY_SHARE_RANK").ok().and_then(|rank| rank.parse().ok()).unwrap_or(0);
    let mut processor = CpuSet::new();
    processor.set(rank % thread::available_parallelism()?.get());
    sched_setaffinity(None, &processor)?;
    let host = join(Options { bytes: 256 << 20, ..Options::default() })?;
    if host.hosts() != 2 {
        return Err("this takes two hosts: forebay share -n 2".into());
    }
    for gap in [Duration::ZERO, Duration::from_millis(1)] {
        for other in [Other::Idle, Other::Computing] {
            if host.rank() == 0 {
                println!("{:?} between, the other host {other:?}", gap);
            }
            for bytes in [128, 4_096] {
                fetch(&host, bytes, false, other, gap)?;
                fetch(&host, bytes, true, other, gap)?;
            }
            lock(&host, 0, "lock+unlock at the manager", other, gap)?;
            lock(&host, 1, "lock+unlock, remote", other, gap)?;
        }
    }
    let barriers = samples(SAMPLES, Duration::ZERO, |_| host.barrier())?;
    tell(&host, "barrier", &barriers);
    host.leave()?;
    Ok(())
}

/// Rows that the other host has alone are read, or written to.
fn fetch(host: &Host, bytes: usize, writes: bool, other: Other, gap: Duration) -> Result<(), Box<dyn Error>> {
    let count = if gap.is_zero() { SAMPLES } else { SAMPLES / 10 };
    let rows = host.rows::<u64>(count, bytes / 8, Placement::On(1))?;
    let times = beside(host, other, || {
        samples(count, gap, |index| {
            let row = rows.row(index);
            if writes {
                row.set(0, 1);
            } else {
                black_box(row.get(0));
            }
            Ok(())
        })
    })?;
    tell(host, &format!("{} fetch {bytes} B", if writes { "write" } else { "read" }), &times);
    Ok(())
}

fn lock(host: &Host, lock: u32, name: &str, other: Other, gap: Duration) -> Result<(), Box<dyn Error>> {
    let count = if gap.is_zero() { SAMPLES } else { SAMPLES / 10 };
    let times = beside(host, other, || {
        samples(count, gap, |_| {
            host.lock(lock)?;
            host.unlock(lock)
        })
    })?;
    tell(host, name, &times);
    Ok(())
}

/// Measures on the first host, while the other is busy with what it is to be busy with.
fn beside(
    host: &Host,
    other: Other,
    measure: impl Fn() -> Result<Vec<Duration>, forebay_millipage::Error>,
) -> Result<Vec<Duration>, forebay_millipage::Error> {
    let over = host.rows::<u64>(1, 1, Placement::Copies)?;
    host.barrier()?;
    let mut times = vec![];
    if host.rank() == 0 {
        thread::sleep(Duration::from_millis(20));
        times = measure()?;
        over.row(0).set(0, 1);
    } else if other == Other::Computing {
        let mut sum = 0u64;
        while over.row(0).get(0) == 0 {
            for number in 0..100_000u64 {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
    }
    host.barrier()?;
    Ok(times)
}

fn samples(
    count: usize,
    gap: Duration,
    act: impl Fn(usize) -> Result<(), forebay_millipage::Error>,
) -> Result<Vec<Duration>, forebay_millipage::Error> {
    let sample = |index| {
        if !gap.is_zero() {
            thread::sleep(gap);
        }
        let began = Instant::now();
        act(index)?;
        Ok(began.elapsed())
    };
    (0..count).map(sample).collect()
}

fn tell(host: &Host, what: &str, times: &[Duration]) {
    if host.rank() == 0 {
        let mut times = times.to_vec();
        times.sort_unstable();
        let quantile = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        println!("  {what:28} {:8.1} {:8.1}", quantile(0.5), quantile(0.9));
    }
}
