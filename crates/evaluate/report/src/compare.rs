//! What changed between runs of one command, and what can be said of it.
//!
//! Runs are compared, not samples: of a row that several files have, the median of each file counts as one value. Samples
//! within one run are alike because they were taken one after the other, so all of them are one value, too.

use std::collections::HashMap;

use forebay_results::{Direction, Row, Spread};

use crate::{
    figure::Figure,
    interval::{Ratio, extremes_confidence, ratio},
    quantity::Quantity,
    question::{Entry, questions, spoken},
    results::{Key, Results, key},
};

/// With less confidence nothing is said: two runs on each side give 67 %, three give 90 %.
const CONFIDENCE_MIN: f64 = 0.9;

/// Whether something can be said with this confidence.
pub(crate) fn enough(confidence: f64) -> bool {
    confidence >= CONFIDENCE_MIN
}

/// The least effect that is told as a change, where no other is asked for: a share of the value before.
pub const LEAST_EFFECT: f64 = 0.05;

/// Rows that both sides have.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One entry a row of both, in the order of the rows before.
    pub changes: Vec<Change>,
    /// The least effect that is told as a change, as a share.
    pub least: f64,
    /// Rows that only the first runs have.
    pub only_before: usize,
    /// Rows that only the second runs have.
    pub only_after: usize,
}

impl Comparison {
    /// The changes with their numbers: those that are decided first, the largest of them before the others.
    pub(crate) fn by_size(&self) -> Vec<(usize, &Change)> {
        let size = |change: &Change| change.ratio.map_or(0.0, |ratio| ratio.value.ln().abs());
        let mut changes: Vec<(usize, &Change)> = self.changes.iter().enumerate().collect();
        changes.sort_by(|(_, one), (_, other)| {
            other.is_decided().cmp(&one.is_decided()).then(size(other).total_cmp(&size(one)))
        });
        changes
    }

    /// The changes by that share or more which the runs tell, and which `counts` by their direction.
    pub fn decided(&self, share: f64, counts: fn(Verdict) -> bool) -> Vec<&Change> {
        let judged = |change: &&Change| counts(change.judged(share)) && change.is_decided_at(share);
        self.changes.iter().filter(judged).collect()
    }

    /// How many values differ without the runs telling by how much, and whether the runs tell of any that differs.
    pub fn open(&self, share: f64) -> (usize, bool) {
        let verdicts: Vec<Verdict> = self.changes.iter().map(|change| change.judged(share)).collect();
        let open = verdicts.iter().filter(|verdict| **verdict == Verdict::Open).count();
        (open, verdicts.iter().any(|verdict| !matches!(verdict, Verdict::Open | Verdict::Same)))
    }
}

/// One quantity, before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As it was.
    pub before: Row,
    /// As it is.
    pub after: Row,
    /// Numbers of the runs.
    pub runs: (usize, usize),
    /// After over before; none where some value is not above 0.
    pub ratio: Option<Ratio>,
    /// What can be said.
    pub verdict: Verdict,
}

impl Change {
    fn of(before: &Row, after: &Row, runs: (usize, usize), least: f64) -> Self {
        let ratio = (before.min > 0.0 && after.min > 0.0).then(|| ratio(before, after));
        let mut change =
            Self { before: before.clone(), after: after.clone(), runs, ratio, verdict: Verdict::Open };
        change.verdict = change.judged(least);
        change
    }

    fn is_decided(&self) -> bool {
        self.verdict.is_decided()
    }

    /// Whether there are enough runs for its ratio to tell anything.
    pub(crate) fn is_told(&self) -> bool {
        self.ratio.is_some_and(|ratio| enough(ratio.confidence))
    }

    fn is_decided_at(&self, least: f64) -> bool {
        self.judged(least).is_decided()
    }

    /// The change as a share of the value before; infinite where that is 0.
    fn effect(&self) -> f64 {
        let (before, after) = (self.before.value, self.after.value);
        if before == after { 0.0 } else { ((after - before) / before).abs() }
    }

    /// What can be said, where less than the share `least` is no change.
    #[must_use]
    pub fn judged(&self, least: f64) -> Verdict {
        let (before, after) = (&self.before, &self.after);
        if before.min == before.max && (after.min, after.max) == (before.min, before.max) {
            return Verdict::Same;
        }
        let confidence =
            self.ratio.map_or_else(|| extremes_confidence(before.runs, after.runs), |one| one.confidence);
        if !enough(confidence) {
            return Verdict::Open;
        }
        let (more, less, near) = match self.ratio {
            Some(ratio) => {
                (ratio.low > 1.0, ratio.high < 1.0, ratio.low > 1.0 - least && ratio.high < 1.0 + least)
            }
            None => (after.min > before.max, after.max < before.min, false),
        };
        if near || ((more || less) && self.effect() < least) {
            return Verdict::Near;
        }
        match (more, less, Direction::of(&before.metric, &before.unit)) {
            (false, false, _) => Verdict::Open,
            (true, _, None) => Verdict::More,
            (_, _, None) => Verdict::Less,
            (true, _, Some(direction)) if direction.is_worse(f64::INFINITY) => Verdict::Worse,
            (_, true, Some(direction)) if direction.is_worse(0.0) => Verdict::Worse,
            (_, _, Some(_)) => Verdict::Better,
        }
    }
}

/// What can be said of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is better than before.
    Better,
    /// It is worse than before.
    Worse,
    /// It is more than before, which is neither better nor worse by itself.
    More,
    /// It is less than before, which is neither better nor worse by itself.
    Less,
    /// It changed by less than the least effect.
    Near,
    /// All values are equal.
    Same,
    /// The values do not tell.
    Open,
}

impl Verdict {
    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::More => "more",
            Self::Less => "less",
            Self::Near => "no change",
            Self::Same => "the same",
            Self::Open => "cannot tell",
        }
    }
}

impl Verdict {
    /// Whether it tells of a change.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::More | Self::Less)
    }
}

/// There is nothing to compare.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the two sides have no row in common, so there is nothing to compare; give results of the same command"
)]
pub struct NothingInCommon;

/// Compares the rows that `before` and `after` both have. Less than the share `least` is no change.
///
/// # Errors
/// They have no row in common.
pub fn compare(before: &Results, after: &Results, least: f64) -> Result<Comparison, NothingInCommon> {
    let (earlier, later) = (by_run(before), by_run(after));
    let places: HashMap<Key, usize> =
        later.iter().enumerate().map(|(place, (_, row))| (key(row), place)).collect();
    let changes: Vec<Change> = earlier
        .iter()
        .filter_map(|(run, row)| {
            let (other_run, other) = &later[*places.get(&key(row))?];
            Some(Change::of(row, other, (*run, *other_run), least))
        })
        .collect();
    if changes.is_empty() {
        return Err(NothingInCommon);
    }
    let only_before = earlier.len() - changes.len();
    let only_after = later.len() - changes.len();
    Ok(Comparison { changes, least, only_before, only_after })
}

/// Each quantity once, with the number of the first run that has it, and with a value for each run.
fn by_run(results: &Results) -> Vec<(usize, Row)> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut grouped: Vec<(usize, Vec<&Row>)> = Vec::new();
    for (run, row) in results.rows() {
        let place = *places.entry(key(row)).or_insert(grouped.len());
        match grouped.get_mut(place) {
            Some((_, rows)) => rows.push(row),
            None => grouped.push((run, vec![row])),
        }
    }
    grouped.into_iter().map(|(run, rows)| (run, of_runs(&rows))).collect()
}

/// The row of one quantity. The values of a single file are its own, where those are of several runs.
fn of_runs(rows: &[&Row]) -> Row {
    let first = rows[0];
    if rows.len() == 1 && !first.of_one_run {
        return first.clone();
    }
    let medians: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let spread = Spread::of(&medians).expect("there is a row");
    Row::of(&first.subject, &first.case, &first.metric, &first.unit, spread).with_tier(first.tier)
}

/// The figures of the ratios: those of quantities that changed first, then in the order of the rows.
pub(crate) fn figures(comparison: &Comparison) -> Vec<Figure> {
    let mut metrics: Vec<(&str, bool)> = Vec::new();
    for change in &comparison.changes {
        let decided = change.is_decided();
        match metrics.iter_mut().find(|(metric, _)| *metric == change.before.metric) {
            Some((_, any)) => *any |= decided,
            None => metrics.push((&change.before.metric, decided)),
        }
    }
    metrics.sort_by_key(|(_, decided)| !decided);
    metrics.into_iter().flat_map(|(metric, _)| ratio_figures(comparison, metric)).collect()
}

fn ratio_figures(comparison: &Comparison, metric: &str) -> Vec<Figure> {
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (number, change) in comparison.changes.iter().enumerate() {
        let Some(ratio) = change.ratio.filter(|_| change.before.metric == metric) else { continue };
        let (value, min, max) = (ratio.value, ratio.low.min(ratio.value), ratio.high.max(ratio.value));
        let row = Row { metric: "ratio".into(), unit: "1".into(), value, min, max, ..change.before.clone() };
        rows.push((number, row));
    }
    let entries: Vec<Entry> = rows.iter().map(|(number, row)| Entry { number: *number, row }).collect();
    let mut figures: Vec<Figure> = questions(&entries).into_iter().filter_map(|one| one.figure).collect();
    let several = figures.len() > 1;
    for figure in &mut figures {
        let of = figure.title.split_once(": ").filter(|_| several).map(|(_, of)| format!(": {of}"));
        figure.title = format!("Ratio of {}{}", spoken(metric).to_lowercase(), of.unwrap_or_default());
        figure.marks_mut().for_each(|mark| {
            let [low, value, high] = mark.values().map(|value| Quantity::Factor.show(value));
            mark.note = format!("{value}, interval {low} to {high}");
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use forebay_results::Report;

    use super::*;

    fn row(values: &[f64]) -> Row {
        Row::of("ld", "ssd-1ms-q128/forebay", "elapsed", "s", Spread::of(values).unwrap())
    }

    fn judged(before: &Row, after: &Row) -> Change {
        Change::of(before, after, (0, 0), LEAST_EFFECT)
    }

    fn results(files: Vec<Vec<Row>>) -> Results {
        let mut results = Results::default();
        for (number, rows) in files.into_iter().enumerate() {
            let text = serde_json::to_string(&Report::new("r", "c", rows)).unwrap();
            results.add(&format!("{number}.json"), &text).unwrap();
        }
        results
    }

    #[test]
    fn verdicts_need_ranges_apart_and_enough_runs() {
        let verdict = |before: &[f64], after: &[f64]| judged(&row(before), &row(after)).verdict;
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2]), Verdict::Worse);
        assert_eq!(verdict(&[2.0, 2.1, 2.2], &[1.0, 1.1, 1.2]), Verdict::Better);
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[1.1, 1.2, 1.3]), Verdict::Open);
        assert_eq!(verdict(&[1.0], &[9.0]), Verdict::Open);
        assert_eq!(verdict(&[1.0, 1.1], &[9.0, 9.1]), Verdict::Open);
        assert_eq!(verdict(&[3.0], &[3.0]), Verdict::Same);
        assert_eq!(verdict(&[0.0, 0.0, 0.0], &[1.0, 1.0, 2.0]), Verdict::Worse);
        assert_eq!(verdict(&[-2.0, -1.0, 0.0], &[-1.0, 0.0, 1.0]), Verdict::Open);
    }

    #[test]
    fn less_than_the_least_effect_is_no_change() {
        let (before, after) = (row(&[1.0, 1.001, 1.002]), row(&[1.03, 1.031, 1.032]));
        assert_eq!(judged(&before, &after).verdict, Verdict::Near);
        assert_eq!(Change::of(&before, &after, (0, 0), 0.02).verdict, Verdict::Worse);
        // Not told apart, and too near to matter.
        assert_eq!(judged(&row(&[1.0, 1.01, 1.02]), &row(&[1.0, 1.02, 1.03])).verdict, Verdict::Near);
    }

    #[test]
    fn the_direction_tells_better_from_worse() {
        let of = |metric: &str, unit: &str| {
            let as_metric = |values: &[f64]| Row { metric: metric.into(), unit: unit.into(), ..row(values) };
            judged(&as_metric(&[1.0, 1.1, 1.2]), &as_metric(&[2.0, 2.1, 2.2])).verdict
        };
        assert_eq!(of("throughput", "MB/s"), Verdict::Better);
        assert_eq!(of("latency", "ns"), Verdict::Worse);
        assert_eq!(of("requests", "1"), Verdict::More);
    }

    #[test]
    fn samples_of_one_run_are_one_value() {
        let samples = |values: &[f64]| row(values).of_samples(Some(true));
        let (before, after) = ([1.0, 1.01, 1.02, 1.03], [2.0, 2.01, 2.02, 2.03]);
        let verdict = |before: Results, after: Results| {
            let change = compare(&before, &after, LEAST_EFFECT).unwrap().changes.remove(0);
            (change.before.runs, change.after.runs, change.verdict)
        };
        let one = |values: &[f64]| results(vec![vec![samples(values)]]);
        assert_eq!(verdict(one(&before), one(&after)), (1, 1, Verdict::Open));
        let three = |values: &[f64]| results(vec![vec![samples(values)]; 3]);
        assert_eq!(verdict(three(&before), three(&after)), (3, 3, Verdict::Worse));
        // Runs that scatter more than their samples do decide.
        let scattered = |shift: f64| {
            results([1.0, 1.5, 2.0].map(|run| vec![samples(&[run + shift, run + shift + 0.01])]).to_vec())
        };
        assert_eq!(verdict(scattered(0.0), scattered(0.3)), (3, 3, Verdict::Open));
    }

    #[test]
    fn what_should_fail_is_found_by_its_own_share() {
        let comparison = |after: &[f64]| {
            let before = results(vec![vec![row(&[1.0, 1.001, 1.002])]]);
            compare(&before, &results(vec![vec![row(after)]]), LEAST_EFFECT).unwrap()
        };
        let worse = |after: &[f64], share| {
            comparison(after).decided(share, |verdict| verdict == Verdict::Worse).len()
        };
        assert_eq!(worse(&[1.03, 1.031, 1.032], 0.05), 0);
        assert_eq!(worse(&[1.03, 1.031, 1.032], 0.02), 1);
        assert_eq!(worse(&[1.5, 1.6, 1.7], 0.05), 1);
        assert_eq!(worse(&[0.5, 0.6, 0.7], 0.05), 0);
        assert_eq!(comparison(&[0.5, 0.6, 0.7]).decided(0.05, Verdict::is_decided).len(), 1);
    }

    #[test]
    fn what_the_runs_do_not_tell_is_counted() {
        let side = |values: &[f64], other: &[f64]| {
            let other = Row { subject: "grep".into(), ..row(other) };
            results(vec![vec![row(values), other]])
        };
        let open = |before: Results, after: Results| compare(&before, &after, 0.05).unwrap().open(0.05);
        let three = [1.0, 1.1, 1.2];
        assert_eq!(open(side(&[1.0], &three), side(&[2.0], &[2.0, 2.1, 2.2])), (1, true));
        assert_eq!(open(side(&[1.0], &[1.0]), side(&[2.0], &[2.0])), (2, false));
        // That a number is the same says nothing of the one that differs.
        assert_eq!(open(side(&[1.0], &[3.0]), side(&[2.0], &[3.0])), (1, false));
        assert_eq!(open(side(&[3.0], &[3.0]), side(&[3.0], &[3.0])), (0, false));
    }

    #[test]
    fn rows_are_matched_and_the_others_counted() {
        let other = |subject: &str| Row { subject: subject.into(), ..row(&[1.0, 1.0, 1.0]) };
        let before = results(vec![vec![other("same"), other("gone"), row(&[1.0, 1.1, 1.2])]]);
        let after = results(vec![vec![row(&[4.0, 4.4, 4.8]), other("new"), other("new too"), other("same")]]);
        let comparison = compare(&before, &after, LEAST_EFFECT).unwrap();
        assert_eq!((comparison.changes.len(), comparison.only_before, comparison.only_after), (2, 1, 2));
        assert_eq!(comparison.by_size()[0].1.before.subject, "ld");
        let nothing = compare(&results(vec![vec![other("x")]]), &after, LEAST_EFFECT);
        assert_eq!(nothing, Err(NothingInCommon));
    }
}
