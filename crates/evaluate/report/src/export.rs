//! Rows for other programs.

use forebay_results::Tier;
use serde::Serialize;

use crate::{compare::Comparison, results::Results};

/// A row with all that is known of its run.
#[derive(Serialize)]
struct Line<'a> {
    subject: &'a str,
    case: &'a str,
    metric: &'a str,
    unit: &'a str,
    value: f64,
    min: f64,
    max: f64,
    runs: u32,
    tier: Tier,
    revision: &'a str,
    command: &'a str,
    kernel: &'a str,
    cpu: &'a str,
    cores: usize,
    memory_bytes: u64,
    file: &'a str,
}

/// Every row as a line of CSV (RFC 4180, lines end with a line feed), with names in the first line.
#[must_use]
pub fn csv(results: &Results) -> String {
    lines(results.rows().map(|(run, row)| {
        let of = &results.runs[run];
        let (report, host) = (&of.report, &of.report.host);
        Line {
            subject: &row.subject,
            case: &row.case,
            metric: &row.metric,
            unit: &row.unit,
            value: row.value,
            min: row.min,
            max: row.max,
            runs: row.runs,
            tier: row.tier,
            revision: &report.revision,
            command: &report.command,
            kernel: &host.kernel,
            cpu: &host.cpu,
            cores: host.cores,
            memory_bytes: host.memory_bytes,
            file: &of.file,
        }
    }))
}

/// A quantity before and after.
#[derive(Serialize)]
struct ChangeLine<'a> {
    subject: &'a str,
    case: &'a str,
    metric: &'a str,
    unit: &'a str,
    before: f64,
    after: f64,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    confidence: Option<f64>,
    verdict: &'a str,
    tier: Tier,
}

/// Every change as a line of CSV, with names in the first line.
#[must_use]
pub fn comparison_csv(comparison: &Comparison) -> String {
    lines(comparison.changes.iter().map(|change| ChangeLine {
        subject: &change.before.subject,
        case: &change.before.case,
        metric: &change.before.metric,
        unit: &change.before.unit,
        before: change.before.value,
        after: change.after.value,
        ratio: change.ratio.map(|ratio| ratio.value),
        low: change.ratio.map(|ratio| ratio.low),
        high: change.ratio.map(|ratio| ratio.high),
        confidence: change.ratio.map(|ratio| ratio.confidence),
        verdict: change.verdict.name(),
        tier: change.before.tier,
    }))
}

fn lines(lines: impl Iterator<Item = impl Serialize>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.serialize(line).expect("memory takes every line, and all have the same fields");
    }
    let bytes = writer.into_inner().expect("memory takes every line");
    String::from_utf8(bytes).expect("text and numbers are UTF-8")
}

/// All reports as indented JSON: one as its command wrote it, several as a list, so that each row keeps its run. Both
/// are read again by [`Results::add`].
#[must_use]
pub fn json(results: &Results) -> String {
    let reports: Vec<_> = results.runs.iter().map(|run| &run.report).collect();
    let text = match reports.as_slice() {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    text.expect("a report has no maps with odd keys") + "\n"
}

#[cfg(test)]
mod tests {
    use forebay_results::{Report, Row};

    use super::*;

    fn results(subjects: &[&str]) -> Results {
        let mut results = Results::default();
        for subject in subjects {
            let report = Report::new(
                "abc",
                "forebay evaluate",
                vec![Row::once(*subject, "a/b", "elapsed", "s", 0.25)],
            );
            results.add("a.json", &serde_json::to_string(&report).unwrap()).unwrap();
        }
        results
    }

    #[test]
    fn a_line_has_the_row_and_its_run() {
        let text = csv(&results(&["ld, \"gold\"\n"]));
        let (head, line) = text.split_once('\n').unwrap();
        assert_eq!(
            head,
            "subject,case,metric,unit,value,min,max,runs,tier,revision,command,kernel,cpu,cores,memory_bytes,file"
        );
        assert!(
            line.starts_with(
                "\"ld, \"\"gold\"\"\n\",a/b,elapsed,s,0.25,0.25,0.25,1,software,abc,forebay evaluate,"
            ),
            "{line}"
        );
    }

    #[test]
    fn merged_results_are_read_again() {
        for subjects in [&["a"][..], &["a", "b", "c"]] {
            let results = results(subjects);
            let mut again = Results::default();
            again.add("a.json", &json(&results)).unwrap();
            assert_eq!(again, results);
        }
    }

    #[test]
    fn a_change_has_both_values_and_what_can_be_said() {
        let results = results(&["a"]);
        let text = comparison_csv(&crate::compare(&results, &results, crate::LEAST_EFFECT).unwrap());
        assert!(text.contains("\na,a/b,elapsed,s,0.25,0.25,1.0,1.0,1.0,0.0,the same,software\n"), "{text}");
    }
}
