//! Names of metrics that are written in one place and looked for in another.

pub(crate) const ELAPSED: &str = "elapsed";
pub(crate) const STALL_TIME: &str = "stall_time";
pub(crate) const MAX_RSS: &str = "max_rss";
pub(crate) const MINOR_FAULTS: &str = "minor_faults";
pub(crate) const MAJOR_FAULTS: &str = "major_faults";
pub(crate) const FORKS: &str = "forks";
/// How often memory control turned speculation off; a family with one metric a reason.
pub(crate) const CONTROL_CROSSINGS: &str = "control_crossings";
