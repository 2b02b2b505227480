//! The decisions of speculative prefetching, as pure logic.
//!
//! Nothing here does I/O, reads a clock or allocates. Time and events are arguments, so simulations test all of it. The
//! layout of the memory that agents and supervisor share is in `forebay_protocol`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod balance;
pub mod checkpoint;
pub mod copies;
pub mod estimate;
pub mod fault_signals;
pub mod fork;
pub mod inflight;
pub mod lookahead;
pub mod neighbours;
pub mod price;
pub mod program;
pub mod replay;
pub mod site;
pub mod storm;
pub mod track;
pub mod trial;
