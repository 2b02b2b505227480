//! Servers that may not use all processors of the machine (sched_setaffinity(2), cpuset(7)).

use forebay_quantity::percent;

use super::processor::{IDLE_PROCESSOR, QUEUED};
use super::{THREAD_FULL, Verdict};
use crate::experiments::Evidence;

/// Processors that the server may use, where those are not all.
pub(super) fn allowed(evidence: &Evidence) -> Option<f64> {
    evidence.allowed_processors.filter(|allowed| *allowed < evidence.processors)
}

impl Verdict {
    /// Whether its threads wait for the processors that it may use, while others are idle.
    pub(super) fn is_bound(&mut self, evidence: &Evidence) -> bool {
        let (Some(allowed), Some(used_s), Some(waited_s), Some(idle)) =
            (allowed(evidence), evidence.processor_s, evidence.processor_wait_s, evidence.idle_processors())
        else {
            return false;
        };
        let is_full = used_s >= THREAD_FULL * allowed * evidence.seconds && waited_s >= QUEUED * used_s;
        if !is_full || idle < IDLE_PROCESSOR {
            return false;
        }
        let of_all = format!("{allowed:.0} of {:.0}", evidence.processors);
        self.evidence.insert(
            0,
            format!(
                "its affinity (taskset, cpusets) allows it {of_all} processors, of which it used {}, while {idle:.1} processors \
                 were idle",
                percent(used_s / (allowed * evidence.seconds))
            ),
        );
        self.name = Some(format!("(it may use {of_all})"));
        true
    }
}
