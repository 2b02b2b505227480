//! An experiment on the page: what was measured, the figures that answer its first questions, and the rest folded.

use forebay_results::StatementKind;
use maud::{Markup, html};

use super::{data, figure_element};
use crate::{
    conclusions::Conclusion,
    experiment::Experiment,
    limits::{Limit, remarks},
    question::{Question, told},
    results::Results,
    summary::{counted, grouped, list},
};

/// Panels beside each other.
const ACROSS: usize = 3;
/// As many conditions of a limit are named, and single numbers shown.
const CONDITIONS_MAX: usize = 3;
const NUMBERS_MAX: usize = 16;
/// More bars, dots and cells than these are told in the table only, where their figure would be folded.
const FOLDED_MARKS_MAX: usize = 250;
/// And more figures than these.
const FOLDED_MAX: usize = 12;

/// The questions of `experiment` that are open on a page of so many experiments, by place: the first one, and those after
/// it whose panels have room in as many rows of the page as an experiment gets.
pub(super) fn open(experiment: &Experiment, experiments: usize) -> Vec<usize> {
    let mut room = match experiments {
        0 | 1 => 4 * ACROSS,
        2..=4 => 2 * ACROSS,
        _ => ACROSS,
    };
    let mut open = Vec::new();
    for (number, question) in experiment.questions.iter().enumerate() {
        let panels = question.figure.as_ref().map_or(0, |figure| figure.panels.len());
        if panels > 0 && (panels <= room || open.is_empty()) {
            room = room.saturating_sub(panels);
            open.push(number);
        }
    }
    open
}

/// The element of the experiment at `place`, with its `open` questions.
pub(super) fn element(results: &Results, place: usize, experiment: &Experiment, open: &[usize]) -> Markup {
    let asked: Vec<(usize, &Question)> = experiment.questions.iter().enumerate().collect();
    let is_open = |(number, _): &&(usize, &Question)| open.contains(number);
    let shown: Vec<_> = asked.iter().filter(is_open).collect();
    let small = |question: &Question| {
        question.figure.as_ref().is_some_and(|figure| figure.marks().count() <= FOLDED_MARKS_MAX)
    };
    let folded = asked.iter().filter(|one| !is_open(one) && small(one.1));
    let folded: Vec<_> = folded.take(FOLDED_MAX).collect();
    let numbers: Vec<&Question> = experiment.questions.iter().filter(|one| one.is_number()).collect();
    let found = remarks(results, &experiment.runs, StatementKind::Finding);
    let undecided = remarks(results, &experiment.runs, StatementKind::Undecided);
    html! {
        section id={ "e" (place) } {
            h2 { (experiment.title) }
            p { (experiment.about) " " (experiment.measured()) }
            p.faint { code { (experiment.command) } }
            @if !experiment.conclusions.is_empty() { (conclusions_element(place, &experiment.conclusions)) }
            @if !experiment.limits.is_empty() { (limits_element(place, &experiment.limits)) }
            @if !found.is_empty() { (remarks_element("Also found", &found)) }
            div.figures {
                @for (number, question) in &shown { (question_element(place, *number, question)) }
            }
            @if shown.is_empty() { (numbers_element(place, &numbers)) }
            @if !folded.is_empty() {
                details {
                    summary { (counted(folded.len(), "more figure", "more figures")) }
                    div.figures {
                        @for (number, question) in &folded { (question_element(place, *number, question)) }
                    }
                }
            }
            @if !undecided.is_empty() {
                details {
                    summary { "What could not be decided" }
                    (remarks_element("Not decided", &undecided))
                }
            }
            details.all {
                summary { "All " (counted(experiment.entries.len(), "value", "values")) }
                (data::values(results, experiment))
            }
        }
    }
}

fn question_element(place: usize, number: usize, question: &Question) -> Markup {
    let finding = question.finding.as_ref().map(|finding| finding.sentence.as_str());
    html! {
        @if let Some(figure) = &question.figure {
            (figure_element(&format!("e{place}-q{number}"), figure, finding))
        }
    }
}

fn conclusions_element(place: usize, conclusions: &[Conclusion]) -> Markup {
    html! {
        div.limits id={ "e" (place) "-conclusions" } {
            h3 { "What follows" }
            ul {
                @for conclusion in conclusions {
                    li { strong { (conclusion.condition) } ": " (conclusion.sentences.join(". ")) "." }
                }
            }
        }
    }
}

fn limits_element(place: usize, limits: &[Limit]) -> Markup {
    html! {
        div.limits id={ "e" (place) "-limits" } {
            h3 { "What limits" }
            ul {
                @for limit in limits {
                    li {
                        strong { (limit.what) } " in " (counted(limit.conditions.len(), "condition", "conditions")) ": "
                        (list(&limit.conditions, CONDITIONS_MAX)) "."
                        @if !limit.reason.is_empty() { " Why: " (limit.reason) "." }
                    }
                }
            }
        }
    }
}

fn remarks_element(title: &str, remarks: &[(String, usize)]) -> Markup {
    html! {
        div.limits {
            h3 { (title) }
            ul {
                @for (text, count) in remarks {
                    li { (text) @if *count > 1 { " (in " (grouped(*count)) " conditions)" } }
                }
            }
        }
    }
}

/// Single numbers, which have no figure.
fn numbers_element(place: usize, questions: &[&Question]) -> Markup {
    let rows =
        questions.iter().flat_map(|question| question.entries.iter().map(move |entry| (question, entry)));
    html! {
        div.table id={ "e" (place) "-numbers" } {
            table.numbers {
                thead { tr { th scope="col" { "quantity" } th scope="col" { "of" } th.n scope="col" { "value" } } }
                tbody {
                    @for (question, entry) in rows.take(NUMBERS_MAX) {
                        tr {
                            td { (question.title) }
                            td { (entry.row.subject) ", " (entry.row.case) }
                            td.n { (told(entry.row, &question.quantity)) }
                        }
                    }
                }
            }
        }
    }
}
