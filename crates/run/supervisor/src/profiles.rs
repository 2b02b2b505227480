//! Access profiles: what a run needs of file systems is recorded, kept for the next run, and replayed there.
//!
//! What a profile is and what it learns is in `forebay_profile`.

pub(crate) mod access;
mod command;
mod fault_samples;
pub(crate) mod files;
pub(crate) mod learning;
mod needs;
mod opening;
mod record;
pub mod store;
pub(crate) mod waits;

pub use self::command::{profile_of, scopes_of};
pub use self::learning::{Keep, ProfileFigures};
pub use self::needs::Recorded;
pub use self::record::{Recorder, Recording};
pub use self::store::Store;
