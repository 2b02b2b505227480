//! What `forebay run` counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use forebay_results::{Report, Row};

use crate::harness::metric;
use crate::harness::statistics::Series;

/// The case of the rows of `forebay run --json` that add up all processes.
const TOTAL: &str = "total";

/// Of these 0 is a result. Of the others, which are many, it says that something did not happen.
const TOLD_IF_ZERO: [&str; 3] = [metric::STALL_TIME, metric::FORKS, metric::MAJOR_FAULTS];

/// What describes one run and has no median: how it ended.
const OF_ONE_RUN: [&str; 2] = ["exit_status", "ended_by_signal"];

/// What `forebay run` counted over all processes of a run, one value a round.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Unit and values, by metric.
    series: BTreeMap<String, (String, Series)>,
}

impl Counters {
    /// Adds what was counted in one round.
    pub fn push(&mut self, metric: impl Into<String>, unit: impl Into<String>, value: f64) {
        self.series.entry(metric.into()).or_insert_with(|| (unit.into(), Series::default())).1.push(value);
    }

    /// The values of a metric; `None` where nobody counted.
    pub fn get(&self, metric: &str) -> Option<&Series> {
        self.series.get(metric).map(|(_, series)| series)
    }

    /// All metrics of a `FAMILY/MEMBER` together, round by round; `None` where nobody counted.
    pub fn family(&self, family: &str) -> Option<Series> {
        let members = self
            .series
            .iter()
            .filter(|(metric, _)| metric.strip_prefix(family).is_some_and(|member| member.starts_with('/')));
        members.map(|(_, (_, series))| series.clone()).reduce(|sum, more| sum.per_round_sum(&more))
    }

    /// Metric and unit of all that any run counted.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&str, &str)> {
        let counted = self.series.iter().filter(|(_, (_, series))| !series.is_zero());
        counted.map(|(metric, (unit, _))| (metric.as_str(), unit.as_str()))
    }

    /// Rows by the result schema. What is not among them was 0 in every run.
    pub(crate) fn rows(&self, subject: &str, case: &str) -> impl Iterator<Item = Row> {
        self.series.iter().filter_map(move |(metric, (unit, series))| {
            let told = !series.is_zero() || TOLD_IF_ZERO.contains(&metric.as_str());
            let spread = series.spread().filter(|_| told)?;
            Some(Row::of(subject, case, metric, unit, spread))
        })
    }
}

/// What `forebay run` wrote to `statistics` over all processes of a run, and the file removed. The time is taken by us,
/// on every side in the same way.
pub(crate) fn take_totals(statistics: &Path) -> impl Iterator<Item = Row> + use<> {
    let report = fs::read(statistics).ok().and_then(|text| serde_json::from_slice::<Report>(&text).ok());
    let _ = fs::remove_file(statistics);
    let rows = report.into_iter().flat_map(|report| report.rows);
    let is_counted =
        |metric: &str| metric != metric::ELAPSED && OF_ONE_RUN.iter().all(|other| !metric.starts_with(other));
    rows.filter(move |row| row.case == TOTAL && is_counted(&row.metric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(counted: &[(&str, [f64; 3])]) -> Counters {
        let mut counters = Counters::default();
        for (metric, values) in counted {
            values.iter().for_each(|&value| counters.push(*metric, "1", value));
        }
        counters
    }

    #[test]
    fn what_was_zero_in_every_run_has_no_row_unless_that_is_a_result() {
        let counters = counters(&[
            ("agents_off/no_slot", [0.0; 3]),
            ("hints_used", [0.0, 0.0, 8.0]),
            (metric::FORKS, [0.0; 3]),
        ]);
        let rows: Vec<Row> = counters.rows("sphinx", "ssd-1ms-q128/40 MiB/on").collect();
        let figures = |row: &Row| (row.metric.clone(), row.value, row.min, row.max, row.runs);
        assert_eq!(
            rows.iter().map(figures).collect::<Vec<_>>(),
            [("forks".to_owned(), 0.0, 0.0, 0.0, 3), ("hints_used".to_owned(), 0.0, 0.0, 8.0, 3)]
        );
        assert_eq!(counters.counted().collect::<Vec<_>>(), [("hints_used", "1")]);
    }

    #[test]
    fn what_describes_one_run_is_not_counted() {
        let row = |metric: &str| Row::once("grep", TOTAL, metric, "1", 1.0);
        let rows = ["exit_status", "ended_by_signal", metric::TRIALS_LESS, metric::FORKS].map(row);
        let report = Report::new("", "", rows.into());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("statistics");
        fs::write(&file, serde_json::to_string(&report).unwrap()).unwrap();
        let counted: Vec<String> = take_totals(&file).map(|row| row.metric).collect();
        assert_eq!(counted, [metric::TRIALS_LESS, metric::FORKS]);
    }

    #[test]
    fn a_family_is_added_up_round_by_round() {
        let counters = counters(&[("ends/one", [1.0, 0.0, 2.0]), ("ends/two", [1.0; 3]), ("ends", [9.0; 3])]);
        assert_eq!(counters.family("ends").unwrap().values(), [2.0, 1.0, 3.0]);
        assert_eq!(counters.family("end"), None);
    }
}
