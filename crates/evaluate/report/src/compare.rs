//! What changed between two runs of one command, and what can be said of it.

use std::collections::{HashMap, HashSet};

use forebay_results::Row;
use maud::{Markup, html};

use crate::{
    choose::{self, Entry},
    figure::Figure,
    interval::{Ratio, extremes_confidence, ratio},
    quantity::Quantity,
    results::{Key, Results, key},
    summary,
};

/// With less confidence nothing is said: two runs on each side give 67 %, three give 90 %.
const CONFIDENCE_MIN: f64 = 0.9;

/// Rows that both sides have.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One entry a row of both, in the order of the rows before.
    pub changes: Vec<Change>,
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
    fn is_decided(&self) -> bool {
        matches!(self.verdict, Verdict::More | Verdict::Less)
    }
}

/// What can be said of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is more than before.
    More,
    /// It is less than before.
    Less,
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
            Self::More => "more",
            Self::Less => "less",
            Self::Same => "the same",
            Self::Open => "cannot tell",
        }
    }
}

/// There is nothing to compare.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the two sides have no row in common, so there is nothing to compare; give results of the same command"
)]
pub struct NothingInCommon;

/// Compares the rows that `before` and `after` both have.
///
/// # Errors
/// They have no row in common.
pub fn compare(before: &Results, after: &Results) -> Result<Comparison, NothingInCommon> {
    let later: HashMap<Key, (usize, &Row)> = after.rows().map(|(run, row)| (key(row), (run, row))).collect();
    let earlier: HashSet<Key> = before.rows().map(|(_, row)| key(row)).collect();
    let changes: Vec<Change> = before
        .rows()
        .filter_map(|(run, row)| {
            let (other_run, other) = later.get(&key(row))?;
            Some(change(row, other, (run, *other_run)))
        })
        .collect();
    if changes.is_empty() {
        return Err(NothingInCommon);
    }
    let only_before = earlier.len() - changes.len();
    let only_after = later.len() - changes.len();
    Ok(Comparison { changes, only_before, only_after })
}

fn change(before: &Row, after: &Row, runs: (usize, usize)) -> Change {
    let ratio = (before.min > 0.0 && after.min > 0.0).then(|| ratio(before, after));
    let confidence = ratio.map_or_else(|| extremes_confidence(before.runs, after.runs), |one| one.confidence);
    let (more, less) = match ratio {
        Some(ratio) => (ratio.low > 1.0, ratio.high < 1.0),
        None => (after.min > before.max, after.max < before.min),
    };
    let verdict =
        match (before.min == before.max && (after.min, after.max) == (before.min, before.max), more, less) {
            (true, ..) => Verdict::Same,
            (_, true, _) if confidence >= CONFIDENCE_MIN => Verdict::More,
            (_, _, true) if confidence >= CONFIDENCE_MIN => Verdict::Less,
            _ => Verdict::Open,
        };
    Change { before: before.clone(), after: after.clone(), runs, ratio, verdict }
}

/// The figures of the ratios: of what was measured on most sides.
pub(crate) fn figures(comparison: &Comparison) -> Vec<Figure> {
    let mut metrics: Vec<(&str, usize)> = Vec::new();
    for change in &comparison.changes {
        match metrics.iter_mut().find(|(metric, _)| *metric == change.before.metric) {
            Some((_, count)) => *count += 1,
            None => metrics.push((&change.before.metric, 1)),
        }
    }
    let most = metrics.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let shown = metrics.into_iter().filter(|(_, count)| 4 * count >= 3 * most);
    shown.flat_map(|(metric, _)| ratio_figures(comparison, metric)).collect()
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
    let mut figures = choose::figures(&entries);
    for figure in &mut figures {
        figure.title = format!("Ratio of {}", choose::spoken(metric).to_lowercase());
        figure.marks_mut().for_each(|mark| {
            let [low, value, high] = mark.values().map(|value| Quantity::Factor.show(value));
            mark.note = format!("{value}, interval {low} to {high}");
        });
    }
    figures
}

/// What was compared.
pub(crate) fn compared(comparison: &Comparison) -> String {
    let all = summary::counted(comparison.changes.len(), "value", "values");
    format!("{all} that both sides have, after against before.")
}

/// What came of the comparison, and how far it can be trusted.
pub(crate) fn sentences(before: &Results, after: &Results, comparison: &Comparison) -> Vec<Markup> {
    let changes = &comparison.changes;
    let number = |verdict| changes.iter().filter(|change| change.verdict == verdict).count();
    let count = |verdict| summary::grouped(number(verdict));
    let mut sentences = vec![html! {
        (count(Verdict::More)) " values are more than before, " (count(Verdict::Less)) " less, " (count(Verdict::Same))
        " the same; of " (count(Verdict::Open)) " the runs do not tell."
    }];
    let decided = comparison.by_size().into_iter().filter(|(_, change)| change.is_decided());
    let timed = decided.filter(|(_, change)| {
        matches!(Quantity::of(&change.before.metric, &change.before.unit), Quantity::Time(_))
    });
    let largest: Vec<_> =
        timed.filter_map(|(number, change)| Some((number, change, change.ratio?))).take(3).collect();
    if !largest.is_empty() {
        sentences.push(html! {
            "The largest changes of durations: "
            @for (place, (number, change, ratio)) in largest.iter().enumerate() {
                @if place > 0 { ", " }
                (change.before.metric) " of " (change.before.subject) ", " (change.before.case) " "
                a href={ "#r" (number) } { (Quantity::Factor.show(ratio.value)) }
            }
            "."
        });
    }
    let doubts =
        changes.iter().filter_map(|change| change.ratio).filter(|ratio| ratio.confidence >= CONFIDENCE_MIN);
    let (judged, by_chance) =
        doubts.fold((0, 0.0), |(judged, sum), ratio| (judged + 1, sum + 1.0 - ratio.confidence));
    if judged > 0 {
        sentences.push(html! {
            "Each interval has the true ratio in it with the confidence beside it, if the runs are independent. By chance alone, about "
            (summary::grouped(by_chance.round() as usize)) " of the " (summary::grouped(judged)) " intervals would leave 1 out."
        });
    }
    let unjudged = changes
        .iter()
        .filter(|change| extremes_confidence(change.before.runs, change.after.runs) < CONFIDENCE_MIN)
        .count();
    if unjudged > 0 {
        sentences.push(html! {
            (summary::counted(unjudged, "value has", "values have")) " too few runs to tell anything; it takes three on each side."
        });
    }
    let missing = comparison.only_before + comparison.only_after;
    if missing > 0 {
        sentences.push(html! {
            (summary::grouped(comparison.only_before)) " values are of before alone, " (summary::grouped(comparison.only_after))
            " of after alone; they are left out."
        });
    }
    if before.runs.iter().zip(&after.runs).any(|(one, other)| one.report.host != other.report.host) {
        sentences.push(
            html! { strong { "The machines differ" } ", so this compares machines as much as programs." },
        );
    }
    for left_out in before.left_out.iter().chain(&after.left_out) {
        sentences.push(html! { "Left out: " (left_out) "." });
    }
    sentences
}

#[cfg(test)]
mod tests {
    use forebay_results::{Report, Spread};

    use super::*;

    fn row(values: &[f64]) -> Row {
        Row::of("ld", "ssd-1ms-q128/forebay", "elapsed", "s", Spread::of(values).unwrap())
    }

    fn judged(before: &Row, after: &Row) -> Change {
        change(before, after, (0, 0))
    }

    #[test]
    fn verdicts_need_ranges_apart_and_enough_runs() {
        let verdict = |before: &[f64], after: &[f64]| judged(&row(before), &row(after)).verdict;
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2]), Verdict::More);
        assert_eq!(verdict(&[2.0, 2.1, 2.2], &[1.0, 1.1, 1.2]), Verdict::Less);
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[1.1, 1.2, 1.3]), Verdict::Open);
        assert_eq!(verdict(&[1.0], &[9.0]), Verdict::Open);
        assert_eq!(verdict(&[1.0, 1.1], &[9.0, 9.1]), Verdict::Open);
        assert_eq!(verdict(&[3.0], &[3.0]), Verdict::Same);
        assert_eq!(verdict(&[0.0, 0.0, 0.0], &[1.0, 1.0, 2.0]), Verdict::More);
        assert_eq!(verdict(&[-2.0, -1.0, 0.0], &[-1.0, 0.0, 1.0]), Verdict::Open);
    }

    #[test]
    fn rows_are_matched_and_the_others_counted() {
        let results = |rows: Vec<Row>| {
            let mut results = Results::default();
            results.add("a.json", &serde_json::to_string(&Report::new("r", "c", rows)).unwrap()).unwrap();
            results
        };
        let other = |subject: &str| Row { subject: subject.into(), ..row(&[1.0, 1.0, 1.0]) };
        let before = results(vec![other("same"), other("gone"), row(&[1.0, 1.1, 1.2])]);
        let after = results(vec![row(&[4.0, 4.4, 4.8]), other("new"), other("new too"), other("same")]);
        let comparison = compare(&before, &after).unwrap();
        assert_eq!((comparison.changes.len(), comparison.only_before, comparison.only_after), (2, 1, 2));
        assert_eq!(comparison.by_size()[0].1.before.subject, "ld");
        assert_eq!(compare(&results(vec![other("x")]), &after), Err(NothingInCommon));
    }
}
