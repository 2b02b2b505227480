//! Processes that share at random (the example `soak`) under disturbance: busy processors, migration between
//! processors, low priority, and short stops.
//!
//! `FOREBAY_COMPAT_LONG=1` runs for fifteen minutes: with one memory, and with messages over shared memory and over TCP.

mod chance;
mod support;

use std::{
    fs,
    hint::spin_loop,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use forebay_launch::environment::{MACHINE, SEPARATE, TRANSPORT};
use forebay_testkit::long;
use rustix::{
    process::{Pid, Signal, kill_process, setpriority_process},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use support::Job;

const HOSTS: u16 = 3;
/// What a host may have in the end beyond what it had early on.
const GROWTH_KIB: u64 = 4 << 10;
const GROWTH_FILES: u64 = 4;

#[test]
fn hosts_under_random_pressure_find_what_they_should() {
    let seconds = if long() { 300 } else { 4 };
    for (transport, separate, machines, seed) in
        [("auto", "0", 1, 3), ("shm", "1", 1, 1), ("tcp", "1", 1, 2), ("shm", "0", 2, 4)]
    {
        let seed = if long() { seed + u64::from(std::process::id()) } else { seed };
        eprintln!("{transport}, seed {seed}");
        let command = || {
            let mut command = Command::new(support::example("soak"));
            command.args([seconds.to_string(), seed.to_string()]);
            command.env(TRANSPORT, transport).env(SEPARATE, separate);
            command
        };
        let mut job = Job::of((0..HOSTS).map(|_| command()).collect(), |rank, command| {
            command.env(MACHINE, (rank % machines).to_string());
        });
        press(&job, Duration::from_secs(seconds), chance::of_thread(seed, 0));
        for host in 0..usize::from(HOSTS) {
            let (status, stdout, stderr) = job.end(host);
            assert_eq!((status, &*stderr), (Some(0), ""), "{transport} {host}: {stdout}");
            let told: Vec<u64> = stdout.split(' ').map(|number| number.parse().unwrap()).collect();
            let [meetings, early_kib, early_files, kib, files] = told[..] else { panic!("{stdout}") };
            assert!(meetings > seconds / 4, "{transport} {host}: {stdout}");
            assert!(
                kib <= early_kib + GROWTH_KIB && files <= early_files + GROWTH_FILES,
                "{transport} {host}: {stdout}"
            );
            eprintln!("host {host}: met {meetings} times, {early_kib} KiB early on, {kib} in the end");
        }
    }
}

/// Makes it hard for the hosts to run.
fn press(job: &Job, time: Duration, mut dice: Rng) {
    let pids: Vec<Pid> = job.0.iter().map(|host| Pid::from_child(&host.child)).collect();
    let all = sched_getaffinity(None).unwrap();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).collect();
    let (over, busy) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in &processors {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    if busy.load(Relaxed) {
                        spin_loop();
                    } else {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < time {
            let pid = pids[dice.usize(0..pids.len())];
            let wait = Duration::from_micros(dice.usize(100..60_000) as u64);
            // One that has ended does not mind.
            let Some(thread) = a_thread(pid, &mut dice) else { continue };
            match dice.usize(0..5) {
                0 => {
                    let _ = kill_process(pid, Signal::STOP);
                    thread::sleep(wait);
                    let _ = kill_process(pid, Signal::CONT);
                }
                1 => {
                    let mut one = CpuSet::new();
                    one.set(processors[dice.usize(0..processors.len())]);
                    let _ = sched_setaffinity(Some(thread), &one);
                }
                2 => drop(sched_setaffinity(Some(thread), &all)),
                3 => drop(setpriority_process(Some(thread), dice.usize(0..20) as i32)),
                _ => busy.store(!busy.load(Relaxed), Relaxed),
            }
            thread::sleep(wait);
        }
        over.store(true, Relaxed);
        busy.store(false, Relaxed);
    });
    // Only root may take a priority back.
    for thread in pids.into_iter().flat_map(threads) {
        let _ = setpriority_process(Some(thread), 0);
        let _ = sched_setaffinity(Some(thread), &all);
    }
}

fn a_thread(of: Pid, dice: &mut Rng) -> Option<Pid> {
    let threads = threads(of);
    (!threads.is_empty()).then(|| threads[dice.usize(0..threads.len())])
}

fn threads(of: Pid) -> Vec<Pid> {
    let entries = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())).into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}
