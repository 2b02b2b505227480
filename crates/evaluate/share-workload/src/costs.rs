//! Measures what faults, fetches, barriers and locks cost.
//!
//! The last host accesses rows that the other hosts own, and takes locks; each time is that of one row or lock. The
//! other hosts are idle meanwhile: they wait at a barrier, or compute.

use std::{
    hint::{self, black_box},
    mem, thread,
    time::{Duration, Instant},
};

use forebay_millipage::{Granularity, Host, Placement, Row, Rows, Value};

use crate::{Error, Report, local, task::join_pinned};

/// Sizes of rows.
const ROWS_BYTES: [usize; 2] = [128, 4096];
/// How long the others compute before they look whether that is enough.
const TURN: Duration = Duration::from_micros(20);
/// How long nothing is asked of others that are to be asleep.
const PAUSE: Duration = Duration::from_millis(1);
/// Barriers before those that count.
const WARMING: usize = 20;

/// What the others do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// And what they do for others has just been asked for.
    Idle,
    /// And nothing was asked of them for a while.
    Asleep,
    Computing,
}

/// What the row is to the last host and to the others at first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The first host has it, and may write.
    Written,
    /// All others have copies.
    Copied,
    /// All have copies.
    CopiedToAll,
}

/// Measures each so often.
pub fn measure(times: usize) -> Result<Report, Error> {
    let rows_bytes: usize = ROWS_BYTES.iter().map(|bytes| times * bytes + 4096).sum();
    let host = join_pinned(2 * rows_bytes + (1 << 20), 16, Granularity::Fine)?;
    let mut report = Report::new(host.rank());
    if host.hosts() == 1 {
        local::measure(times, &mut report)?;
    }
    let stop = host.value::<u32>(Placement::On(0))?;
    let baton = host.value::<u32>(Placement::On(0))?;
    let job = Job { host: &host, stop, baton };
    report.add_median("barrier", job.barriers(times)?);
    if host.hosts() > 1 {
        for bytes in ROWS_BYTES {
            let rows = host.rows::<u64>(times, bytes / size_of::<u64>(), Placement::On(0))?;
            let mut measure = |what: &str, before, others, act: &dyn Fn(Row<u64>)| -> Result<(), Error> {
                report.add_median(format!("{what} {bytes}"), job.touch(&rows, before, others, act)?);
                Ok(())
            };
            let (read, write) = (&|row: Row<u64>| row.touch(), &|row: Row<u64>| row.set(0, 1));
            measure("read", Before::Written, Others::Idle, read)?;
            measure("write", Before::Written, Others::Idle, write)?;
            measure("write of copied", Before::Copied, Others::Idle, write)?;
            measure("upgrade", Before::CopiedToAll, Others::Idle, write)?;
            measure("read after a pause", Before::Written, Others::Asleep, read)?;
            measure("read beside computing", Before::Written, Others::Computing, read)?;
            measure("write beside computing", Before::Written, Others::Computing, write)?;
        }
    }
    if host.hosts() == 2 {
        report.add_median("baton", job.batons(times)?);
    }
    // A lock's manager is the host whose number it has.
    let own = u32::from(host.rank());
    report.add_median("lock", job.locks(times, own)?);
    if host.hosts() > 1 {
        report.add_median("remote lock", job.locks(times, (own + 1) % u32::from(host.hosts()))?);
    }
    host.leave()?;
    Ok(report)
}

struct Job<'a> {
    host: &'a Host,
    /// Not 0 when those that compute are to stop.
    stop: Value<u32>,
    /// How often it was passed on.
    baton: Value<u32>,
}

impl Job<'_> {
    fn is_last(&self) -> bool {
        self.host.rank() + 1 == self.host.hosts()
    }

    fn barriers(&self, times: usize) -> Result<Vec<Duration>, Error> {
        (0..WARMING).try_for_each(|_| self.host.barrier())?;
        let each = |_| {
            let begun = Instant::now();
            self.host.barrier()?;
            Ok(begun.elapsed())
        };
        (0..times).map(each).collect()
    }

    fn locks(&self, times: usize, lock: u32) -> Result<Vec<Duration>, Error> {
        self.host.barrier()?;
        let each = |_| {
            let begun = Instant::now();
            self.host.lock(lock)?;
            self.host.unlock(lock)?;
            Ok(begun.elapsed())
        };
        let taken = if self.is_last() { (0..times).map(each).collect() } else { Ok(vec![]) };
        self.host.barrier()?;
        taken
    }

    /// How long the hosts take to pass a baton on, each to the next: a word that all read until it is their turn, which then write it.
    fn batons(&self, times: usize) -> Result<Vec<Duration>, Error> {
        let (rank, hosts) = (u32::from(self.host.rank()), u32::from(self.host.hosts()));
        self.host.barrier()?;
        let mut begun = Instant::now();
        let each = |round| {
            while self.baton.get() != round * hosts + rank {
                hint::spin_loop();
            }
            self.baton.set(round * hosts + rank + 1);
            let now = Instant::now();
            (now - mem::replace(&mut begun, now)) / hosts
        };
        let passed = (0..times as u32).map(each).collect();
        self.host.barrier()?;
        Ok(passed)
    }

    /// How long the last host takes for each row.
    fn touch(
        &self,
        rows: &Rows<u64>,
        before: Before,
        others: Others,
        act: &dyn Fn(Row<u64>),
    ) -> Result<Vec<Duration>, Error> {
        let all = || (0..rows.len()).map(|index| rows.row(index));
        if self.host.rank() == 0 {
            self.stop.set(0);
            all().for_each(|row| row.set(0, 0));
        }
        self.host.barrier()?;
        let reads = match before {
            Before::Written => false,
            Before::Copied => self.host.rank() > 0 && !self.is_last(),
            Before::CopiedToAll => self.host.rank() > 0,
        };
        if reads {
            all().for_each(|row| row.touch());
        }
        self.host.barrier()?;
        let mut taken = vec![];
        if self.is_last() {
            let few = if others == Others::Asleep { rows.len().div_ceil(10) } else { rows.len() };
            for row in all().take(few) {
                if others == Others::Asleep {
                    thread::sleep(PAUSE);
                }
                let begun = Instant::now();
                act(row);
                taken.push(begun.elapsed());
            }
            self.stop.set(1);
        } else if others == Others::Computing {
            while self.stop.get() == 0 {
                compute(TURN);
            }
        }
        self.host.barrier()?;
        Ok(taken)
    }
}

/// Keeps a processor busy.
fn compute(time: Duration) {
    let begun = Instant::now();
    let mut number = 1u64;
    while begun.elapsed() < time {
        for _ in 0..1_000 {
            number = black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number >> 29);
        }
    }
}
