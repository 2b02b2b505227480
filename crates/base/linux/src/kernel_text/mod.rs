//! Readers of the text that the kernel writes in `/proc` and in the files of control groups.
//!
//! Each is a function of text alone. The caller reads the file and decides what a missing file means.

mod fields;
mod machine;
mod task;

pub use fields::{bytes, field, keyed, number, sum};
pub use machine::{DiskUse, NetworkUse, Pressure, ProcessorTime, Swap, accept_overflows, swaps};
pub use task::{ProcessStat, Schedstat, Usage};
