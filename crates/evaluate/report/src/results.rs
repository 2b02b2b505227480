//! Results that were read, and what is refused.

use std::collections::HashSet;

use forebay_results::{ReadError, Report, Row, SCHEMA};
use serde_json::Value;

/// What several files hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// One entry a report, in the order they were read.
    pub runs: Vec<Run>,
    /// A sentence on each file that was left out.
    pub left_out: Vec<String>,
}

/// What one command measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Name of the file.
    pub file: String,
    /// What it holds.
    pub report: Report,
}

/// Why a file is no results: each names the file, and where it is about one, the row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences say what the fields are")]
pub enum Refusal {
    /// It is something else altogether.
    #[error("'{file}' is not JSON ({reason}); give a file that a command wrote with --json")]
    NotJson { file: String, reason: String },
    /// It is JSON of something else.
    #[error("'{file}' is JSON but not results ({reason}); give a file that a command wrote with --json")]
    NotResults { file: String, reason: String },
    /// A later version wrote it.
    #[error(
        "'{file}' has results of schema {found}, and this forebay reads schemas 1 to {SCHEMA}; use the version that wrote \
         it, or a later one"
    )]
    UnknownSchema { file: String, found: Value },
    /// There is nothing to show.
    #[error("'{file}' has no rows, so nothing was measured; run its command again, to its end")]
    NoRows { file: String },
    /// No measurement gives such a row.
    #[error("'{file}' has a row that cannot be measured, {row}: {why}; measure again")]
    Impossible { file: String, row: String, why: String },
    /// Which of the two is right cannot be told.
    #[error("'{file}' has the row {row} twice; leave one of them out, or measure again")]
    Twice { file: String, row: String },
}

impl Results {
    /// Takes in the text of a file: a report, or a list of them as [`json`](crate::json) writes it. A file that is
    /// refused leaves nothing behind. Several may have measured the same; a row is there once in each.
    ///
    /// # Errors
    /// It is not JSON, not results, of another schema, without rows, or has a row twice.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), Refusal> {
        let reports = reports(file, text)?;
        let mut seen: HashSet<(usize, Key)> = HashSet::new();
        let rows = reports.iter().enumerate();
        for (run, row) in rows.flat_map(|(run, report)| report.rows.iter().map(move |row| (run, row))) {
            let named = || format!("'{}, {}, {}'", row.subject, row.case, row.metric);
            if let Some(why) = impossible(row) {
                return Err(Refusal::Impossible { file: file.into(), row: named(), why });
            }
            if !seen.insert((run, key(row))) {
                return Err(Refusal::Twice { file: file.into(), row: named() });
            }
        }
        self.runs.extend(reports.into_iter().map(|report| Run { file: file.into(), report }));
        Ok(())
    }

    /// All rows with the number of their run.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.runs.iter().enumerate().flat_map(|(run, of)| of.report.rows.iter().map(move |row| (run, row)))
    }
}

/// What no measurement gives, if the row has that.
fn impossible(row: &Row) -> Option<String> {
    if row.runs == 0 {
        return Some("it is of no run".into());
    }
    if !(row.min <= row.value && row.value <= row.max) {
        return Some("its median is not between its least and largest value".into());
    }
    let values = row.values.len();
    // Values that the median and the extremes tell are absent.
    (values > 0 && values != row.runs as usize)
        .then(|| format!("it has {values} values of {} runs", row.runs))
}

/// What tells a row from all others. Two tiers may know the same quantity.
pub(crate) type Key<'a> = (&'a str, &'a str, &'a str, &'a str, u8);

pub(crate) fn key(row: &Row) -> Key<'_> {
    (&row.subject, &row.case, &row.metric, &row.unit, row.tier as u8)
}

fn reports(file: &str, text: &str) -> Result<Vec<Report>, Refusal> {
    // RFC 8259, 8.1: a byte order mark may be ignored.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut value: Value = serde_json::from_str(text)
        .map_err(|error| Refusal::NotJson { file: file.into(), reason: error.to_string() })?;
    show_controls(&mut value);
    let values = match value {
        Value::Array(values) if values.is_empty() => return Err(Refusal::NoRows { file: file.into() }),
        Value::Array(values) => values,
        one => vec![one],
    };
    values.into_iter().map(|value| report(file, value)).collect()
}

/// Gives all texts a mark in place of control characters, which pages cannot have and terminals obey. Lines and tabulators
/// stay, which commands may have.
fn show_controls(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_hidden = |char: char| char.is_control() && char != '\n' && char != '\t';
            if text.contains(is_hidden) {
                *text = text.replace(is_hidden, "\u{fffd}");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(show_controls),
        Value::Object(fields) => fields.values_mut().for_each(show_controls),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn report(file: &str, value: Value) -> Result<Report, Refusal> {
    let report = Report::read(value).map_err(|error| match error {
        ReadError::NotResults(reason) => Refusal::NotResults { file: file.into(), reason },
        ReadError::UnknownSchema(found) => Refusal::UnknownSchema { file: file.into(), found },
    })?;
    if report.rows.is_empty() { Err(Refusal::NoRows { file: file.into() }) } else { Ok(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str) -> Row {
        Row::once(subject, "ssd-1ms-q128/forebay", "elapsed", "s", 1.0)
    }

    fn text(rows: Vec<Row>) -> String {
        serde_json::to_string(&Report::new("r", "c", rows)).unwrap()
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        let mut results = Results::default();
        results.add("other.json", &self::text(vec![row("ld")])).unwrap();
        let before = results.clone();
        let sentence = results.add("a.json", text).unwrap_err().to_string();
        assert_eq!(results, before);
        assert!(sentence.starts_with("'a.json' ") && !sentence.contains('\n'), "{sentence}");
        sentence
    }

    #[test]
    fn what_is_no_results_is_refused_in_a_sentence() {
        assert!(refused("PNG").contains("is not JSON (expected value at line 1 column 1)"));
        assert!(refused("").contains("is not JSON"));
        assert!(refused("{}").contains("not results (it has no field 'schema')"));
        assert!(refused("[3]").contains("not results"));
        assert!(refused(r#"{"schema":1}"#).contains("missing field `revision`"));
        assert!(
            refused(r#"{"schema":7,"new":true}"#)
                .contains("of schema 7, and this forebay reads schemas 1 to 2")
        );
        assert!(refused(&text(vec![])).contains("no rows") && refused("[]").contains("no rows"));
        let no_number = text(vec![Row::once("a", "b", "c", "s", f64::NAN)]);
        assert!(refused(&no_number).contains("invalid type: null"));
    }

    #[test]
    fn a_row_is_there_once_in_each_run() {
        assert!(
            refused(&text(vec![row("a"), row("a")])).contains("row 'a, ssd-1ms-q128/forebay, elapsed' twice")
        );
        let mut results = Results::default();
        for file in ["a.json", "b.json"] {
            results.add(file, &text(vec![row("a"), row("ld")])).unwrap();
        }
        assert_eq!(results.rows().count(), 4);
        let mut simulated = row("a");
        simulated.tier = forebay_results::Tier::Simulated;
        Results::default().add("a.json", &text(vec![row("a"), simulated])).unwrap();
    }

    #[test]
    fn what_cannot_be_measured_is_told_with_its_row() {
        let changed = |change: fn(&mut Row)| {
            let mut row = row("a");
            change(&mut row);
            refused(&text(vec![row]))
        };
        let sentence = changed(|row| row.min = 2.0);
        assert!(sentence.contains("cannot be measured, 'a, ssd-1ms-q128/forebay, elapsed'"), "{sentence}");
        assert!(sentence.contains("its median is not between its least and largest value"), "{sentence}");
        assert!(changed(|row| row.runs = 0).contains(": it is of no run; "));
        let few = changed(|row| (row.runs, row.values) = (3, vec![1.0, 1.0]));
        assert!(few.contains(": it has 2 values of 3 runs; "), "{few}");
    }

    #[test]
    fn texts_have_no_control_characters_and_files_may_have_a_byte_order_mark() {
        let mut results = Results::default();
        let rows = vec![row("a\0b\u{1b}[31m")];
        let text = serde_json::to_string(&Report::new("r", "sh -c 'a\nb'", rows)).unwrap();
        results.add("a.json", &format!("\u{feff}{text}")).unwrap();
        let report = &results.runs[0].report;
        assert_eq!((&*report.rows[0].subject, &*report.command), ("a\u{fffd}b\u{fffd}[31m", "sh -c 'a\nb'"));
    }

    #[test]
    fn a_list_of_reports_is_as_good_as_several_files() {
        let mut results = Results::default();
        results.add("all.json", &format!("[{},{}]", text(vec![row("a")]), text(vec![row("b")]))).unwrap();
        assert_eq!(results.runs.len(), 2);
        assert_eq!(results.rows().map(|(run, _)| run).collect::<Vec<_>>(), [0, 1]);
    }
}
