//! Access profiles: what earlier runs of a command needed, as pure logic.
//!
//! Nothing here does I/O or reads a clock. The recorder delivers [`Need`]s, and [`Profile::learn`] merges those of one run.
//! [`Scope::of`] names the profiles of a command, [`format`](mod@format) is how a profile is kept, and [`Plan`] is what a replay fetches.
//! [`Pack`] is a profile for other machines, and [`Costs`] say what a cold start pays.
#![forbid(unsafe_code)]

pub mod cost;
mod foretold;
pub mod format;
pub mod key;
pub mod need;
mod pack;
pub mod path;
pub mod plan;
pub mod profile;
mod spans;

pub use cost::{Cost, Costs};
pub use foretold::Foretold;
pub use key::{Command, Key, Level, Scope};
pub use need::{Identity, Kind, Kinds, Need};
pub use pack::Pack;
pub use plan::{Act, Plan, Step};
pub use profile::{Entry, Origin, Profile};
pub use spans::{PAGE_BYTES, Span, Uses};
