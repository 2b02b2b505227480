//! Whether what a run needs was foretold.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::need::Need;
use crate::path;
use crate::plan::{Act, Plan};
use crate::spans::PAGE_BYTES;

/// What a plan fetches, by path.
#[derive(Clone, Debug, Default)]
pub struct Foretold(HashMap<Vec<u8>, Vec<Range<u64>>>);

impl Foretold {
    /// All that is left of the plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut paths: HashMap<Vec<u8>, Vec<Range<u64>>> = HashMap::new();
        for (path, act) in plan.rest() {
            let ranges = paths.entry(path.to_vec()).or_default();
            if let Act::Data { range, .. } = act {
                ranges.push(range.clone());
            }
        }
        Self(paths)
    }

    /// Whether this need is met: its path, and a part of its data where it has any.
    #[must_use]
    pub fn has(&self, need: &Need) -> bool {
        self.0.get(&need.path).is_some_and(|ranges| {
            need.range.is_empty() || ranges.iter().any(|range| overlap(range, &need.range) > 0)
        })
    }

    /// The folders in which something is foretold.
    #[must_use]
    pub fn folders(&self) -> HashSet<&[u8]> {
        self.0.keys().map(|path| path::split(path).0).collect()
    }

    /// Bytes that are fetched and that none of these needs touches the page of.
    #[must_use]
    pub fn unused_bytes(&self, needs: &[Need]) -> u64 {
        let mut touched: HashMap<&[u8], Vec<Range<u64>>> = HashMap::new();
        for need in needs.iter().filter(|need| !need.range.is_empty()) {
            let pages =
                need.range.start / PAGE_BYTES * PAGE_BYTES..need.range.end.next_multiple_of(PAGE_BYTES);
            touched.entry(&need.path).or_default().push(pages);
        }
        touched.values_mut().for_each(|ranges| *ranges = merged(std::mem::take(ranges)));
        let used = |path: &[u8], fetched: &Range<u64>| -> u64 {
            let ranges = touched.get(path).map_or(&[][..], Vec::as_slice);
            let first = ranges.partition_point(|range| range.end <= fetched.start);
            let reached = ranges[first..].iter().take_while(|range| range.start < fetched.end);
            reached.map(|range| overlap(range, fetched)).sum()
        };
        self.0
            .iter()
            .flat_map(|(path, ranges)| ranges.iter().map(move |range| (path, range)))
            .map(|(path, range)| (range.end - range.start).saturating_sub(used(path, range)))
            .sum()
    }
}

fn overlap(left: &Range<u64>, right: &Range<u64>) -> u64 {
    left.end.min(right.end).saturating_sub(left.start.max(right.start))
}

/// The same bytes, each once, in order.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut whole: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match whole.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => whole.push(range),
        }
    }
    whole
}
