//! Cache and TLB misses of a program where the processor does not count them. This module has the shapes of the machine's
//! caches, a reader of Valgrind's output, and a simulation of translation buffers. It runs no program.

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
