//! Names of metrics that are written in one place and looked for in another.

pub(crate) const ELAPSED: &str = "elapsed";
pub(crate) const STALL_TIME: &str = "stall_time";
pub(crate) const MAX_RSS: &str = "max_rss";
pub(crate) const MINOR_FAULTS: &str = "minor_faults";
pub(crate) const MAJOR_FAULTS: &str = "major_faults";
pub(crate) const FORKS: &str = "forks";
/// Trials of memory control that found less saved than was claimed.
pub(crate) const TRIALS_LESS: &str = "trials/less";
/// The part of the claimed savings that memory control believed at last.
pub(crate) const SAVINGS_BELIEVED: &str = "savings_believed";
