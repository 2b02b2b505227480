//! What limits servers and programs, in how many conditions, and why.

use forebay_results::{Statement, StatementKind};

use crate::{conclusions::named, question::Entry, results::Results};

/// Something that limits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// Its name.
    pub(crate) what: String,
    /// Subjects with their cases.
    pub(crate) conditions: Vec<String>,
    /// The deciding reason of the first condition; empty where none was given.
    pub(crate) reason: String,
}

/// The family of metrics that tells limits, where there are no statements.
const FAMILY: &str = "limit/";
/// A limit that is none, and one that is not known.
const NOTHING: &str = "nothing";
const NOT_KNOWN: &str = "not decidable";

impl Limit {
    /// Whether it is known that something limits.
    pub(crate) fn is_known(&self) -> bool {
        self.what != NOTHING && self.what != NOT_KNOWN
    }
}

/// Of the runs of an experiment, the most frequent first. Statements tell more than rows.
pub(crate) fn limits(results: &Results, runs: &[usize], entries: &[Entry]) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut add = |what: &str, condition: String, reason: &str| match limits
        .iter_mut()
        .find(|limit| limit.what == what)
    {
        Some(limit) => limit.conditions.push(condition),
        None => {
            let (what, reason) = (what.to_owned(), reason.to_owned());
            limits.push(Limit { what, conditions: vec![condition], reason });
        }
    };
    for run in runs {
        let statements = &results.runs[*run].report.statements;
        for limit in statements.iter().filter(|one| one.kind == StatementKind::Limit) {
            let condition = named(&limit.subject, &limit.case);
            let reason = statements.iter().find(|one| is_reason_of(one, limit));
            add(&limit.text, condition.clone(), reason.map_or("", |reason| &reason.text));
            known.push(condition);
        }
    }
    for row in entries.iter().map(|entry| entry.row) {
        let condition = named(&row.subject, &row.case);
        if let Some(what) = row.metric.strip_prefix(FAMILY).filter(|_| !known.contains(&condition)) {
            add(what, condition, "");
        }
    }
    limits.sort_by_key(|limit| std::cmp::Reverse(limit.conditions.len()));
    limits
}

fn is_reason_of(statement: &Statement, limit: &Statement) -> bool {
    statement.kind == StatementKind::Reason
        && (&statement.subject, &statement.case) == (&limit.subject, &limit.case)
}

/// What else the runs of an experiment found, or could not decide: each once, with how often.
pub(crate) fn remarks(results: &Results, runs: &[usize], kind: StatementKind) -> Vec<(String, usize)> {
    let mut remarks: Vec<(String, usize)> = Vec::new();
    let all = runs.iter().flat_map(|run| &results.runs[*run].report.statements);
    for statement in all.filter(|statement| statement.kind == kind) {
        match remarks.iter_mut().find(|(text, _)| *text == statement.text) {
            Some((_, count)) => *count += 1,
            None => remarks.push((statement.text.clone(), 1)),
        }
    }
    remarks
}

/// What limits, in a sentence or two.
pub(crate) fn sentence(limits: &[Limit]) -> Option<String> {
    let all: usize = limits.iter().map(|limit| limit.conditions.len()).sum();
    let not_known: usize =
        limits.iter().filter(|one| one.what == NOT_KNOWN).map(|one| one.conditions.len()).sum();
    if all == not_known {
        return (all > 0).then(|| match all {
            1 => format!("It is not known what limits {}.", limits[0].conditions[0]),
            all => format!("It is not known what limits in any of {all} conditions."),
        });
    }
    let not_known = match not_known {
        0 => String::new(),
        number => format!(" In {number} it is not known."),
    };
    let told = limits.iter().filter(|limit| limit.is_known()).take(2).collect::<Vec<_>>();
    let Some(first) = told.first() else {
        let nothing: usize =
            limits.iter().filter(|one| one.what == NOTHING).map(|one| one.conditions.len()).sum();
        let of = if nothing == all { format!("any of {all}") } else { format!("{nothing} of {all}") };
        return Some(format!("Nothing limits in {of} conditions.{not_known}"));
    };
    let each: Vec<String> = told
        .iter()
        .map(|limit| {
            let number = limit.conditions.len();
            let first = &limit.conditions[0];
            if number == 1 {
                format!("{} ({first})", limit.what)
            } else {
                format!("{} in {number}", limit.what)
            }
        })
        .collect();
    let why = if first.reason.is_empty() { String::new() } else { format!(" Why: {}.", first.reason) };
    let of = if all == 1 { String::new() } else { format!(", of {all} conditions") };
    Some(format!("Limited by {}{of}.{why}{not_known}", each.join(", by ")))
}

#[cfg(test)]
mod tests {
    use forebay_results::{Report, Row};

    use super::*;
    use crate::results::Run;

    #[test]
    fn a_statement_tells_the_limit_with_its_reason_and_rows_tell_the_rest() {
        let says = |kind, text: &str| Statement {
            subject: "nginx".into(),
            case: "8 clients".into(),
            kind,
            text: text.into(),
        };
        let rows = vec![
            Row::once("nginx", "8 clients", "limit/processor", "runs", 1.0),
            Row::once("apache", "8 clients", "limit/processor", "runs", 1.0),
        ];
        let statements = vec![
            says(StatementKind::Limit, "dependency 127.0.0.1:5432"),
            says(StatementKind::Reason, "93 % of a request are waits for it"),
            says(StatementKind::Finding, "accepts alone"),
        ];
        let report = Report::new("r", "c", rows).with_statements(statements);
        let results = Results { runs: vec![Run { file: "a".into(), report }], left_out: vec![] };
        let entries: Vec<Entry> =
            results.rows().enumerate().map(|(number, (_, row))| Entry { number, row }).collect();
        let limits = limits(&results, &[0], &entries);
        let told: Vec<_> = limits.iter().map(|limit| (limit.what.as_str(), limit.conditions.len())).collect();
        assert_eq!(told, [("dependency 127.0.0.1:5432", 1), ("processor", 1)]);
        assert_eq!(
            sentence(&limits).unwrap(),
            "Limited by dependency 127.0.0.1:5432 (nginx, 8 clients), by processor (apache, 8 clients), of 2 conditions. \
             Why: 93 % of a request are waits for it."
        );
        assert_eq!(remarks(&results, &[0], StatementKind::Finding), [("accepts alone".to_owned(), 1)]);
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn what_is_not_known_is_counted_and_no_limit() {
        let limit = |what: &str, conditions: usize| {
            let conditions = (0..conditions).map(|number| format!("nginx, {number} clients")).collect();
            Limit { what: what.into(), conditions, reason: String::new() }
        };
        let said = |limits: &[Limit]| sentence(limits).unwrap();
        assert_eq!(said(&[limit(NOT_KNOWN, 1)]), "It is not known what limits nginx, 0 clients.");
        assert_eq!(said(&[limit(NOT_KNOWN, 3)]), "It is not known what limits in any of 3 conditions.");
        assert_eq!(
            said(&[limit(NOT_KNOWN, 3), limit("processor", 2)]),
            "Limited by processor in 2, of 5 conditions. In 3 it is not known."
        );
        assert_eq!(
            said(&[limit(NOT_KNOWN, 3), limit(NOTHING, 2)]),
            "Nothing limits in 2 of 5 conditions. In 3 it is not known."
        );
        assert_eq!(said(&[limit(NOTHING, 2)]), "Nothing limits in any of 2 conditions.");
    }
}
