//! The pure logic of speculative prefetching.
//!
//! Nothing here does I/O, reads a clock or allocates: time and events come in as arguments, so all of it is
//! tested by simulation. [`channel`] is the layout of the memory that agents and supervisor share; the other
//! modules are the decisions taken over it.
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
