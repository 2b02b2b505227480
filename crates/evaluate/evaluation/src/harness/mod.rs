//! What experiments share.
//!
//! - to run programs: [`command`], [`guests`], [`interrupt`], what is [`written`], and [`progress`] of what runs;
//! - their data and values: [`random`] data that is the same everywhere, [`statistics`] of rounds, names of [`metric`]s;
//! - what is shown: [`table`]s, and [`prediction`]s beside measurements.

pub(crate) mod command;
pub(crate) mod guests;
pub(crate) mod interrupt;
pub(crate) mod metric;
pub(crate) mod prediction;
pub(crate) mod progress;
pub(crate) mod random;
pub mod statistics;
pub(crate) mod table;
pub(crate) mod written;
