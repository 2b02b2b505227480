#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod ceilings;
mod clock;
mod crowd;
mod error;
mod order;
mod outcome;
mod player;
pub mod process;
mod processor;
pub mod protocol;
mod sockets;

pub use crowd::{Crowd, Gathered};
pub use error::Error;
pub use order::{Order, Start, Transport};
pub use outcome::{Outcome, Quantiles};
pub use processor::{Processors, allow_descriptors};
