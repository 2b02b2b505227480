//! All rows of a section as data, which the page's script makes tables of when they are asked for.
//!
//! A page has thousands of rows that a reader seldom opens: as tables they would be most of the page.

use forebay_results::Tier;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::{choose::Entry, quantity::Quantity, results::Results, section::Section};

/// What the script reads. Names are by their place in `words`.
#[derive(Serialize)]
struct Values<'a> {
    words: Vec<&'a str>,
    metrics: Vec<Metric<'a>>,
    tables: Vec<Table>,
}

/// Name, kind, and the seconds of a unit of time or the name of any other unit.
#[derive(Serialize)]
struct Metric<'a>(&'a str, &'static str, serde_json::Value);

/// A run, a tier, and rows: number, subject, case, metric, runs, median, and least and largest where these are others.
#[derive(Serialize)]
struct Table(usize, String, Vec<Vec<serde_json::Number>>);

/// Every row of `section`, for a table for each run and tier; here the links of all numbers lead.
pub(super) fn values(results: &Results, section: &Section) -> Markup {
    let mut values = Values { words: vec![], metrics: vec![], tables: vec![] };
    let mut known = Known::default();
    let mut left = section.entries.as_slice();
    for run in &section.runs {
        let (of_run, others) = left.split_at(results.runs[*run].report.rows.len());
        left = others;
        for tier in Tier::ALL {
            let of_tier = of_run.iter().filter(|entry| entry.row.tier == tier);
            let rows: Vec<_> = of_tier.map(|entry| known.row(&mut values, entry)).collect();
            if !rows.is_empty() {
                values.tables.push(Table(run + 1, tier.to_string(), rows));
            }
        }
    }
    // Nothing of it ends the element.
    let text = serde_json::to_string(&values).expect("words and numbers are JSON").replace('<', "\\u003c");
    html! {
        script.values type="application/json" { (PreEscaped(text)) }
        noscript { p { "The script of this page lists them; " code { "forebay report --csv" } " writes them to a file." } }
    }
}

/// Places of what there is already.
#[derive(Default)]
struct Known<'a> {
    words: std::collections::HashMap<&'a str, usize>,
    metrics: std::collections::HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Known<'a> {
    fn row(&mut self, values: &mut Values<'a>, entry: &Entry<'a>) -> Vec<serde_json::Number> {
        let row = entry.row;
        let mut word = |word: &'a str| {
            *self.words.entry(word).or_insert_with(|| {
                values.words.push(word);
                values.words.len() - 1
            })
        };
        let (subject, case) = (word(&row.subject), word(&row.case));
        let metric = *self.metrics.entry((&row.metric, &row.unit)).or_insert_with(|| {
            let (kind, each) = kind(Quantity::of(&row.metric, &row.unit));
            values.metrics.push(Metric(&row.metric, kind, each));
            values.metrics.len() - 1
        });
        let numbers = [entry.number, subject, case, metric, row.runs as usize];
        let mut all: Vec<serde_json::Number> = numbers.into_iter().map(Into::into).collect();
        all.push(short(row.value));
        if (row.min, row.max) != (row.value, row.value) {
            all.extend([short(row.min), short(row.max)]);
        }
        all
    }
}

/// As the script knows it.
fn kind(quantity: Quantity) -> (&'static str, serde_json::Value) {
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
fn short(value: f64) -> serde_json::Number {
    let digits = if value.abs() < 1e9 { 6 } else { 12 };
    let short: f64 = format!("{value:.digits$e}").parse().unwrap_or(value);
    if short == short.trunc() && short.abs() < 1e15 {
        return (short as i64).into();
    }
    serde_json::Number::from_f64(short).unwrap_or_else(|| 0.into())
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
