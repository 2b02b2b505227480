#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod disks;
mod error;
mod group;
mod kernel_text;
mod machine;
mod meter;
mod perf;
mod processes;
mod readings;
mod record;
mod sheet;
pub mod simulation;
mod source;

pub use error::{Error, Refused};
pub use meter::{Meter, Options, Ready, Target};
pub use readings::{Counter, Interval, Kind, Reading, Readings};
