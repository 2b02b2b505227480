//! Runs random programs of several hosts with several threads each, and checks their reads against the definition of an
//! atomic register. Between its beginning and its end, each access takes effect at one moment. A whole memory has this
//! property if each place in it has it, and sequential consistency follows. Hosts are on one machine, on machines of their own, or
//! on machines of several. Each access is between two atomic operations, so the order of plain stores and loads is not at issue.
//!
//! `FOREBAY_COMPAT_LONG=1` runs thousands of programs.

mod chance;
mod told;

use std::{
    collections::BTreeMap,
    env, iter,
    process::Command,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::Duration,
};

use chance::{Deadline, leave_alternate_stack};
use fastrand::Rng;
use forebay_millipage::{Granularity, Host, Options, Placement, Row, in_process_machines};
use forebay_testkit::long;
use told::rows_alone;

/// Programs of one process: the memory of each stays mapped for as long as the process lives.
const SEEDS: usize = 50;
/// Of all processes.
const LONG_SEEDS: u64 = 3_000;
/// The variable with the first seed of a process.
const FIRST_SEED: &str = "FOREBAY_HISTORIES_FIRST_SEED";

/// One access to a place. No two writes to a place write the same value, and none 0, which was there at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    is_write: bool,
    value: u64,
    /// No two moments are the same, and no access begins or ends at moment 0.
    begin: u64,
    end: u64,
}

/// Whether each of the accesses to a place can be given a moment between its beginning and its end, so that each read
/// finds what was written last.
///
/// By P. Gibbons and E. Korach, *Testing Shared Memories*, SIAM J. Comput. 26 (1997): a value was certainly there from the
/// first end to the last beginning of its accesses. No two values were certainly there at the same time; and where these
/// two moments are the other way round, all accesses to the value had to be at some one moment between them, which
/// cannot lie within the certain time of another value.
fn is_atomic(accesses: &[Access]) -> Result<(), String> {
    let mut values = BTreeMap::<u64, Vec<Access>>::new();
    values.insert(0, vec![Access { is_write: true, value: 0, begin: 0, end: 0 }]);
    for access in accesses {
        values.entry(access.value).or_default().push(*access);
    }
    let (mut certain, mut moments) = (vec![], vec![]);
    for (value, accesses) in &values {
        let Some(write) = accesses.iter().find(|access| access.is_write) else {
            return Err(format!("{value:#x} was read and never written"));
        };
        if let Some(early) = accesses.iter().find(|access| access.end < write.begin) {
            return Err(format!("{early:?} ended before {write:?}"));
        }
        let first_end = accesses.iter().map(|access| access.end).min().unwrap_or(0);
        let last_begin = accesses.iter().map(|access| access.begin).max().unwrap_or(0);
        if first_end <= last_begin {
            certain.push((first_end, last_begin, *value));
        } else {
            moments.push((last_begin, first_end, *value));
        }
    }
    certain.sort_unstable();
    if let Some(two) = certain.windows(2).find(|two| two[1].0 <= two[0].1) {
        return Err(format!(
            "{:#x} and {:#x} at the same time: {:?}",
            two[0].2,
            two[1].2,
            (values[&two[0].2].clone(), values[&two[1].2].clone())
        ));
    }
    for (from, to, value) in moments {
        let around =
            certain.partition_point(|(begin, ..)| *begin < from).checked_sub(1).map(|index| certain[index]);
        if let Some((_, end, other)) = around.filter(|(_, end, _)| to < *end) {
            return Err(format!("{value:#x} while {other:#x} was there, until {end}"));
        }
    }
    Ok(())
}

#[test]
fn the_check_tells_atomic_from_stale() {
    let write = |value, begin, end| Access { is_write: true, value, begin, end };
    let read = |value, begin, end| Access { is_write: false, value, begin, end };
    let good: &[&[Access]] = &[
        &[],
        &[read(0, 1, 2)],
        &[write(1, 1, 2), read(1, 3, 4)],
        &[write(1, 1, 10), read(0, 2, 3), read(1, 4, 5), read(1, 11, 12)],
        &[write(1, 1, 10), write(2, 2, 9), read(1, 3, 4), read(2, 5, 6), read(2, 11, 12)],
        &[write(1, 1, 10), write(2, 2, 9), read(2, 3, 4), read(1, 5, 6), read(1, 11, 12)],
        &[write(1, 1, 4), read(0, 2, 3), read(0, 2, 6), read(1, 5, 7)],
    ];
    for history in good {
        assert_eq!(is_atomic(history), Ok(()), "{history:?}");
    }
    let bad: &[&[Access]] = &[
        &[read(7, 1, 2)],
        &[read(1, 1, 2), write(1, 3, 4)],
        &[write(1, 1, 2), read(0, 3, 4)],
        &[write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)],
        &[write(1, 1, 10), read(1, 2, 3), read(0, 4, 5)],
        &[write(1, 1, 10), write(2, 2, 9), read(1, 11, 12), read(2, 13, 14)],
        &[write(1, 1, 20), write(2, 2, 19), read(1, 3, 4), read(2, 5, 6), read(1, 7, 8)],
        &[write(1, 1, 2), write(2, 4, 5), read(1, 3, 9), read(1, 7, 8)],
    ];
    for history in bad {
        assert!(is_atomic(history).is_err(), "{history:?}");
    }
}

/// What a random program works with.
struct World {
    seed: u64,
    threads: usize,
    steps: usize,
    /// Barriers that each host waits at.
    barriers: usize,
    options: Options,
    rows: usize,
    columns: usize,
    chunk: usize,
    /// Of the first rows, and of those in the memory of those.
    placements: [Placement; 2],
    /// Hosts in turn allocate the rows alone.
    is_alone: bool,
    /// Hosts of each machine.
    machines: Vec<u16>,
    /// Never twice the same.
    clock: AtomicU64,
}

/// Rows that are only read and written as a whole, under a lock; from here on, rows that are not.
const GUARDED: usize = 2;

/// What one thread saw: accesses with their row and column, times between lock and unlock with the lock, and times from
/// coming to each barrier to leaving it.
#[derive(Default)]
struct Log {
    accesses: Vec<((usize, usize), Access)>,
    inside: Vec<(u32, u64, u64)>,
    barriers: Vec<(u64, u64)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = chance::of_thread(seed, 0);
        // Each view of a host with one memory is some mappings, which stay for as long as the process lives.
        let most_views = if seed.is_multiple_of(3) { 3 } else { 16 };
        let columns = [1, 2, 7, 33, 64, 700][dice.usize(0..6)];
        let mut machines: Vec<u16> = match seed % 3 {
            0 => vec![dice.usize(1..5) as u16],
            1 => vec![1; dice.usize(1..5)],
            _ => (0..dice.usize(2..4)).map(|_| dice.usize(1..4) as u16).collect(),
        };
        machines.sort_unstable();
        let hosts = machines.iter().sum::<u16>();
        Self {
            seed,
            threads: dice.usize(1..4),
            steps: 150,
            barriers: dice.usize(0..6),
            options: Options {
                bytes: 1 << 19,
                views: [1, 3, 16][dice.usize(0..3)].min(most_views),
                at: None,
                granularity: [Granularity::Fine, Granularity::Fine, Granularity::Page][dice.usize(0..3)],
            },
            rows: dice.usize(GUARDED + 1..GUARDED + 9),
            columns,
            chunk: dice.usize(1..4),
            placements: [(); 2].map(|()| {
                [
                    Placement::Blocks,
                    Placement::Cyclic,
                    Placement::Copies,
                    Placement::On(dice.usize(0..hosts.into()) as u16),
                ][dice.usize(0..4)]
            }),
            is_alone: dice.usize(0..3) == 0,
            machines,
            clock: AtomicU64::new(1),
        }
    }

    fn allocate(&self, host: &Host, round: usize) -> Vec<Row<u64>> {
        let (count, chunk) = (self.rows + 2 * round, self.chunk + round);
        if self.is_alone {
            return rows_alone(host, count, self.columns, |row| (row / 4) as u16 % host.hosts());
        }
        let rows = host.rows_in_chunks(count, self.columns, chunk, self.placements[round]).unwrap();
        rows.range(0..count).collect()
    }

    /// Frees the rows: together, or each by another host than has allocated it, when no host uses them any more.
    fn free(&self, host: &Host, rows: &[Row<u64>]) {
        let address = |row: &Row<u64>| row.as_ptr() as usize;
        if !self.is_alone {
            return host.free_together(address(&rows[0])).unwrap();
        }
        host.barrier().unwrap();
        let is_mine = |index: usize| (index / 4 + 1) as u16 % host.hosts() == host.rank();
        let mine = rows.iter().enumerate().filter(|(index, _)| is_mine(*index));
        mine.for_each(|(_, row)| host.free(address(row)).unwrap());
    }

    /// The moment. An atomic operation, so that the processor has done before what comes before.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    /// What the threads saw of rows, and then of others in the memory that hosts have freed.
    fn run(&self) -> [Vec<Log>; 2] {
        let hosts = in_process_machines(&self.machines, self.options).unwrap();
        let work = &|host: &Host, round: usize| -> Vec<Log> {
            let rows = self.allocate(host, round);
            let logs = thread::scope(|scope| {
                let run = |thread: usize| {
                    let rows = &rows;
                    scope.spawn(move || {
                        // Some threads serve their faults, and some leave that to others.
                        if !(self.seed + thread as u64).is_multiple_of(4) {
                            leave_alternate_stack();
                        }
                        Thread::new(self, host, rows, thread, round).run()
                    })
                };
                let threads: Vec<_> = (0..self.threads).map(run).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            self.free(host, &rows);
            logs
        };
        let rounds = thread::scope(|scope| {
            let work = |host| scope.spawn(move || [work(host, 0), work(host, 1)]);
            let hosts: Vec<_> = hosts.iter().map(work).collect();
            hosts.into_iter().map(|host| host.join().unwrap()).collect::<Vec<_>>()
        });
        rounds.into_iter().fold([vec![], vec![]], |mut all, logs| {
            all.iter_mut().zip(logs).for_each(|(all, logs)| all.extend(logs));
            all
        })
    }
}

struct Thread<'a> {
    world: &'a World,
    host: &'a Host,
    rows: &'a [Row<u64>],
    /// The first of each host waits at barriers.
    is_first: bool,
    dice: Rng,
    /// Values of its own.
    values: Box<dyn Iterator<Item = u64>>,
    log: Log,
}

impl<'a> Thread<'a> {
    fn new(world: &'a World, host: &'a Host, rows: &'a [Row<u64>], thread: usize, round: usize) -> Self {
        let number = (round << 16) + usize::from(host.rank()) * world.threads + thread;
        Self {
            world,
            host,
            rows,
            is_first: thread == 0,
            dice: chance::of_thread(world.seed, number + 1),
            values: Box::new((1..).map(move |value| (number as u64 + 1) << 32 | value)),
            log: Log::default(),
        }
    }

    fn run(mut self) -> Log {
        let barriers = if self.is_first { self.world.barriers } else { 0 };
        let mut steps = iter::repeat_n(false, self.world.steps).chain(iter::repeat_n(true, barriers));
        let mut order: Vec<_> = steps.by_ref().collect();
        self.dice.shuffle(&mut order);
        for is_barrier in order {
            if is_barrier {
                let begin = self.world.now();
                self.host.barrier().unwrap();
                self.log.barriers.push((begin, self.world.now()));
            } else {
                self.step();
            }
            chance::wait(&mut self.dice);
        }
        self.log
    }

    fn step(&mut self) {
        let place = (self.dice.usize(GUARDED..self.rows.len()), self.dice.usize(0..self.world.columns));
        let row = self.rows[place.0];
        let begin = self.world.now();
        match self.dice.usize(0..16) {
            0..5 => {
                let value = row.get(place.1);
                self.note(place, false, value, begin);
            }
            5..9 => {
                let value = self.value();
                row.set(place.1, value);
                self.note(place, true, value, begin);
            }
            9 => {
                let value = self.value();
                let before = row.atomic(place.1).swap(value, SeqCst);
                self.note(place, false, before, begin);
                self.note(place, true, value, begin);
            }
            10 => row.prefetch(),
            11 => row.prefetch_for_writing(),
            12 => row.push(),
            13 => row.touch(),
            14 => row.touch_for_writing(),
            _ => self.guarded(),
        }
    }

    /// Reads and writes a row as a whole, under its lock. It holds one value.
    fn guarded(&mut self) {
        let index = self.dice.usize(0..GUARDED);
        let row = self.rows[index];
        self.host.lock(index as u32).unwrap();
        let inside = self.world.now();
        let mut values = vec![u64::MAX; row.len()];
        row.read(0, &mut values);
        assert!(values.iter().all(|value| *value == values[0]), "a row under a lock has {values:x?}");
        self.note((index, 0), false, values[0], inside);
        chance::wait(&mut self.dice);
        let begin = self.world.now();
        values.fill(self.value());
        row.write(0, &values);
        self.note((index, 0), true, values[0], begin);
        self.log.inside.push((index as u32, inside, self.world.now()));
        self.host.unlock(index as u32).unwrap();
    }

    fn value(&mut self) -> u64 {
        self.values.next().unwrap()
    }

    fn note(&mut self, place: (usize, usize), is_write: bool, value: u64, begin: u64) {
        self.log.accesses.push((place, Access { is_write, value, begin, end: self.world.now() }));
    }
}

/// What must hold of all threads together.
fn check(logs: &[Log]) -> Result<(), String> {
    let mut places = BTreeMap::<_, Vec<Access>>::new();
    for (place, access) in logs.iter().flat_map(|log| &log.accesses) {
        places.entry(*place).or_default().push(*access);
    }
    for (place, accesses) in &places {
        is_atomic(accesses).map_err(|why| format!("row and column {place:?}: {why}"))?;
    }
    let mut inside: Vec<_> = logs.iter().flat_map(|log| &log.inside).collect();
    inside.sort_unstable();
    if let Some(two) = inside.windows(2).find(|two| two[0].0 == two[1].0 && two[1].1 < two[0].2) {
        return Err(format!("two threads had a lock: {two:?}"));
    }
    let barriers = logs.iter().map(|log| log.barriers.len()).max().unwrap_or(0);
    for barrier in 0..barriers {
        let times = logs.iter().filter_map(|log| log.barriers.get(barrier));
        let (last, first) = (times.clone().map(|time| time.0).max(), times.map(|time| time.1).min());
        if last > first {
            return Err(format!("barrier {barrier} was left at {first:?} and reached at {last:?}"));
        }
    }
    Ok(())
}

#[test]
fn random_programs_find_memory_atomic() {
    if long() && env::var_os(FIRST_SEED).is_none() {
        for first in (1..=LONG_SEEDS).step_by(SEEDS) {
            let mut some = Command::new(env::current_exe().expect("the test has a file"));
            some.args(["--exact", "random_programs_find_memory_atomic"]).env(FIRST_SEED, first.to_string());
            let output = some.output().expect("the test starts");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        return;
    }
    let first = env::var(FIRST_SEED).map_or(1, |first| first.parse().expect("a number"));
    for seed in (first..).take(SEEDS) {
        let world = World::new(seed);
        let _deadline = Deadline::new(format!("the program of seed {seed}"), Duration::from_secs(120));
        for logs in world.run() {
            assert!(logs.iter().all(|log| !log.accesses.is_empty()));
            check(&logs).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }
}
