//! What hosts do while shared memory is measured: the program `forebay-share-workload`, which `forebay evaluate millipage` has
//! `forebay share` start, and how the two talk. A program of its own, since UCX is loaded at run time, which the statically
//! linked `forebay` cannot do.
//!
//! `forebay-share-workload TASK FILE` carries out a [`Task`], given as JSON, and each of its processes appends a line of JSON, its
//! [`Report`], to the file.
#![forbid(unsafe_code)]

mod costs;
pub mod kernels;
mod local;
mod neighbours;
mod program;
mod report;
mod task;

pub use neighbours::Lie;
pub use program::{Program, Share};
pub use report::Report;
pub use task::{Error, Task, carry_out};

/// What the program is called.
pub const FILE_NAME: &str = "forebay-share-workload";
