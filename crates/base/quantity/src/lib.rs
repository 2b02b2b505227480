//! Quantities as people type and read them: a size such as `64M` is parsed, a value is printed with three digits in the
//! unit that suits it.
//!
//! The crate has no dependencies, because the small `forebay` binary is linked with it.
#![forbid(unsafe_code)]

mod print;
mod size;

pub use print::{bytes, exact_bytes, number, percent, seconds, thousands, times};
pub use size::{SizeError, multiple, size};
