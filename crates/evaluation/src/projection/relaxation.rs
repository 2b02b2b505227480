//! The program: a grid relaxed by red and black rows, a block of rows a host. Hosts read their neighbours' outermost rows, and
//! meet at two barriers a turn.

use std::time::Instant;

use forebay_millipage::{Error, Host, Placement, Rows};
use forebay_projection::Trace;

use super::on_each;

/// What a host may do in a run, at most.
const EVENTS_MAX: usize = 100_000;

/// How much it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of the grid, each a minipage.
    pub rows: usize,
    /// Numbers in a row.
    pub columns: usize,
    /// Turns.
    pub turns: usize,
    /// How often a row is relaxed in a turn.
    pub sweeps: usize,
}

impl Size {
    /// Some tenths of a second on one host, in memory small enough for a thousand.
    pub const FULL: Self = Self { rows: 4_096, columns: 64, turns: 10, sweeps: 20 };

    const fn bytes(self) -> usize {
        // Rows may leave a part of each page.
        2 * self.rows * self.columns * size_of::<f64>() + (1 << 16)
    }
}

/// Seconds that it takes.
pub fn measure(hosts: u16, size: Size) -> Result<f64, crate::Error> {
    let each = on_each(hosts, size.bytes(), |host| {
        let grid = begin(host, size)?;
        let begun = Instant::now();
        relax(host, &grid, size)?;
        Ok(begun.elapsed().as_secs_f64())
    })?;
    Ok(each.into_iter().fold(0.0, f64::max))
}

/// What each host does.
pub fn record(hosts: u16, size: Size) -> Result<Trace, crate::Error> {
    let each = on_each(hosts, size.bytes(), |host| {
        host.record(EVENTS_MAX);
        let grid = begin(host, size)?;
        host.record(EVENTS_MAX);
        relax(host, &grid, size)?;
        let trace = host.trace()?;
        // Nobody leaves what others may still be at.
        host.barrier()?;
        Ok(trace)
    })?;
    Ok(Trace::of_hosts(each))
}

/// The grid, with what each host begins with in its own rows.
fn begin(host: &Host, size: Size) -> Result<Rows<f64>, Error> {
    let grid = host.rows::<f64>(size.rows, size.columns, Placement::Blocks)?;
    for index in own(host, size) {
        (0..size.columns).for_each(|column| grid.row(index).set(column, (index % 7 + column % 5) as f64));
    }
    host.barrier()?;
    Ok(grid)
}

fn relax(host: &Host, grid: &Rows<f64>, size: Size) -> Result<(), Error> {
    for turn in 0..2 * size.turns {
        for index in own(host, size).filter(|index| index % 2 == turn % 2) {
            if index == 0 || index == size.rows - 1 {
                continue;
            }
            let [above, row, below] = [index - 1, index, index + 1].map(|index| grid.row(index));
            for _ in 0..size.sweeps {
                for column in 1..size.columns - 1 {
                    let beside = row.get(column - 1) + row.get(column + 1);
                    row.set(column, (above.get(column) + below.get(column) + beside) / 4.0);
                }
            }
        }
        host.barrier()?;
    }
    Ok(())
}

/// The rows whose home a host is.
fn own(host: &Host, size: Size) -> std::ops::Range<usize> {
    let (rank, hosts) = (usize::from(host.rank()), usize::from(host.count()));
    (rank * size.rows).div_ceil(hosts)..((rank + 1) * size.rows).div_ceil(hosts)
}
