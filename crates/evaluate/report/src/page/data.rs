//! Rows as data, which the page's script makes a table of when it is asked for.
//!
//! A page has thousands of rows that a reader seldom opens: as tables they would be most of the page.

use std::collections::HashMap;

use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::{Number, Value};

use crate::{
    compare::{Change, Comparison},
    experiment::Experiment,
    quantity::Quantity,
    results::Results,
};

/// What the script reads.
#[derive(Default, Serialize)]
struct Table<'a> {
    /// Names of the columns.
    heads: &'static [&'static str],
    /// A letter a column: a word, the metric, a value of the metric, a factor, a share, or a number.
    kinds: &'static str,
    /// Words and metrics are by their place here.
    words: Vec<&'a str>,
    metrics: Vec<Metric<'a>>,
    /// The number of the row, then its cells.
    rows: Vec<Vec<Value>>,
    #[serde(skip)]
    places: HashMap<&'a str, usize>,
    #[serde(skip)]
    known: HashMap<(&'a str, &'a str), usize>,
}

/// Name, kind, and the seconds of a unit of time or the name of any other unit.
#[derive(Serialize)]
struct Metric<'a>(&'a str, &'static str, Value);

const VALUES: [&str; 9] =
    ["subject", "case", "metric", "median", "least", "largest", "runs", "tier", "source"];
const CHANGES: [&str; 13] = [
    "subject",
    "case",
    "metric",
    "before",
    "after",
    "ratio",
    "at least",
    "at most",
    "confidence",
    "verdict",
    "runs before",
    "runs after",
    "tier",
];

/// Every row of `experiment`; here all marks of its figures lead.
pub(super) fn values<'a>(results: &'a Results, experiment: &Experiment<'a>) -> Markup {
    let mut table = Table { heads: &VALUES, kinds: "wwmqqqnww", ..Table::default() };
    let mut left = experiment.entries.as_slice();
    for run in &experiment.runs {
        let (of_run, others) = left.split_at(results.runs[*run].report.rows.len());
        left = others;
        for entry in of_run {
            let row = entry.row;
            let same = (row.min, row.max) == (row.value, row.value);
            let end = |value: f64| if same { Value::Null } else { short(value) };
            let cells = vec![
                entry.number.into(),
                table.word(&row.subject),
                table.word(&row.case),
                table.metric(&row.metric, &row.unit),
                short(row.value),
                end(row.min),
                end(row.max),
                row.runs.into(),
                table.word(row.tier.name()),
                table.word(&results.runs[*run].file),
            ];
            table.rows.push(cells);
        }
    }
    table.element()
}

/// Every change, the decided ones first.
pub(super) fn changes(comparison: &Comparison) -> Markup {
    let mut table = Table { heads: &CHANGES, kinds: "wwmqqfffswnnw", ..Table::default() };
    for (number, change) in comparison.by_size() {
        let cells = table.change(number, change);
        table.rows.push(cells);
    }
    table.element()
}

impl<'a> Table<'a> {
    fn change(&mut self, number: usize, change: &'a Change) -> Vec<Value> {
        let (before, after) = (&change.before, &change.after);
        let ratio = |pick: fn(&crate::Ratio) -> f64| {
            change.ratio.as_ref().map_or(Value::Null, |ratio| short(pick(ratio)))
        };
        vec![
            number.into(),
            self.word(&before.subject),
            self.word(&before.case),
            self.metric(&before.metric, &before.unit),
            short(before.value),
            short(after.value),
            ratio(|ratio| ratio.value),
            ratio(|ratio| ratio.low),
            ratio(|ratio| ratio.high),
            ratio(|ratio| ratio.confidence),
            self.word(change.verdict.name()),
            before.runs.into(),
            after.runs.into(),
            self.word(before.tier.name()),
        ]
    }

    fn word(&mut self, word: &'a str) -> Value {
        let words = &mut self.words;
        let place = *self.places.entry(word).or_insert_with(|| {
            words.push(word);
            words.len() - 1
        });
        place.into()
    }

    fn metric(&mut self, metric: &'a str, unit: &'a str) -> Value {
        let metrics = &mut self.metrics;
        let place = *self.known.entry((metric, unit)).or_insert_with(|| {
            let (kind, each) = kind(Quantity::of(metric, unit));
            metrics.push(Metric(metric, kind, each));
            metrics.len() - 1
        });
        place.into()
    }

    fn element(&self) -> Markup {
        // Nothing of it ends the element.
        let text = serde_json::to_string(self).expect("words and numbers are JSON").replace('<', "\\u003c");
        html! {
            script.values type="application/json" { (PreEscaped(text)) }
            noscript { p { "The script of this page lists them; " code { "forebay report --csv" } " writes them to a file." } }
        }
    }
}

/// As the script knows it.
fn kind(quantity: Quantity) -> (&'static str, Value) {
    match quantity {
        Quantity::Time(seconds_each) => ("time", seconds_each.into()),
        Quantity::Bytes => ("bytes", "".into()),
        Quantity::Share => ("share", "".into()),
        Quantity::Factor => ("factor", "".into()),
        Quantity::Flag => ("flag", "".into()),
        Quantity::Plain(unit) => ("plain", unit.into()),
    }
}

/// Enough of a value to show it and to sort by it. Results hold finite ones only.
fn short(value: f64) -> Value {
    let digits = if value.abs() < 1e9 { 6 } else { 12 };
    let short: f64 = format!("{value:.digits$e}").parse().unwrap_or(value);
    if short == short.trunc() && short.abs() < 1e15 {
        return (short as i64).into();
    }
    Number::from_f64(short).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_is_shown_of_them_and_no_more() {
        assert_eq!(short(3.0).to_string(), "3");
        assert_eq!(short(0.123_456_789).to_string(), "0.1234568");
        assert_eq!(short(-20_525.123_456).to_string(), "-20525.12");
        assert_eq!(short(123_456_789_012.0).to_string(), "123456789012");
        assert_eq!(short(5e300).as_f64(), Some(5e300));
    }
}
