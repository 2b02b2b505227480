//! Experiments with `forebay share`: views, costs, programs, and projections to more hosts.

pub mod millipage;
pub mod multiview;
pub mod projection;
