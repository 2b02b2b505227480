#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod account;
mod chart;
mod command;
mod comparison;
mod counters;
mod curves;
mod dataset;
pub mod demo;
mod error;
mod guests;
pub mod host;
mod interrupt;
mod mediamtx;
pub mod memory_control;
pub mod meter;
mod metric;
pub mod millipage;
pub mod model;
pub mod multiview;
pub mod overhead;
mod prediction;
mod programs;
mod progress;
pub mod projection;
mod random;
pub mod server;
pub mod side_effects;
pub mod speculation;
mod speech;
mod stacks;
pub mod statistics;
pub mod streaming;
mod swapping;
mod table;

use std::env::temp_dir;

use tempfile::TempDir;

pub use comparison::{Accounts, Measured, Side};
pub use counters::Counters;
pub use error::Error;
pub use forebay_model::LineFill;
pub use forebay_testkit::Profile;
pub use programs::{Program, Published, Scale, UnknownProgram};
pub use progress::Progress;
pub use swapping::{Size as SwappingSize, SwappingProgram, UnknownSwappingProgram};

/// A folder for what programs write and say; it goes when the value is dropped.
fn scratch_folder() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("forebay-")
        .tempdir()
        .map_err(Error::file("create a folder in", &temp_dir()))
}
