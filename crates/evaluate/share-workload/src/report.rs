//! The report that a process writes: what it measured, as a line of JSON.

use std::{collections::BTreeMap, fs::OpenOptions, io, io::Write, path::Path, time::Duration};

use forebay_millipage::Usage;
use serde::{Deserialize, Serialize};

/// What one process has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which one it is.
    pub rank: u16,
    /// Figures by their names.
    pub figures: BTreeMap<String, f64>,
    /// What was computed, where it is the same to the last bit however it is computed.
    pub result: String,
    /// What was computed, but for rounding.
    pub energies: Vec<f64>,
}

impl Report {
    /// Of host `rank`, with nothing in it.
    #[must_use]
    pub fn new(rank: u16) -> Self {
        Self { rank, ..Self::default() }
    }

    /// Adds a figure.
    pub fn add(&mut self, name: impl Into<String>, figure: f64) {
        self.figures.insert(name.into(), figure);
    }

    /// Adds the median of some times, in seconds, if there are any.
    pub fn add_median(&mut self, name: impl Into<String>, mut times: Vec<Duration>) {
        times.sort_unstable();
        if let Some(median) = times.get(times.len() / 2) {
            self.add(name, median.as_secs_f64());
        }
    }

    /// Adds what a host did: counts, bytes, and times in seconds.
    pub fn add_usage(&mut self, usage: &Usage) {
        let Usage { counts, traffic, times } = usage;
        for (name, count) in counts.named() {
            self.add(name, count as f64);
        }
        for (name, figure) in [
            ("messages", traffic.messages_sent as f64),
            ("bytes", traffic.bytes_sent as f64),
            ("computing", times.computing().as_secs_f64()),
            ("in read faults", times.read_faults.as_secs_f64()),
            ("in write faults", times.write_faults.as_secs_f64()),
            ("at barriers", times.barriers.as_secs_f64()),
            ("for locks", times.locks.as_secs_f64()),
            ("for prefetches", times.prefetches.as_secs_f64()),
            ("service", times.service.as_secs_f64()),
        ] {
            self.add(name, figure);
        }
    }

    /// A figure; NaN if there is none of that name.
    #[must_use]
    pub fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Appends it to a file, as a line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, file: &Path) -> io::Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        // Lines of several processes do not mix where each is written at once.
        OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())
    }

    /// All that a file holds, by rank.
    ///
    /// # Errors
    /// What it holds are no reports.
    pub fn all(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        let mut reports: Vec<Self> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        reports.sort_by_key(|report| report.rank);
        Ok(reports)
    }
}
