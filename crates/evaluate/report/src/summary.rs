//! What was measured and where, the findings that matter most, and how far the values can be trusted.

use std::collections::BTreeMap;

use forebay_results::{Host, Row, Tier};

use crate::{experiment::Experiment, limits, quantity::Quantity, question::told, rank, results::Results};

/// Runs that lie further apart than this share of their median are named.
const SCATTER: f64 = 0.5;
/// At most as many findings are on the first screen.
const FINDINGS_MAX: usize = 5;
/// An answer to what was asked matters most.
const CONCLUSION: f64 = f64::INFINITY;
/// A limit matters so much, and that there is none, or none known, so much.
const LIMIT: f64 = 2.5;
const NO_LIMIT: f64 = 0.3;
/// What only explains other values matters less.
const EXPLAINS: f64 = 0.3;
/// A single number matters less, and as many are told.
const NUMBER: f64 = 0.1;
const NUMBERS_MAX: usize = 4;

/// A sentence of the first screen.
pub(crate) struct Headline {
    /// The experiment, by place.
    pub(crate) experiment: usize,
    /// What it is about.
    pub(crate) title: String,
    /// The element that it leads to.
    pub(crate) link: String,
    pub(crate) sentence: String,
    strength: f64,
}

/// What was measured, and where.
pub(crate) fn measured(results: &Results, experiments: &[Experiment]) -> String {
    let values = counted(results.rows().count(), "value", "values");
    let what = match experiments {
        [one] => format!("One experiment: {}.", lower(&one.title)),
        several => format!("{} experiments.", several.len()),
    };
    format!("{what} {values} of {}, {}.", counted(results.runs.len(), "file", "files"), place(results))
}

fn place(results: &Results) -> String {
    let mut hosts: Vec<&Host> = Vec::new();
    for run in &results.runs {
        if !hosts.contains(&&run.report.host) {
            hosts.push(&run.report.host);
        }
    }
    match hosts.as_slice() {
        [host] => format!("measured on {}", machine(host)),
        hosts => {
            let mut processors: Vec<String> = Vec::new();
            for host in hosts {
                let processor =
                    format!("{} with {}", host.cpu, counted(host.cores, "processor", "processors"));
                if !processors.contains(&processor) {
                    processors.push(processor);
                }
            }
            let (number, processors) = (hosts.len(), list(&processors, 3));
            format!("measured on {processors}; {number} machines differ in processor, memory or kernel")
        }
    }
}

fn lower(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

/// Processor, cores, memory and kernel.
pub(crate) fn machine(host: &Host) -> String {
    let memory = Quantity::Bytes.show(host.memory_bytes as f64);
    let cores = counted(host.cores, "processor", "processors");
    format!("{}, {cores}, {memory}, Linux {}", host.cpu, host.kernel)
}

/// The findings that matter most: of several experiments the first of each, of one the first of each of its `open`
/// questions.
pub(crate) fn headlines(experiments: &[Experiment], open: &[Vec<usize>]) -> Vec<Headline> {
    let mut all: Vec<Vec<Headline>> =
        experiments.iter().enumerate().map(|(place, one)| of_experiment(place, one, &open[place])).collect();
    all.iter_mut().for_each(|of_one| of_one.sort_by(|one, other| other.strength.total_cmp(&one.strength)));
    let mut chosen: Vec<Headline> = Vec::new();
    while chosen.len() < FINDINGS_MAX {
        let next = all.iter_mut().filter(|of_one| !of_one.is_empty()).map(|of_one| of_one.remove(0));
        let mut round: Vec<Headline> = next.collect();
        if round.is_empty() {
            break;
        }
        round.sort_by(|one, other| other.strength.total_cmp(&one.strength));
        chosen.extend(round);
    }
    chosen.truncate(FINDINGS_MAX);
    chosen
}

fn of_experiment(place: usize, experiment: &Experiment, open: &[usize]) -> Vec<Headline> {
    let headline = |title: &str, link: String, sentence: String, strength| {
        let title = title.to_owned();
        Headline { experiment: place, title, link, sentence, strength }
    };
    let questions = experiment.questions.iter().enumerate();
    let found = questions.filter_map(|(number, question)| {
        let finding = question.finding.as_ref()?;
        let shown = open.contains(&number);
        let link = if shown { format!("#e{place}-q{number}") } else { format!("#e{place}") };
        // The first question is the one that the experiment is about, and what explains others is told after these.
        let strength = finding.strength
            * match number {
                0 => 1.5,
                _ if rank::is_asked_first(question.metric) => 1.0,
                _ => EXPLAINS,
            };
        let counts = shown || question.quantity == Quantity::Flag;
        counts.then(|| headline(&question.title, link, finding.sentence.clone(), strength))
    });
    let none = !experiment.limits.iter().any(limits::Limit::is_known);
    let limit = limits::sentence(&experiment.limits).map(|sentence| {
        let strength = if none { NO_LIMIT } else { LIMIT };
        headline("What limits", format!("#e{place}-limits"), sentence, strength)
    });
    let concluded = experiment.conclusions.iter().map(|conclusion| {
        let sentence = format!("{}: {}.", conclusion.condition, conclusion.sentences[0]);
        headline("What follows", format!("#e{place}-conclusions"), sentence, CONCLUSION)
    });
    let all: Vec<Headline> = found.chain(limit).chain(concluded).collect();
    if !all.is_empty() {
        return all;
    }
    // Single numbers are findings where there is nothing else.
    let numbers = experiment.questions.iter().filter(|question| question.is_number()).take(NUMBERS_MAX);
    let each = numbers.zip(1..).map(|(question, place_among)| {
        let row = question.entries[0].row;
        let sentence = format!("{}, of {}, {}.", told(row, &question.quantity), row.subject, row.case);
        headline(&question.title, format!("#e{place}-numbers"), sentence, NUMBER / f64::from(place_among))
    });
    each.collect()
}

/// How far the values can be trusted.
pub(crate) fn cautions(results: &Results) -> Vec<String> {
    let rows: Vec<&Row> = results.rows().map(|(_, row)| row).collect();
    let mut sentences = Vec::new();
    let repeated: Vec<&&Row> = rows.iter().filter(|row| row.runs > 1).collect();
    let scattered = repeated.iter().filter(|row| scatter(row) > SCATTER).count();
    // Of counts that are nearly 0 a share says nothing: the widest is named among durations.
    let timed =
        repeated.iter().filter(|row| matches!(Quantity::of(&row.metric, &row.unit), Quantity::Time(_)));
    let widest = timed.max_by(|one, other| scatter(one).total_cmp(&scatter(other)));
    if scattered > 0 {
        let widest = widest.filter(|row| scatter(row) > SCATTER).map_or_else(String::new, |row| {
            let told = told(row, &Quantity::of(&row.metric, &row.unit));
            format!("; of durations most does {} of {}, {}: {told}", row.metric, row.subject, row.case)
        });
        sentences.push(format!(
            "Of {} values measured more than once, {} scatter by more than half of their median{widest}.",
            grouped(repeated.len()),
            grouped(scattered)
        ));
    }
    let once = rows.iter().filter(|row| row.runs == 1 && row.tier != Tier::Simulated).count();
    if once > 0 {
        let once = counted(once, "value was", "values were");
        sentences.push(format!("{once} measured once; nothing is known of the scatter there."));
    }
    sentences.extend(identical(&rows));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.tier.to_string()).or_default() += 1;
    }
    let tiers: Vec<String> =
        counts.iter().map(|(tier, count)| format!("{} {tier}", grouped(*count))).collect();
    sentences.push(format!("Where the values come from: {}.", tiers.join(", ")));
    sentences
}

fn identical(rows: &[&Row]) -> Option<String> {
    let of: Vec<&&Row> = rows.iter().filter(|row| row.metric == "output_identical").collect();
    let different: Vec<String> =
        of.iter().filter(|row| row.min < 1.0).map(|row| format!("{} ({})", row.subject, row.case)).collect();
    match (of.len(), different.as_slice()) {
        (0, _) => None,
        (all, []) => Some(format!(
            "Output was identical wherever it was compared ({}).",
            counted(all, "time", "times")
        )),
        (_, different) => Some(format!("Output was different of {}.", different.join(", "))),
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

/// The first `most` of `names`, and how many more there are.
pub(crate) fn list(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join("; "),
        more => format!("{}; and {} more", shown.join("; "), grouped(more)),
    }
}
