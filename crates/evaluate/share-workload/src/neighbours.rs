//! False sharing: two processes each write to an object of their own all the time.

use std::time::{Duration, Instant};

use forebay_millipage::{Granularity, Placement, Row};
use serde::{Deserialize, Serialize};

use crate::{Error, Report, task::join_pinned};

/// How the objects lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lie {
    /// Next to each other on a page, each a minipage.
    OnePage,
    /// On pages of their own.
    OwnPages,
    /// Next to each other on a page, which is shared as a whole.
    WholePage,
}

/// Elements of an object, of 64 bytes in all, and of a page.
const OBJECT: usize = 16;
const PAGE: usize = 1024;
/// Writes between two looks at the time.
const WRITES: u64 = 16;

/// Writes for so long, with such pauses. How often, and how long one takes.
pub fn measure(lie: Lie, pause: Duration, time: Duration) -> Result<Report, Error> {
    let granularity = if lie == Lie::WholePage { Granularity::Page } else { Granularity::Fine };
    let host = join_pinned(1 << 20, 16, granularity)?;
    let columns = if lie == Lie::OwnPages { PAGE } else { OBJECT };
    let objects = host.rows::<u32>(host.hosts().into(), columns, Placement::Cyclic)?;
    let own = objects.row(host.rank().into());
    own.set(0, 0);
    host.barrier()?;
    let begun = Instant::now();
    let (writes, writing) = if pause.is_zero() {
        let writes = write_until(own, begun + time);
        (writes, begun.elapsed())
    } else {
        write_now_and_then(own, pause, begun + time)
    };
    let elapsed = begun.elapsed();
    host.barrier()?;
    let mut report = Report::new(host.rank());
    report.add("writes", writes as f64 / elapsed.as_secs_f64());
    report.add("write time", writing.as_secs_f64() / writes as f64);
    report.add_usage(&host.take_usage());
    host.leave()?;
    Ok(report)
}

fn write_until(own: Row<u32>, end: Instant) -> u64 {
    let mut writes = 0;
    while Instant::now() < end {
        for write in writes..writes + WRITES {
            own.set(write as usize % OBJECT, write as u32);
        }
        writes += WRITES;
    }
    writes
}

/// How often, and how long all writes took together.
fn write_now_and_then(own: Row<u32>, pause: Duration, end: Instant) -> (u64, Duration) {
    let (mut writes, mut writing) = (0, Duration::ZERO);
    let mut begun = Instant::now();
    while begun < end {
        own.set(writes as usize % OBJECT, writes as u32);
        let written = Instant::now();
        writing += written - begun;
        writes += 1;
        begun = written;
        while begun < written + pause {
            begun = Instant::now();
        }
    }
    (writes, writing)
}
