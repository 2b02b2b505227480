//! Names of metrics that are written in one place and looked for in another.

pub(crate) const ELAPSED: &str = "elapsed";
pub(crate) const STALL_TIME: &str = "stall_time";
pub(crate) const FOOTPRINT: &str = "footprint";
pub(crate) const PAGE_RECLAIMS: &str = "page_reclaims";
pub(crate) const PAGE_FAULTS: &str = "page_faults";
pub(crate) const RESYNCS: &str = "resyncs";
/// How often memory control turned speculation off; a family with one metric a reason.
pub(crate) const CONTROL_CROSSINGS: &str = "control_crossings";
