//! What changed between two runs of one command, and with what confidence.
//!
//! If the second runs take so many times what the first did, that many lies between the least and the largest ratio of
//! one value after to one before, unless all values of one side happened to be the larger ones: of n and m values that is
//! one order of C(n+m, n), on either side. So the extremes alone give an interval and its confidence (the interval that
//! belongs to the Wilcoxon-Mann-Whitney test), whatever the values' distribution is, and where each value is known, a
//! narrower interval of a chosen confidence.

use std::collections::{HashMap, HashSet};

use forebay_meter::Row;
use maud::{Markup, html};

use crate::{
    choose::{self, Entry},
    figure::Figure,
    quantity::Quantity,
    results::{Key, Results, key},
    summary,
};

/// The confidence that is asked of an interval where each value is known.
const CONFIDENCE: f64 = 0.95;
/// With less confidence nothing is said: two runs on each side give 67 %, three give 90 %.
const CONFIDENCE_MIN: f64 = 0.9;
/// Up to as many pairs of values the orders are counted; above, their number is close to a normal distribution.
const PAIRS_COUNTED: usize = 400;
/// The normal distribution has half of `1 - CONFIDENCE` below minus this.
const NORMAL_QUANTILE: f64 = 1.96;
/// Pairs that are looked at at all.
const PAIRS_MAX: usize = 1 << 20;

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
    /// The changes with their numbers: those that are certain first, the largest of them before the others.
    pub(crate) fn by_size(&self) -> Vec<(usize, &Change)> {
        let size = |change: &Change| change.ratio.map_or(0.0, |ratio| ratio.value.ln().abs());
        let mut changes: Vec<(usize, &Change)> = self.changes.iter().enumerate().collect();
        changes.sort_by(|(_, one), (_, other)| {
            other.is_certain().cmp(&one.is_certain()).then(size(other).total_cmp(&size(one)))
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
    fn is_certain(&self) -> bool {
        matches!(self.verdict, Verdict::More | Verdict::Less)
    }
}

/// A ratio of medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// Least ratio that is compatible with the values.
    pub low: f64,
    /// Largest ratio that is compatible with the values.
    pub high: f64,
    /// How often such an interval has the true ratio in it, as a share.
    pub confidence: f64,
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
/// There are none.
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

fn ratio(before: &Row, after: &Row) -> Ratio {
    let value = after.value / before.value;
    let pairs = before.values.len() * after.values.len();
    let complete = before.values.len() == before.runs as usize && after.values.len() == after.runs as usize;
    if !complete || pairs > PAIRS_MAX {
        let confidence = extremes_confidence(before.runs, after.runs);
        return Ratio { value, low: after.min / before.max, high: after.max / before.min, confidence };
    }
    let mut ratios: Vec<f64> = after
        .values
        .iter()
        .flat_map(|after| before.values.iter().map(move |before| after / before))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (left_out, confidence) = ends_left_out(before.values.len(), after.values.len());
    Ratio { value, low: ratios[left_out], high: ratios[pairs - 1 - left_out], confidence }
}

/// Confidence of the interval between the extreme ratios of `n` to `m` values: 1 - 2 / C(n+m, n).
fn extremes_confidence(n: u32, m: u32) -> f64 {
    let many = f64::from(n.max(m));
    // Of more than 64 the orders are beyond number.
    let orders = (1..=n.min(m).min(64)).map(f64::from).fold(1.0, |orders, one| orders * (many + one) / one);
    1.0 - 2.0 / orders
}

/// How many of the sorted ratios of `n` to `m` values can be left out at each end with [`CONFIDENCE`] kept, and the
/// confidence that is had then.
fn ends_left_out(n: usize, m: usize) -> (usize, f64) {
    if n * m > PAIRS_COUNTED {
        let (n, m) = (n as f64, m as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        return ((n * m / 2.0 - NORMAL_QUANTILE * deviation).floor().max(0.0) as usize, CONFIDENCE);
    }
    let orders = orders_by_inversions(n, m);
    let all: f64 = orders.iter().sum();
    let mut outside = 0.0;
    let mut left_out = 0;
    for (number, count) in orders.iter().enumerate() {
        let more = outside + 2.0 * count / all;
        if number > 0 && 1.0 - more < CONFIDENCE {
            break;
        }
        (outside, left_out) = (more, number);
    }
    (left_out, 1.0 - outside)
}

/// Of all orders of `n` and `m` values: how many have 0, 1, 2, ... pairs in which the second one is the smaller.
fn orders_by_inversions(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![vec![0.0; n * m + 1]; n + 1];
    counts.iter_mut().for_each(|of| of[0] = 1.0);
    for seconds in 1..=m {
        for firsts in 1..=n {
            for inversions in seconds..=firsts * seconds {
                counts[firsts][inversions] += counts[firsts - 1][inversions - seconds];
            }
        }
    }
    counts.swap_remove(n)
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
    let certain = comparison.by_size().into_iter().filter(|(_, change)| change.is_certain());
    let timed = certain.filter(|(_, change)| {
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
    use forebay_meter::{Report, Spread};

    use super::*;

    fn row(values: &[f64]) -> Row {
        Row::of("ld", "cloud/forebay", "elapsed", "s", Spread::of(values).unwrap())
    }

    fn without_values(values: &[f64]) -> Row {
        Row { values: Vec::new(), ..row(values) }
    }

    fn judged(before: &Row, after: &Row) -> Change {
        change(before, after, (0, 0))
    }

    #[test]
    fn orders_are_as_many_as_they_are() {
        // By hand: of two and two values there are six orders, with 0, 1, 2, 2, 3 and 4 inversions.
        assert_eq!(orders_by_inversions(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(orders_by_inversions(3, 1), [1.0; 4]);
        assert_eq!(orders_by_inversions(10, 10).iter().sum::<f64>(), 184_756.0);
    }

    #[test]
    fn extremes_alone_give_an_interval_with_its_confidence() {
        let ratio =
            judged(&without_values(&[1.0, 2.0, 4.0]), &without_values(&[8.0, 9.0, 10.0])).ratio.unwrap();
        assert_eq!((ratio.value, ratio.low, ratio.high), (4.5, 2.0, 10.0));
        assert!((ratio.confidence - 0.9).abs() < 1e-12, "{ratio:?}");
        assert!((extremes_confidence(5, 5) - (1.0 - 2.0 / 252.0)).abs() < 1e-12);
        assert!(extremes_confidence(1, 1).abs() < 1e-12);
        assert!(extremes_confidence(u32::MAX, 200) <= 1.0);
    }

    #[test]
    fn all_values_give_a_narrower_interval() {
        // Tabulated for n = m = 5: the critical value of U is 2 for a level of 5 %, so two ratios are left out at each end.
        let (left_out, confidence) = ends_left_out(5, 5);
        assert_eq!(left_out, 2);
        assert!((confidence - (1.0 - 8.0 / 252.0)).abs() < 1e-9, "{confidence}");
        // And 127 for n = m = 20 (exact), which the normal distribution agrees with for 21.
        assert_eq!(ends_left_out(20, 20).0, 127);
        assert!((127..=160).contains(&ends_left_out(21, 21).0));
        let (before, after) = ([1.0, 1.1, 1.2, 1.3, 1.4], [1.0, 2.0, 2.1, 2.2, 4.0]);
        let wide = judged(&without_values(&before), &without_values(&after)).ratio.unwrap();
        let narrow = judged(&row(&before), &row(&after)).ratio.unwrap();
        assert!(wide.low < narrow.low && narrow.high < wide.high, "{wide:?}, {narrow:?}");
    }

    #[test]
    fn the_interval_holds_the_true_ratio_as_often_as_it_says() {
        // All orders of three and three values that are equally likely: 2 of 20 leave the true ratio out.
        let mut held = 0;
        let orders: Vec<u32> = (0..64u32).filter(|order| order.count_ones() == 3).collect();
        for order in &orders {
            let side = |which: u32| -> Vec<f64> {
                (0..6).filter(|place| order >> place & 1 == which).map(|place| f64::from(place + 1)).collect()
            };
            let ratio = judged(&row(&side(0)), &row(&side(1))).ratio.unwrap();
            held += usize::from(ratio.low <= 1.0 && 1.0 <= ratio.high);
        }
        assert_eq!((held, orders.len()), (18, 20));
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
