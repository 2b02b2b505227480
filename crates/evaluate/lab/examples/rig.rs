//! Measures the rig itself: how long one random read takes, and how many a second there are with more in flight.
//!
//! `cargo run --release -p forebay-lab --example rig -- [PROFILE...]` (root; all slow profiles by default)
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_lab::{Profile, SlowDisk, cleanup};

const DISK_BYTES: u64 = 1 << 30;
const FILE_BYTES: u64 = 256 << 20;
const READ_BYTES: u64 = 4096;
const SECONDS_EACH: f64 = 2.0;
const LONE_READS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    cleanup::enter_if_asked();
    let named = std::env::args().skip(1).map(|name| name.parse()).collect::<Result<Vec<Profile>, _>>()?;
    let profiles = if named.is_empty() { Profile::ALL[1..].to_vec() } else { named };
    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11}",
        "profile", "in flight", "reads/s", "median ms", "p99 ms", "rig CPU %", "machine %", "CPU us/read"
    );
    for profile in profiles {
        measure(profile)?;
    }
    Ok(())
}

fn measure(profile: Profile) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let disk = SlowDisk::start(profile, DISK_BYTES)?;
    let started = start.elapsed();
    let path = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&path, vec![0x5a; FILE_BYTES as usize]))??;
    let filled = start.elapsed() - started;
    disk.make_cold()?;
    let made_cold = start.elapsed() - started - filled;
    println!(
        "{profile:<10} started in {:.0} ms, {} MiB written in {:.0} ms, made cold in {:.0} ms",
        1e3 * started.as_secs_f64(),
        FILE_BYTES >> 20,
        1e3 * filled.as_secs_f64(),
        1e3 * made_cold.as_secs_f64()
    );
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path)?;
    for in_flight in [1, 4, 16, 32, 128] {
        let rig_before = cpu_of(disk.cleanup_pid())?;
        let machine_before = busy_of_machine()?;
        let start = Instant::now();
        let mut latencies =
            if in_flight == 1 { lone_reads(&file)? } else { parallel_reads(&file, in_flight)? };
        let elapsed = start.elapsed();
        let share = |busy: Duration| 100.0 * busy.as_secs_f64() / elapsed.as_secs_f64();
        let rig = cpu_of(disk.cleanup_pid())? - rig_before;
        let machine = busy_of_machine()? - machine_before;
        latencies.sort();
        println!(
            "{:<10} {:>9} {:>9.0} {:>9.3} {:>9.3} {:>11.1} {:>11.1} {:>11.1}",
            profile,
            in_flight,
            latencies.len() as f64 / elapsed.as_secs_f64(),
            1e3 * latencies[latencies.len() / 2].as_secs_f64(),
            1e3 * latencies[latencies.len() * 99 / 100].as_secs_f64(),
            share(rig),
            share(machine),
            1e6 * rig.as_secs_f64() / latencies.len() as f64,
        );
    }
    drop(file);
    let most = disk.device().map(|device| device.stats()).transpose()?.unwrap_or_default().in_flight_max;
    let start = Instant::now();
    drop(disk);
    println!(
        "{profile:<10} most requests at once: {most}; removed in {:.0} ms",
        1e3 * start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn lone_reads(file: &File) -> std::io::Result<Vec<Duration>> {
    let mut reader = Reader::new(1);
    (0..LONE_READS).map(|_| reader.read(file)).collect()
}

fn parallel_reads(file: &File, in_flight: u64) -> std::io::Result<Vec<Duration>> {
    let end = Instant::now() + Duration::from_secs_f64(SECONDS_EACH);
    let seeds = AtomicU64::new(1);
    let worker = || {
        let mut reader = Reader::new(seeds.fetch_add(1, Ordering::Relaxed));
        let mut latencies = Vec::new();
        while Instant::now() < end {
            latencies.push(reader.read(file)?);
        }
        Ok(latencies)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..in_flight).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            let latencies: std::io::Result<Vec<Duration>> =
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(latencies?);
        }
        Ok(all)
    })
}

/// Reads blocks at random places.
struct Reader {
    random: fastrand::Rng,
    buffer: Vec<u8>,
    aligned_at: usize,
}

impl Reader {
    fn new(seed: u64) -> Self {
        let buffer = vec![0; 2 * READ_BYTES as usize];
        let aligned_at = buffer.as_ptr().align_offset(READ_BYTES as usize);
        Self { random: fastrand::Rng::with_seed(seed), buffer, aligned_at }
    }

    fn read(&mut self, file: &File) -> std::io::Result<Duration> {
        let offset = self.random.u64(..FILE_BYTES / READ_BYTES) * READ_BYTES;
        let block = &mut self.buffer[self.aligned_at..][..READ_BYTES as usize];
        let start = Instant::now();
        file.read_exact_at(block, offset)?;
        Ok(start.elapsed())
    }
}

/// CPU time of a process, from /proc/PID/schedstat of its threads (exact, where /proc/PID/stat counts ticks).
fn cpu_of(pid: u32) -> std::io::Result<Duration> {
    let mut total = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let ns = text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
        total += Duration::from_nanos(ns);
    }
    Ok(total)
}

/// CPU time of everything on the machine, of all CPUs together.
fn busy_of_machine() -> std::io::Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let ticks: u64 =
        fields.iter().take(7).enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, n)| n).sum();
    Ok(Duration::from_millis(10 * ticks))
}
