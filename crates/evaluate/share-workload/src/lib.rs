//! The program `forebay-share-workload`: the hosts that `forebay evaluate millipage` measures, started by `forebay
//! share`. It is a program of its own because it loads UCX at run time, which the statically linked `forebay` cannot
//! do.
//!
//! `forebay-share-workload TASK FILE` carries out a [`Task`], given as JSON. Each of its processes appends its
//! [`Report`], a line of JSON, to the file.
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
