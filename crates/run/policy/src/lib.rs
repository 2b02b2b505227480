//! The decisions of speculative prefetching, as pure logic.
//!
//! Nothing here does I/O, reads a clock or allocates. Time and events are arguments, so simulations test all of it. The
//! layout of the memory that agents and supervisor share is in `forebay_protocol`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod account;
pub mod checkpoint;
pub mod control;
pub mod copies;
pub mod credit;
mod daring;
mod delay;
pub mod idleness;
pub mod inflight;
pub mod lead;
mod mean;
pub mod patience;
pub mod program;
pub mod quiet;
pub mod resync;
pub mod room;
pub mod site;
mod stalls;
mod window;
