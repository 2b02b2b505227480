//! The five programs, each with the size of its problem.

use std::time::Instant;

use crate::kernels::{is, lu, sor, tsp, water};
use forebay_millipage::{Granularity, Host};
use serde::{Deserialize, Serialize};

use crate::{Error, Report, task::join_pinned};

/// One of the five programs, and how much it has to do, in the words of [`crate::kernels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "see crate::kernels")]
pub enum Program {
    /// Red-black relaxation.
    Sor { rows: usize, columns: usize, iterations: usize },
    /// Integer sort.
    Is { keys_log2: u32, values_log2: u32, iterations: usize },
    /// Molecular dynamics.
    Water { side: usize, steps: usize, chunk: usize },
    /// Factors of a matrix.
    Lu { blocks: usize, block: usize },
    /// Travelling salesman.
    Tsp { cities: usize, level: usize, seed: u64 },
}

/// How memory is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// Whole pages, as without views.
    pub pages: bool,
    /// Minipages that can share a page.
    pub views: usize,
}

/// What is shared besides rows: counters, sums.
const ASIDE_BYTES: usize = 1 << 20;
/// Of a molecule, as it is shared.
const MOLECULE_BYTES: usize = 27 * 8;

impl Program {
    /// One host's part, between two barriers.
    pub(crate) fn parallel(&self, share: Share) -> Result<Report, Error> {
        let granularity = if share.pages { Granularity::Page } else { Granularity::Fine };
        let host = join_pinned(self.shared_bytes(share.views), share.views, granularity)?;
        let mut report = Report::new(host.rank());
        host.barrier()?;
        let _ = host.take_usage();
        let begun = Instant::now();
        self.compute(&host, &mut report)?;
        host.barrier()?;
        report.add("elapsed", begun.elapsed().as_secs_f64());
        report.add_usage(&host.take_usage());
        host.leave()?;
        Ok(report)
    }

    /// One host's part, of which the result goes into the report.
    ///
    /// # Errors
    /// Memory cannot be shared, or a host has gone.
    pub fn compute(&self, host: &Host, report: &mut Report) -> Result<(), Error> {
        match *self {
            Self::Sor { rows, columns, iterations } => {
                let outcome = sor::parallel(host, &sor::Parameters { rows, columns, iterations })?;
                report.result = format!("{:x}", outcome.checksum);
            }
            Self::Is { keys_log2, values_log2, iterations } => {
                let parameters = is::Parameters { keys_log2, values_log2, iterations };
                report.result = format!("{:?}", is::parallel(host, &parameters)?);
            }
            Self::Water { side, steps, chunk } => {
                let outcome = water::parallel(host, &water::Parameters { side, steps, chunk })?;
                report.energies = vec![outcome.energy_before, outcome.energy];
            }
            Self::Lu { blocks, block } => {
                let factors = lu::parallel(host, &lu::Parameters { blocks, block })?;
                report.result = format!("{:x}", factors.checksum);
            }
            Self::Tsp { cities, level, seed } => {
                let outcome = tsp::parallel(host, &tsp::Parameters { cities, level, seed })?;
                report.result = outcome.length.to_string();
            }
        }
        Ok(())
    }

    /// The same in one process on ordinary memory.
    pub(crate) fn sequential(&self) -> Report {
        let mut report = Report::default();
        let begun = Instant::now();
        match *self {
            Self::Sor { rows, columns, iterations } => {
                let outcome = sor::sequential(&sor::Parameters { rows, columns, iterations });
                report.result = format!("{:x}", outcome.checksum);
            }
            Self::Is { keys_log2, values_log2, iterations } => {
                let outcome = is::sequential(&is::Parameters { keys_log2, values_log2, iterations });
                report.result = format!("{outcome:?}");
            }
            Self::Water { side, steps, chunk } => {
                let outcome = water::sequential(&water::Parameters { side, steps, chunk });
                report.energies = vec![outcome.energy_before, outcome.energy];
            }
            Self::Lu { blocks, block } => {
                report.result = format!("{:x}", lu::sequential(&lu::Parameters { blocks, block }).checksum);
            }
            Self::Tsp { cities, level, seed } => {
                report.result = tsp::sequential(&tsp::Parameters { cities, level, seed }).length.to_string();
            }
        }
        report.add("elapsed", begun.elapsed().as_secs_f64());
        report
    }

    /// Shared memory that it needs in so many views. Where those are few, pages hold few rows.
    #[must_use]
    pub fn shared_bytes(&self, views: usize) -> usize {
        let rows = |count: usize, bytes: usize| {
            let on_page = (4096 / bytes.max(16)).clamp(1, views.max(1));
            count.div_ceil(on_page) * bytes.next_multiple_of(4096) + 4096
        };
        let own = match *self {
            Self::Sor { rows: count, columns, .. } => 2 * rows(count + 2, 4 * columns),
            Self::Is { values_log2, .. } => 4096 * 64 + (8 << values_log2),
            Self::Water { side, chunk, .. } => {
                rows((side * side * side).div_ceil(chunk.max(1)), MOLECULE_BYTES * chunk.max(1))
            }
            Self::Lu { blocks, block } => rows(blocks * blocks, 8 * block * block),
            Self::Tsp { cities, level, .. } => {
                rows((1..level).map(|visited| cities.saturating_sub(visited)).product(), 16)
            }
        };
        own + ASIDE_BYTES
    }
}
