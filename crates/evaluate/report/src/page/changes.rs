//! What changed, on the page: the changes that matter, a figure for each quantity, and every change folded.

use forebay_quantity::percent;
use maud::{Markup, html};

use super::{data, figure_element};
use crate::{
    compare::{Change, Comparison, Verdict, enough, figures},
    interval::extremes_confidence,
    quantity::Quantity,
    question::spoken,
    results::Results,
    summary::{counted, grouped},
};

/// As many figures are open, and as many more are folded.
const OPEN: usize = 6;
const FOLDED: usize = 18;
/// As many changes for the worse, and for the better, are on the first screen.
const TOLD: usize = 2;

/// What was compared.
pub(super) fn compared(before: &Results, after: &Results, comparison: &Comparison) -> String {
    let runs = |results: &Results| counted(results.runs.len(), "file", "files");
    let all = counted(comparison.changes.len(), "value", "values");
    let machine =
        after.runs.first().map_or_else(String::new, |run| crate::summary::machine(&run.report.host));
    format!("{all} that both sides have: {} before, {} after, on {machine}.", runs(before), runs(after))
}

/// What came of the comparison: how much changed, and the largest changes, each leading to its figure.
pub(super) fn findings(before: &Results, after: &Results, comparison: &Comparison) -> Markup {
    let number = |verdict| comparison.changes.iter().filter(|change| change.verdict == verdict).count();
    let count = |verdict| grouped(number(verdict));
    let least = percent(comparison.least);
    let alike = grouped(number(Verdict::Same) + number(Verdict::Near));
    let shown = figures(comparison);
    let largest = |verdict: Verdict| {
        let all = comparison.by_size().into_iter();
        all.filter(move |(_, change)| change.verdict == verdict && change.ratio.is_some()).take(TOLD)
    };
    html! {
        ul {
            li {
                (count(Verdict::Worse)) " values are worse than before by " (least) " or more, " (count(Verdict::Better))
                " better, " (count(Verdict::More)) " more and " (count(Verdict::Less)) " less without being either. "
                (alike) " changed by less than " (least) "; of " (count(Verdict::Open)) " the runs do not tell."
            }
            @for (number, change) in largest(Verdict::Worse).chain(largest(Verdict::Better)) {
                @let place = shown.iter().position(|figure| figure.marks().any(|mark| mark.row == Some(number)));
                li { (told(change, place)) }
            }
            @if unjudged(comparison) == comparison.changes.len() {
                li { "Each side has too few runs to tell anything: it takes three, each in a file of its own or each with its value." }
            }
            @if before.runs.iter().zip(&after.runs).any(|(one, other)| one.report.host != other.report.host) {
                li { strong { "The machines differ" } ", so this compares machines as much as programs." }
            }
        }
    }
}

fn told(change: &Change, figure: Option<usize>) -> Markup {
    let row = &change.before;
    let quantity = Quantity::of(&row.metric, &row.unit);
    let ratio = change.ratio.map_or_else(String::new, |ratio| Quantity::Factor.show(ratio.value));
    let place = figure.map_or_else(|| "#changes".to_owned(), |place| format!("#c{place}"));
    html! {
        a href=(place) { (spoken(&row.metric)) }
        " of " (row.subject) ", " (row.case) " is " strong { (change.verdict.name()) } ": "
        (quantity.show(change.after.value)) " after " (quantity.show(row.value)) ", " (ratio) "."
    }
}

/// The figures of what was measured on most sides, and every change.
pub(super) fn element(comparison: &Comparison) -> Markup {
    let all = figures(comparison);
    let drawn = |from: usize, most: usize| {
        let shown = all.iter().enumerate().skip(from).take(most);
        html! {
            div.figures {
                @for (place, figure) in shown { (figure_element(&format!("c{place}"), figure, None)) }
            }
        }
    };
    html! {
        section #changes {
            h2 { "What changed" }
            p { "Each figure has the ratio of the medians, after over before, with its interval." }
            (drawn(0, OPEN))
            @if all.len() > OPEN {
                details {
                    summary { (counted((all.len() - OPEN).min(FOLDED), "more figure", "more figures")) }
                    (drawn(OPEN, FOLDED))
                }
            }
            details.all {
                summary { "All " (counted(comparison.changes.len(), "value", "values")) }
                (data::changes(comparison))
            }
        }
    }
}

/// How many values have too few runs.
fn unjudged(comparison: &Comparison) -> usize {
    let few = |change: &&Change| !enough(extremes_confidence(change.before.runs, change.after.runs));
    comparison.changes.iter().filter(few).count()
}

/// How far the comparison can be trusted.
pub(super) fn cautions(before: &Results, after: &Results, comparison: &Comparison) -> Vec<String> {
    let changes = &comparison.changes;
    let mut sentences = Vec::new();
    let doubts = changes.iter().filter(|change| change.is_told()).filter_map(|change| change.ratio);
    let (judged, by_chance) =
        doubts.fold((0, 0.0), |(judged, sum), ratio| (judged + 1, sum + 1.0 - ratio.confidence));
    if judged > 0 {
        sentences.push(format!(
            "Each interval has the true ratio in it with the confidence beside it, if the runs are independent. By chance \
             alone, about {} of the {} intervals would leave 1 out.",
            grouped(by_chance.round() as usize),
            grouped(judged)
        ));
    }
    let unjudged = unjudged(comparison);
    if unjudged > 0 {
        sentences.push(format!(
            "{} too few runs to tell anything; it takes three on each side. Samples within one run count as one, so \
             measure again, and give all files of a side.",
            counted(unjudged, "value has", "values have")
        ));
    }
    if comparison.only_before + comparison.only_after > 0 {
        sentences.push(format!(
            "{} values are of before alone, {} of after alone; they are left out.",
            grouped(comparison.only_before),
            grouped(comparison.only_after)
        ));
    }
    let busy = before.runs.iter().chain(&after.runs).filter_map(|run| run.report.others_cpu);
    if let Some(most) = busy.reduce(f64::max).filter(|most| *most > 0.1) {
        sentences.push(format!("Other programs used up to {} of the processors meanwhile.", percent(most)));
    }
    sentences
}
