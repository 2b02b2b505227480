//! Access profiles: what a run needs of file systems, recorded for the next one, and where they are kept.
//!
//! What a profile is and what it learns is in `forebay_profile`.

mod fault_samples;
mod needs;
mod record;
pub mod store;

pub use self::needs::{Kind, Need, Recorded};
pub use self::record::{Recorder, Recording};
