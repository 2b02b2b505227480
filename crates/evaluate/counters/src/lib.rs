#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod disks;
mod error;
mod files;
mod group;
mod machine;
mod meter;
mod perf;
mod processes;
mod readings;
mod record;
mod sheet;
pub mod simulation;
mod sources;
mod target;

pub use error::{Error, Refused};
pub use files::Files;
pub use meter::{Meter, Ready};
pub use perf::{has_hardware_counters, has_kernel_events, has_memory_counters};
pub use readings::{Counter, Interval, Kind, Reading, Readings};
pub use target::{Options, Target};
