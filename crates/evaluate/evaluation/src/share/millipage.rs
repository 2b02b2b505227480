//! The published measurements of memory shared between processes, repeated: basic costs, writers to neighbouring objects on
//! a page, five programs, the chunking level. Two programs also run in a version for MPI.
//!
//! A. Itzkovitz and A. Schuster, "MultiView and Millipage: Fine-Grain Sharing in Page-Based DSMs", OSDI 1999.

pub mod chunking;
pub mod costs;
pub mod false_sharing;
mod jobs;
mod kernels;
mod mpi;
pub mod peers;
pub mod programs;

use std::path::PathBuf;

use crate::harness::statistics::Series;
pub use kernels::{Kernel, Size};

/// What all of these measurements are told.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `forebay` program, beside which its workload lies.
    pub forebay: PathBuf,
    /// Rounds; each runs every side once, in turn.
    pub runs: usize,
    /// What messages go over, where only one is measured: `shm`, `tcp` or `auto`.
    pub transport: String,
}

impl Setting {
    /// Three rounds over shared memory.
    pub fn new(forebay: PathBuf) -> Self {
        Self { forebay, runs: 3, transport: "shm".to_owned() }
    }
}

/// Named series, in the order in which they came first.
#[derive(Clone, Debug, Default)]
struct Measured(Vec<(String, Series)>);

impl Measured {
    fn push(&mut self, name: &str, value: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, series)) => series.push(value),
            None => self.0.push((name.to_owned(), [value].into_iter().collect())),
        }
    }

    fn get(&self, name: &str) -> Option<&Series> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, series)| series)
    }

    /// The median; NaN where there is nothing.
    fn median(&self, name: &str) -> f64 {
        self.get(name).map_or(f64::NAN, Series::median)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.0.iter().map(|(name, series)| (name.as_str(), series))
    }
}

/// As a metric's name.
fn metric(name: &str) -> String {
    name.replace([' ', '-'], "_")
}
