//! What experiments conclude in sentences of their own, as of how much memory is needed.

use forebay_results::StatementKind;

use crate::results::Results;

/// What follows in one condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conclusion {
    /// The subject with its case.
    pub(crate) condition: String,
    /// What was asked, answered; then what supports the answer. There is one at least.
    pub(crate) sentences: Vec<String>,
}

/// The conclusions of the runs of an experiment, condition by condition.
pub(crate) fn conclusions(results: &Results, runs: &[usize]) -> Vec<Conclusion> {
    let mut conclusions: Vec<Conclusion> = Vec::new();
    for run in runs {
        let begin = conclusions.len();
        let statements = &results.runs[*run].report.statements;
        for statement in statements.iter().filter(|one| one.kind == StatementKind::Conclusion) {
            let condition = named(&statement.subject, &statement.case);
            match conclusions[begin..].iter_mut().find(|one| one.condition == condition) {
                Some(conclusion) => conclusion.sentences.push(statement.text.clone()),
                None => conclusions.push(Conclusion { condition, sentences: vec![statement.text.clone()] }),
            }
        }
    }
    conclusions
}

/// A subject under a condition.
pub(crate) fn named(subject: &str, case: &str) -> String {
    if case.is_empty() { subject.to_owned() } else { format!("{subject}, {case}") }
}
