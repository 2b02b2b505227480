//! Experiments with `forebay run`: programs that wait for files or swap, alone and with it.

pub(crate) mod account;
pub(crate) mod comparison;
pub mod corpus;
pub(crate) mod counters;
pub(crate) mod dataset;
pub mod demo;
pub mod memory_control;
pub mod overhead;
pub(crate) mod programs;
pub(crate) mod rounds;
pub mod side_effects;
pub mod speculation;
pub(crate) mod speech;
pub(crate) mod swapping;
