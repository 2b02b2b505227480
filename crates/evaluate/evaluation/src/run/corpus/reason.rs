//! Why forebay does not help a program, by what `forebay run` counted.

use std::fmt;

use crate::harness::metric;
use crate::harness::statistics::Series;
use crate::run::counters::Counters;

/// A program that stalls for less of its time has little to gain.
const STALLS_LITTLE: f64 = 0.2;
/// Fewer stalls than that are not worth a copy.
const FEW_STALLS: f64 = 30.0;
/// Savings that are believed less have little effect.
const BELIEVED_MIN: f64 = 0.5;
/// The part of the hints, of the stalls or of the ends that counts as most of them.
const MOST: f64 = 0.5;

/// One reason, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The first that applies, in the order of how much it explains.
pub(super) fn reason(stall_share: f64, counters: &Counters) -> Reason {
    let of = |metric: &str| counters.get(metric).map_or(0.0, Series::median);
    let family = |family: &str| counters.family(family).map_or(0.0, |sum| sum.median());
    let kinds = |family: &str| largest(counters, family).unwrap_or_default();
    let (before, after) = (of("stalls_before"), of("stalls_after"));
    let ends = family("speculator_ends");
    let found = if stall_share < STALLS_LITTLE {
        format!("stalls take {:.0} % of its time", stall_share * 100.0)
    } else if counters.get("stalls_before").is_none() {
        "no statistics".to_owned()
    } else if of("processes_assisted") == 0.0 {
        format!("no agent: {}", kinds("processes_unassisted"))
    } else if family("agents_off") > 0.0 {
        format!("agent off: {}", kinds("agents_off"))
    } else if before < FEW_STALLS {
        format!("the agent saw {before:.0} stalls only")
    } else if counters.get(metric::SAVINGS_BELIEVED).is_some_and(|part| part.median() < BELIEVED_MIN) {
        format!("{:.0} % of the savings are believed", 100.0 * of(metric::SAVINGS_BELIEVED))
    } else if family("fork_crossings") > 0.0 {
        format!("paused, forks: {}", kinds("fork_crossings"))
    } else if of(metric::FORKS) == 0.0 {
        format!("no fork at {before:.0} stalls")
    } else if of("hints_late") > of("hints_used") {
        format!("{:.0} hints late, {:.0} in time", of("hints_late"), of("hints_used"))
    } else if after > before * MOST {
        let ended = if ends > 0.0 { format!("; ended: {}", kinds("speculator_ends")) } else { String::new() };
        format!("{after:.0} of {before:.0} stalls stay{ended}")
    } else if family("processes_unassisted") > 0.0 {
        format!("processes without agent: {}", kinds("processes_unassisted"))
    } else {
        format!("{:.0} of {before:.0} stalls saved, time lost otherwise", before - after)
    };
    Reason(found)
}

/// The member of a family that was counted most, in words.
fn largest(counters: &Counters, family: &str) -> Option<String> {
    let members = counters.counted().filter_map(|(metric, _)| {
        let member = metric.strip_prefix(family)?.strip_prefix('/')?;
        Some((member, counters.get(metric)?.median()))
    });
    let most = members.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.map(|(member, _)| member.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stall_share: f64, counted: &[(&str, f64)]) -> String {
        let mut counters = Counters::default();
        counted.iter().for_each(|(metric, value)| counters.push(*metric, "1", *value));
        reason(stall_share, &counters).to_string()
    }

    #[test]
    fn the_reason_that_explains_most_is_named() {
        let stalling = |more: &[(&str, f64)]| {
            let all = [("stalls_before", 100.0), ("stalls_after", 90.0), ("processes_assisted", 1.0)];
            said(0.8, &[all.as_slice(), more].concat())
        };
        assert_eq!(said(0.1, &[]), "stalls take 10 % of its time");
        assert_eq!(said(0.8, &[]), "no statistics");
        assert_eq!(
            said(0.8, &[("stalls_before", 0.0), ("processes_unassisted/static", 1.0)]),
            "no agent: static"
        );
        assert_eq!(
            said(0.8, &[("stalls_before", 3.0), ("processes_assisted", 1.0)]),
            "the agent saw 3 stalls only"
        );
        assert_eq!(
            stalling(&[("agents_off/no_jail", 1.0), ("agents_off/shared_memory", 2.0)]),
            "agent off: shared memory"
        );
        assert_eq!(stalling(&[("savings_believed", 0.25)]), "25 % of the savings are believed");
        assert_eq!(stalling(&[("savings_believed", 1.0)]), "no fork at 100 stalls");
        assert_eq!(stalling(&[]), "no fork at 100 stalls");
        assert_eq!(stalling(&[("forks", 1.0), ("hints_late", 9.0)]), "9 hints late, 0 in time");
        assert_eq!(
            stalling(&[("forks", 1.0), ("speculator_ends/signal", 1.0)]),
            "90 of 100 stalls stay; ended: signal"
        );
    }
}
