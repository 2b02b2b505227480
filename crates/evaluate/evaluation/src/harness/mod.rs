//! What all experiments use: starting programs, rounds and progress, predictions, tables and charts.

pub(crate) mod command;
pub(crate) mod guests;
pub(crate) mod interrupt;
pub(crate) mod metric;
pub(crate) mod prediction;
pub(crate) mod progress;
pub(crate) mod random;
pub mod statistics;
pub(crate) mod table;
