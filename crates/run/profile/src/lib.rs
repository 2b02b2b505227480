//! Access profiles: what earlier runs of a command needed, as pure logic.
//!
//! Nothing here does I/O or reads a clock. The recorder delivers [`Need`]s, and [`Profile::learn`] merges those of one run.
//! [`Scope::of`] names the profiles of a command, [`format`](mod@format) is how a profile is kept, and [`Plan`] is what a replay fetches.
#![forbid(unsafe_code)]

mod foretold;
pub mod format;
pub mod key;
pub mod need;
mod pack;
pub mod path;
pub mod plan;
pub mod profile;
mod spans;

pub use foretold::Foretold;
pub use key::{Command, Key, Level, Scope};
pub use need::{Identity, Kind, Kinds, Need};
pub use pack::Pack;
pub use plan::{Act, Plan, Step};
pub use profile::{Entry, Origin, Profile};
pub use spans::{PAGE_BYTES, Span, Uses};
