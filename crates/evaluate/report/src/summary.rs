//! What came of it, in sentences.

use std::collections::BTreeMap;

use forebay_results::{Host, Row, Tier};
use maud::{Markup, html};

use crate::{
    choose::Entry,
    figure::{Figure, Mark},
    quantity::Quantity,
    results::Results,
    section::Section,
};

/// Runs that lie further apart than this share of their median are named.
const SCATTER: f64 = 0.5;

/// What was measured, and where.
pub(crate) fn measured(results: &Results) -> String {
    let mut hosts: Vec<&Host> = Vec::new();
    for run in &results.runs {
        if !hosts.contains(&&run.report.host) {
            hosts.push(&run.report.host);
        }
    }
    let runs = counted(results.runs.len(), "run", "runs");
    let values = counted(results.rows().count(), "value", "values");
    let on = match hosts.as_slice() {
        [host] => format!("on {}", machine(host)),
        hosts => format!("on {} machines: mind that before you compare", hosts.len()),
    };
    format!("{values} of {runs}, {on}.")
}

/// Processor, cores, memory and kernel.
pub(crate) fn machine(host: &Host) -> String {
    let memory = Quantity::Bytes.show(host.memory_bytes as f64);
    let cores = counted(host.cores, "core", "cores");
    format!("{}, {cores}, {memory}, Linux {}", host.cpu, host.kernel)
}

/// What a section shows at first sight: verdicts where there are any, else between what its first figure lies.
pub(crate) fn headlines(section: &Section, figures: &[Figure]) -> Vec<Markup> {
    let named = |title: &str| figures.iter().find(|figure| figure.title == title);
    let mut sentences: Vec<Markup> = Vec::new();
    sentences.extend(named("Speedup").and_then(faster_and_slower));
    sentences.extend(named("Overhead").and_then(overhead));
    if sentences.is_empty() {
        sentences.extend(figures.first().and_then(extremes));
    }
    sentences.extend(limits(&section.entries));
    sentences.extend(identical(&section.entries));
    sentences
}

/// What limits servers, and in how many conditions.
fn limits(entries: &[Entry]) -> Option<Markup> {
    let mut by_limit: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        if let Some(limit) = entry.row.metric.strip_prefix("limit/") {
            by_limit.entry(limit).or_default().push(entry);
        }
    }
    let mut limits: Vec<(&str, Vec<&Entry>)> = by_limit.into_iter().collect();
    limits.sort_by_key(|(_, conditions)| std::cmp::Reverse(conditions.len()));
    (!limits.is_empty()).then(|| html! {
        "Limited by: "
        @for (number, (limit, conditions)) in limits.iter().enumerate() {
            @if number > 0 { "; " }
            strong { (limit) } " in " (counted(conditions.len(), "condition", "conditions")) " (first "
            a href={ "#r" (conditions[0].number) } { (conditions[0].row.subject) ", " (conditions[0].row.case) } ")"
        }
        "."
    })
}

fn faster_and_slower(figure: &Figure) -> Option<Markup> {
    let (least, most) = ends(figure)?;
    let all = figure.marks().count();
    let faster = figure.marks().filter(|mark| mark.range.0 > 1.0).count();
    let slower = figure.marks().filter(|mark| mark.range.1 < 1.0).count();
    Some(html! {
        "Faster in every run: " (faster) " of " (all) "; slower in every run: " (slower) "; the rest differs from run to \
         run. The largest speedup is " (figure_link(figure, most)) ", the least " (figure_link(figure, least)) "."
    })
}

fn overhead(figure: &Figure) -> Option<Markup> {
    let (least, most) = ends(figure)?;
    Some(
        html! { "The overhead lies between " (figure_link(figure, least)) " and " (figure_link(figure, most)) "." },
    )
}

/// Between what the values of `figure` lie.
pub(crate) fn extremes(figure: &Figure) -> Option<Markup> {
    let (least, most) = ends(figure)?;
    Some(
        html! { (figure.title) " lies between " (figure_link(figure, least)) " and " (figure_link(figure, most)) "." },
    )
}

fn ends(figure: &Figure) -> Option<(&Mark, &Mark)> {
    let order = |one: &&Mark, other: &&Mark| one.value.total_cmp(&other.value);
    Some((figure.marks().min_by(order)?, figure.marks().max_by(order)?))
}

fn figure_link(figure: &Figure, mark: &Mark) -> Markup {
    html! { a href=[&mark.link] title=(mark.note) { (figure.quantity.show(mark.value)) } " (" (mark.name) ")" }
}

fn identical(entries: &[Entry]) -> Option<Markup> {
    let of: Vec<&Entry> = entries.iter().filter(|entry| entry.row.metric == "output_identical").collect();
    let different: Vec<&&Entry> = of.iter().filter(|entry| entry.row.min < 1.0).collect();
    match (of.len(), different.as_slice()) {
        (0, _) => None,
        (all, []) => Some(
            html! { "Output was identical wherever it was compared (" (counted(all, "time", "times")) ")." },
        ),
        (_, different) => Some(html! {
            strong { "Output was different" } " of "
            @for (number, entry) in different.iter().enumerate() {
                @if number > 0 { ", " }
                a href={ "#r" (entry.number) } { (entry.row.subject) " (" (entry.row.case) ")" }
            }
            "."
        }),
    }
}

/// How far the values can be trusted.
pub(crate) fn cautions(results: &Results) -> Vec<Markup> {
    let rows: Vec<(usize, &Row)> = results.rows().map(|(_, row)| row).enumerate().collect();
    let mut sentences = Vec::new();
    let repeated: Vec<_> = rows.iter().filter(|(_, row)| row.runs > 1).collect();
    let scattered = repeated.iter().filter(|(_, row)| scatter(row) > SCATTER).count();
    // Of counts that are nearly 0 a share says nothing: the widest is named among durations.
    let timed =
        repeated.iter().filter(|(_, row)| matches!(Quantity::of(&row.metric, &row.unit), Quantity::Time(_)));
    let widest = timed.max_by(|(_, one), (_, other)| scatter(one).total_cmp(&scatter(other)));
    if scattered > 0 {
        sentences.push(html! {
            "Of " (grouped(repeated.len())) " values measured more than once, " (grouped(scattered)) " scatter by more than half of \
             their median"
            @if let Some((number, row)) = widest.filter(|(_, row)| scatter(row) > SCATTER) {
                "; of durations most does " (row.metric) " of " (row.subject) ", " (row.case) " ("
                a href={ "#r" (number) } { (crate::choose::told(row, &Quantity::of(&row.metric, &row.unit))) } ")"
            }
            "."
        });
    }
    let once = rows.iter().filter(|(_, row)| row.runs == 1 && row.tier != Tier::Simulated).count();
    if once > 0 {
        sentences.push(html! { (counted(once, "value was", "values were")) " measured once; nothing is known of the scatter there." });
    }
    sentences.push(tiers(&rows));
    sentences
}

fn tiers(rows: &[(usize, &Row)]) -> Markup {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, row) in rows {
        *counts.entry(row.tier.to_string()).or_default() += 1;
    }
    html! {
        "Tiers: "
        @for (number, (tier, count)) in counts.iter().enumerate() {
            @if number > 0 { ", " }
            (grouped(*count)) " " a href={ "#" (tier) } { (tier) }
        }
        "."
    }
}

/// What a tier is.
pub(crate) fn meaning(tier: Tier) -> &'static str {
    match tier {
        Tier::Hardware => "read from the processor's performance counters.",
        Tier::Software => "from clocks, from the kernel's counters and from Forebay's own.",
        Tier::Simulated => {
            "computed by a model or a simulation, or taken from a publication; not measured on the machine."
        }
    }
}

fn scatter(row: &Row) -> f64 {
    if row.value == 0.0 { 0.0 } else { (row.max - row.min) / row.value.abs() }
}

/// `1 run`, `2,008 runs`.
pub(crate) fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { several })
}

pub(crate) fn grouped(number: usize) -> String {
    forebay_quantity::thousands(number as u64)
}
