//! Measurements of this machine and of single programs, and the latency model of a server on it.

pub mod cache;
pub mod host;
pub mod meter;
pub mod model;
