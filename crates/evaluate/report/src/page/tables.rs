//! Tables whose columns sort by a click, where there is script; without it they are tables.

use maud::{Markup, PreEscaped, html};

use crate::{
    choose::told,
    compare::{Change, Comparison},
    figure::{Axis, Figure, Mark, Plot},
    quantity::Quantity,
};

/// Tables with more rows than this can be searched.
const LONG: usize = 25;

/// The numbers that `figure` shows, each leading to its row.
pub(super) fn figure(figure: &Figure) -> Markup {
    let titled = figure.panels.len() > 1;
    let mut lines: Vec<(&str, Markup, Vec<Option<&Mark>>)> = Vec::new();
    let mut first = "subject".to_owned();
    for panel in &figure.panels {
        match &panel.plot {
            Plot::Bars(categories) | Plot::Stacks(categories) => {
                lines.extend(categories.iter().map(|category| {
                    let label = html! { td { (category.label) } };
                    (panel.title.as_str(), label, category.marks.iter().map(Option::as_ref).collect())
                }))
            }
            Plot::Curves { along, lines: curves } => {
                first = along_name(along);
                let mut places: Vec<f64> = curves.iter().flatten().map(|point| point.place).collect();
                places.sort_by(f64::total_cmp);
                places.dedup();
                lines.extend(places.into_iter().map(|place| {
                    let marks = curves.iter().map(|line| mark_at(line, place)).collect();
                    (panel.title.as_str(), number(place, &along.quantity), marks)
                }));
            }
            Plot::Surface { .. } => {}
        }
    }
    let mut heads: Vec<(&str, bool)> = titled.then_some(("case", false)).into_iter().collect();
    heads.push((&first, first != "subject"));
    // Of one series there is room for the extremes.
    let single = figure.series.len() == 1;
    if single {
        heads.extend([("median", true), ("least", true), ("largest", true)]);
    } else {
        heads.extend(figure.series.iter().map(|name| (name.as_str(), true)));
    }
    let body = html! {
        @for (title, label, marks) in &lines {
            tr {
                @if titled { td { (title) } }
                (label)
                @for mark in marks {
                    @match mark {
                        Some(mark) => {
                            td data-v=(sorted_by(mark.value)) { a href=[&mark.link] { (figure.quantity.show(mark.value)) } }
                            @if single { (number(mark.range.0, &figure.quantity)) (number(mark.range.1, &figure.quantity)) }
                        },
                        None => { td.n { "-" } @if single { td.n { "-" } td.n { "-" } } },
                    }
                }
            }
        }
    };
    table(&heads, lines.len(), &body)
}

fn mark_at(line: &[crate::figure::Point], place: f64) -> Option<&Mark> {
    line.iter().find(|point| point.place == place).map(|point| &point.mark)
}

fn along_name(along: &Axis) -> String {
    match (&along.quantity, along.name.as_str()) {
        (Quantity::Bytes, "") => "size".into(),
        (_, "") => "at".into(),
        (_, name) => name.into(),
    }
}

/// What changed, most first.
pub(super) fn comparison(comparison: &Comparison) -> Markup {
    let body = html! {
        @for (number, change) in comparison.by_size() { (change_line(number, change)) }
    };
    let heads = [
        ("subject", false),
        ("case", false),
        ("metric", false),
        ("before", true),
        ("after", true),
        ("ratio", true),
        ("interval", false),
        ("confidence", true),
        ("verdict", false),
        ("runs", false),
        ("tier", false),
        ("sources", false),
    ];
    table(&heads, comparison.changes.len(), &body)
}

fn change_line(place: usize, change: &Change) -> Markup {
    let (before, after) = (&change.before, &change.after);
    let quantity = Quantity::of(&before.metric, &before.unit);
    let (ratio, show) = (&change.ratio, |value| Quantity::Factor.show(value));
    html! {
        tr id={ "r" (place) } {
            td { (before.subject) } td { (before.case) } td { (before.metric) }
            td data-v=(sorted_by(before.value)) title=(told(before, &quantity)) { (quantity.show(before.value)) }
            td data-v=(sorted_by(after.value)) title=(told(after, &quantity)) { (quantity.show(after.value)) }
            @match ratio {
                Some(ratio) => {
                    td data-v=(sorted_by(ratio.value)) { (show(ratio.value)) }
                    td data-v=(sorted_by(ratio.low)) { (show(ratio.low)) " to " (show(ratio.high)) }
                    td data-v=(sorted_by(ratio.confidence)) { (Quantity::Share.show(ratio.confidence)) }
                },
                None => { td.n { "-" } td { "-" } td.n { "-" } },
            }
            td { (change.verdict.name()) }
            td { (before.runs) ", " (after.runs) }
            td { a href={ "#" (before.tier.to_string()) } { (before.tier.to_string()) } }
            td {
                a href={ "#before-" (change.runs.0 + 1) } { "before " (change.runs.0 + 1) } ", "
                a href={ "#after-" (change.runs.1 + 1) } { "after " (change.runs.1 + 1) }
            }
        }
    }
}

fn number(value: f64, quantity: &Quantity) -> Markup {
    html! { td data-v=(sorted_by(value)) { (quantity.show(value)) } }
}

/// Enough of a value to sort by: a page has thousands.
fn sorted_by(value: f64) -> String {
    let short = format!("{value:.5e}");
    short.parse::<f64>().map_or(short, |value| value.to_string())
}

fn table(heads: &[(&str, bool)], rows: usize, body: &Markup) -> Markup {
    let class = if rows > LONG { "sortable long" } else { "sortable" };
    // HTML ends a cell where the next one begins, and a page has tens of thousands; text has no such tags, it is escaped.
    let body = PreEscaped(body.0.replace("</td>", "").replace("</tr>", ""));
    html! {
        div.table {
            table class=(class) {
                thead { tr { @for (name, number) in heads { th.n[*number] scope="col" { (name) } } } }
                tbody { (body) }
            }
        }
    }
}
