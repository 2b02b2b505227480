//! What caches and translation buffers (TLBs) would do with a program's accesses, where the processor does not tell: their shapes
//! on this machine, what Valgrind writes, and a simulation of the translation buffers. Nothing here runs anything.

mod cache;
mod tlb;
mod valgrind_text;

use std::borrow::Cow;

use forebay_results::Tier;

use crate::readings::{Counter, Kind, Reading};

pub use cache::{Cache, Caches};
pub use tlb::{Shape, Tlb, Translations};
pub use valgrind_text::{Access, CacheCounts, access};

/// A count of a whole run.
fn reading(name: &'static str, value: u64) -> Reading {
    let counter = Counter { name: Cow::Borrowed(name), unit: "1", tier: Tier::Simulated, kind: Kind::Total };
    let value = value as f64;
    Reading { counter, value, min: value, max: value }
}
