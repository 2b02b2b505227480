//! Questions: what one metric is under the conditions of an experiment, as one figure and the finding that it leads to.

use std::collections::{BTreeSet, HashSet};

use forebay_results::{Row, Tier};

use crate::{
    aligned::{Aligned, aligned},
    figure::Figure,
    finding::{self, Finding},
    plot,
    quantity::Quantity,
    rank,
    results::{Key, key},
};

/// A row and its number among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) number: usize,
    pub(crate) row: &'a Row,
}

/// What one metric is under the conditions of an experiment.
pub(crate) struct Question<'a> {
    /// Without what follows a slash.
    pub(crate) metric: &'a str,
    /// Heading, which no other question of the experiment has.
    pub(crate) title: String,
    pub(crate) quantity: Quantity,
    pub(crate) entries: Vec<Entry<'a>>,
    /// None where there is too little to see, or too much.
    pub(crate) figure: Option<Figure>,
    /// What the figure shows, where it shows anything.
    pub(crate) finding: Option<Finding>,
}

/// As many names as a heading has room for.
const SUBJECTS_MAX: usize = 3;
/// A family that is told in words.
const LIMITS: &str = "limit";

/// The questions of `entries`: those that others are asked for first.
pub(crate) fn questions<'a>(entries: &[Entry<'a>]) -> Vec<Question<'a>> {
    let mut groups: Vec<((&str, &str), Vec<Entry<'a>>)> = Vec::new();
    // What was measured again is in the table.
    let mut measured: HashSet<Key> = HashSet::new();
    for entry in entries.iter().filter(|entry| measured.insert(key(entry.row))) {
        let name = (family(&entry.row.metric), entry.row.unit.as_str());
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(*entry),
            None => groups.push((name, vec![*entry])),
        }
    }
    groups.retain(|((metric, _), _)| *metric != LIMITS);
    let tiers = groups.iter().flat_map(|(_, group)| by_tier(group));
    let mut questions: Vec<Question> =
        tiers.flat_map(|group| aligned(&group)).map(|space| Question::of(&space)).collect();
    told_apart(&mut questions);
    let most = questions.iter().map(|one| one.entries.len()).max().unwrap_or(0);
    // Of questions of one rank, those that were asked on most sides, then in the order of the rows.
    questions.sort_by_key(|one| {
        let seldom = 4 * one.entries.len() < most;
        (one.figure.is_none(), rank::of(one.metric, &one.entries[0].row.unit), seldom)
    });
    questions
}

impl<'a> Question<'a> {
    fn of(space: &Aligned<'a>) -> Self {
        let first = space.entries[0].row;
        let metric = family(&first.metric);
        let quantity = Quantity::of(metric, &first.unit);
        Self {
            metric,
            title: spoken(metric),
            figure: plot::figure(metric, &quantity, space),
            finding: finding::of(metric, &quantity, space),
            quantity,
            entries: space.entries.clone(),
        }
    }

    /// Whether it is a single number, or several alike, and so needs no figure.
    pub(crate) fn is_number(&self) -> bool {
        self.figure.is_none() && self.entries.len() <= SUBJECTS_MAX
    }

    pub(crate) fn subjects(&self) -> BTreeSet<&'a str> {
        self.entries.iter().map(|entry| entry.row.subject.as_str()).collect()
    }
}

/// Gives questions of one metric the names of what they are of, where these are few.
fn told_apart(questions: &mut [Question]) {
    let titles: Vec<String> = questions.iter().map(|one| one.title.clone()).collect();
    for question in &mut *questions {
        if titles.iter().filter(|title| **title == question.title).count() > 1 {
            let subjects: Vec<&str> = question.subjects().into_iter().collect();
            let tier = question.entries[0].row.tier;
            let of = if subjects.len() <= SUBJECTS_MAX {
                subjects.join(", ")
            } else {
                format!("{} subjects", subjects.len())
            };
            let tier = if tier == Tier::Simulated { ", simulated" } else { "" };
            question.title = format!("{}: {of}{tier}", question.title);
        }
    }
    for question in questions {
        let title = question.title.clone();
        if let Some(figure) = &mut question.figure {
            figure.title = title;
        }
    }
}

/// `time` of `time/disk`.
pub(crate) fn family(metric: &str) -> &str {
    metric.split('/').next().unwrap_or_default()
}

/// The same quantity known by two tiers makes two questions; a prediction beside a measurement makes one.
fn by_tier<'a>(group: &[Entry<'a>]) -> Vec<Vec<Entry<'a>>> {
    let mut seen = BTreeSet::new();
    let name = |row: &'a Row| (&row.subject, &row.case, &row.metric);
    if group.iter().all(|entry| seen.insert(name(entry.row))) {
        return vec![group.to_vec()];
    }
    let of = |tier| group.iter().filter(|entry| entry.row.tier == tier).copied().collect::<Vec<_>>();
    Tier::ALL.into_iter().map(of).filter(|group| !group.is_empty()).collect()
}

/// A metric as a heading.
pub(crate) fn spoken(metric: &str) -> String {
    let mut characters = metric.chars().map(|char| if char == '_' { ' ' } else { char });
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// The value of `row` with all that it needs to be understood.
pub(crate) fn told(row: &Row, quantity: &Quantity) -> String {
    let value = quantity.show(row.value);
    match row.runs {
        1 => format!("{value} (once, {})", row.tier),
        runs => {
            let (least, largest) = (quantity.show(row.min), quantity.show(row.max));
            format!("{value} ({least} to {largest} in {runs} runs, {})", row.tier)
        }
    }
}

#[cfg(test)]
mod tests;
