//! Rows as places: their subject, the parts of their case, and what of their metric follows a slash.
//!
//! Cases that are not built alike are aligned: `10 KiB/16 clients` and `10 KiB/16 clients/memory 24 MiB` differ in the
//! memory, which the first one does not limit.

use std::collections::BTreeSet;

use crate::{
    case::{Part, parts, singular},
    figure::Axis,
    quantity::Quantity,
    question::Entry,
};

/// Rows of one metric, as places in the space of their subjects and parts of cases.
pub(crate) struct Aligned<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    /// One entry a row: the subject, then the parts; none where its case has no such part.
    places: Vec<Vec<Option<Part<'a>>>>,
    /// Dimensions that vary.
    pub(crate) varying: Vec<usize>,
}

/// What the parts at one place of cases have in common.
#[derive(Clone, Debug, PartialEq)]
struct Column<'a> {
    /// Name and unit of an amount; none for a word.
    amount: Option<(&'a str, &'a str)>,
    words: BTreeSet<&'a str>,
}

/// Rows whose cases are built alike.
struct Build<'a> {
    columns: Vec<Column<'a>>,
    subjects: BTreeSet<&'a str>,
    rows: Vec<(Entry<'a>, Vec<Option<Part<'a>>>)>,
}

/// The rows of `entries`, in as few spaces as their cases allow.
pub(crate) fn aligned<'a>(entries: &[Entry<'a>]) -> Vec<Aligned<'a>> {
    let mut builds = by_kinds(entries.iter());
    let mut merged: Vec<Build> = Vec::new();
    // The shorter ones first, which have less to say against being parts of longer ones.
    builds.sort_by_key(|build| build.columns.len());
    for build in builds {
        let mut fits = merged.iter_mut().filter(|other| !other.subjects.is_disjoint(&build.subjects));
        match fits.find_map(|other| {
            let both = alignment(&other.columns, &build.columns, 1)?;
            Some((other, both))
        }) {
            Some((other, both)) => other.take(build, &both),
            None => merged.push(build),
        }
    }
    merged.into_iter().map(Build::aligned).collect()
}

/// Whether most rows of both have cases that one experiment has: the same parts, or one has parts besides.
pub(crate) fn alike(one: &[Entry], other: &[Entry]) -> bool {
    let (Some(one), Some(other)) = (most_frequent(one), most_frequent(other)) else { return false };
    same_kinds(&one.columns, &other.columns) || alignment(&one.columns, &other.columns, 0).is_some()
}

fn most_frequent<'a>(entries: &[Entry<'a>]) -> Option<Build<'a>> {
    let builds = by_kinds(entries.iter().filter(|entry| !entry.row.metric.contains('/')));
    builds.into_iter().max_by_key(|build| build.rows.len())
}

/// The rows of entries whose columns are of the same kinds together.
fn by_kinds<'a: 'b, 'b>(entries: impl Iterator<Item = &'b Entry<'a>>) -> Vec<Build<'a>> {
    let mut builds: Vec<Build> = Vec::new();
    for entry in entries {
        let one = Build::of(*entry);
        match builds.iter_mut().find(|other| same_kinds(&other.columns, &one.columns)) {
            Some(other) => {
                let both = (0..one.columns.len()).map(|place| (Some(place), Some(place))).collect::<Vec<_>>();
                other.take(one, &both);
            }
            None => builds.push(one),
        }
    }
    builds
}

fn same_kinds(one: &[Column], other: &[Column]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.amount == other.amount)
}

/// Which columns of `one` and `other` are the same, in order, as places in each; none where they have too little in
/// common: more than `odd` columns of the shorter one have no partner, or most words that are partners differ.
fn alignment(one: &[Column], other: &[Column], odd: usize) -> Option<Vec<(Option<usize>, Option<usize>)>> {
    let alike = |left: &Column, right: &Column| match (left.amount, right.amount) {
        (None, None) if left.words.is_disjoint(&right.words) => 1,
        (left, right) if left == right => 3,
        _ => 0,
    };
    // Best sum of what is alike, from each pair of places to the ends.
    let mut best = vec![vec![0; other.len() + 1]; one.len() + 1];
    for left in (0..one.len()).rev() {
        for right in (0..other.len()).rev() {
            let both = alike(&one[left], &other[right]);
            let paired = if both > 0 { both + best[left + 1][right + 1] } else { 0 };
            best[left][right] = paired.max(best[left + 1][right]).max(best[left][right + 1]);
        }
    }
    let (mut left, mut right, mut both) = (0, 0, Vec::new());
    while left < one.len() || right < other.len() {
        if left < one.len() && right < other.len() {
            let pair = alike(&one[left], &other[right]);
            if pair > 0 && best[left][right] == pair + best[left + 1][right + 1] {
                both.push((Some(left), Some(right)));
                (left, right) = (left + 1, right + 1);
                continue;
            }
        }
        if right == other.len() || (left < one.len() && best[left][right] == best[left + 1][right]) {
            both.push((Some(left), None));
            left += 1;
        } else {
            both.push((None, Some(right)));
            right += 1;
        }
    }
    let pairs: Vec<_> = both.iter().filter_map(|(left, right)| left.zip(*right)).collect();
    let words: Vec<_> = pairs.iter().filter(|(left, _)| one[*left].amount.is_none()).collect();
    let known = words.iter().filter(|(left, right)| alike(&one[*left], &other[*right]) == 3).count();
    let enough = !pairs.is_empty() && pairs.len() + odd >= one.len().min(other.len());
    (enough && (words.is_empty() || 2 * known > words.len())).then_some(both)
}

impl<'a> Build<'a> {
    fn of(entry: Entry<'a>) -> Self {
        let all = words_and_amounts(entry.row);
        let columns = all.iter().map(|part| match part {
            Part::Word(word) => Column { amount: None, words: [*word].into() },
            Part::Amount { name, unit, .. } => {
                Column { amount: Some((singular(name), *unit)), words: BTreeSet::new() }
            }
        });
        let (columns, place) = (columns.collect(), all.into_iter().map(Some).collect());
        Self { columns, subjects: [entry.row.subject.as_str()].into(), rows: vec![(entry, place)] }
    }

    /// Takes in the rows of `other`, whose columns are paired with those of this one.
    fn take(&mut self, other: Self, both: &[(Option<usize>, Option<usize>)]) {
        let column = |(left, right): &(Option<usize>, Option<usize>)| {
            let words = left.map(|left| &self.columns[left]).into_iter();
            let mut all = words.chain(right.map(|right| &other.columns[right]));
            let mut first = all.next().cloned().unwrap_or(Column { amount: None, words: BTreeSet::new() });
            first.words.extend(all.flat_map(|other| other.words.iter().copied()));
            first
        };
        let columns: Vec<Column> = both.iter().map(column).collect();
        if columns.len() > self.columns.len() {
            for (_, place) in &mut self.rows {
                *place = both.iter().map(|(left, _)| place[(*left)?].clone()).collect();
            }
        }
        self.columns = columns;
        self.rows.extend(other.rows.into_iter().map(|(entry, place)| {
            let moved = both.iter().map(|(_, right)| place[(*right)?].clone());
            (entry, moved.collect())
        }));
        self.subjects.extend(other.subjects);
    }

    fn aligned(mut self) -> Aligned<'a> {
        // In the order of the results, whatever was merged first.
        self.rows.sort_by_key(|(entry, _)| entry.number);
        let (entries, places): (Vec<Entry>, Vec<Vec<Option<Part>>>) = self.rows.into_iter().unzip();
        let places: Vec<Vec<Option<Part>>> = entries
            .iter()
            .zip(places)
            .map(|(entry, place)| {
                [Some(Part::Word(entry.row.subject.as_str()))].into_iter().chain(place).collect()
            })
            .collect();
        let varies =
            |dimension: &usize| places.iter().any(|place| place[*dimension] != places[0][*dimension]);
        let varying = (0..places[0].len()).filter(varies).collect();
        Aligned { entries, places, varying }
    }
}

impl<'a> Aligned<'a> {
    /// Different values along a dimension by name: words in the order of the rows, amounts by size, nothing last.
    pub(crate) fn levels(&self, dimension: usize) -> Vec<String> {
        let mut levels: Vec<&Option<Part>> = Vec::new();
        for place in &self.places {
            if !levels.contains(&&place[dimension]) {
                levels.push(&place[dimension]);
            }
        }
        levels.sort_by(|one, other| amount_of(one).total_cmp(&amount_of(other)));
        levels.into_iter().map(|level| self.name_of(level.as_ref(), dimension)).collect()
    }

    /// The values of a row along `dimensions`.
    pub(crate) fn name(&self, row: usize, dimensions: &[usize]) -> String {
        let names: Vec<String> = dimensions
            .iter()
            .map(|dimension| self.name_of(self.places[row][*dimension].as_ref(), *dimension))
            .collect();
        names.join(", ")
    }

    /// Rows by their values along `dimensions`, amounts by size, else in the order of the rows.
    pub(crate) fn split(&self, dimensions: &[usize]) -> Vec<(String, Vec<usize>)> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for row in self.by_amounts(dimensions) {
            let name = self.name(row, dimensions);
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((name, vec![row])),
            }
        }
        groups
    }

    fn by_amounts(&self, dimensions: &[usize]) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.entries.len()).collect();
        let amounts: Vec<usize> = dimensions.iter().copied().filter(|one| self.is_amount(*one)).collect();
        if amounts.len() == dimensions.len() {
            let key = |row: usize| amounts.iter().map(move |one| amount_of(&self.places[row][*one]));
            rows.sort_by(|one, other| {
                key(*one)
                    .zip(key(*other))
                    .map(|(one, other)| one.total_cmp(&other))
                    .find(|order| order.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        rows
    }

    /// The amount of a row along a dimension.
    pub(crate) fn amount(&self, row: usize, dimension: usize) -> Option<f64> {
        match self.places[row][dimension] {
            Some(Part::Amount { value, .. }) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn is_amount(&self, dimension: usize) -> bool {
        self.places.iter().any(|place| matches!(place[dimension], Some(Part::Amount { .. })))
    }

    /// How many rows have an amount there.
    pub(crate) fn amounts(&self, dimension: usize) -> usize {
        (0..self.places.len()).filter(|row| self.amount(*row, dimension).is_some()).count()
    }

    /// What an axis along a dimension shows.
    pub(crate) fn axis(&self, dimension: usize) -> Axis {
        // `processes` rather than `process`, where some have one and others have the other.
        let amounts = self.places.iter().filter_map(|place| match &place[dimension] {
            Some(Part::Amount { name, unit, .. }) => Some((*name, *unit)),
            _ => None,
        });
        match amounts.max_by_key(|(name, _)| name.len()) {
            Some((name, unit)) => {
                let quantity = Quantity::of(name, if unit.is_empty() { "1" } else { unit });
                Axis { name: name.to_owned(), quantity, ranks: false }
            }
            None if dimension == 0 => {
                Axis { name: "subject".into(), quantity: Quantity::Plain(String::new()), ranks: false }
            }
            None => Axis { name: "condition".into(), quantity: Quantity::Plain(String::new()), ranks: false },
        }
    }

    fn name_of(&self, part: Option<&Part>, dimension: usize) -> String {
        match part {
            Some(Part::Word(word)) => (*word).to_owned(),
            Some(Part::Amount { name, unit, value }) => {
                let unit = if unit.is_empty() { "1" } else { unit };
                let shown = Quantity::of(name, unit).show(*value);
                if name.is_empty() { shown } else { format!("{name} {shown}") }
            }
            None => match self.axis(dimension).name.as_str() {
                "memory" => "all memory".into(),
                "condition" | "subject" | "" => "without".into(),
                name => format!("without {name}"),
            },
        }
    }
}

/// Words do not differ in size, so sorting leaves them as they are.
fn amount_of(part: &Option<Part>) -> f64 {
    match part {
        Some(Part::Amount { value, .. }) => *value,
        Some(Part::Word(_)) => 0.0,
        None => f64::INFINITY,
    }
}

/// The parts of a row's case, and what of its metric follows a slash.
fn words_and_amounts(row: &forebay_results::Row) -> Vec<Part<'_>> {
    let mut all = parts(&row.case);
    all.extend(row.metric.split_once('/').map(|(_, part)| Part::Word(part)));
    all
}

#[cfg(test)]
mod tests {
    use forebay_results::Row;

    use super::*;

    fn spaces(cases: &[(&str, &str)]) -> Vec<(Vec<usize>, Vec<String>)> {
        let rows: Vec<Row> =
            cases.iter().map(|(subject, case)| Row::once(*subject, *case, "m", "1", 1.0)).collect();
        let entries: Vec<Entry> =
            rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
        let all = aligned(&entries);
        all.iter()
            .map(|one| {
                let names = (0..one.entries.len()).map(|row| one.name(row, &one.varying)).collect();
                (one.varying.clone(), names)
            })
            .collect()
    }

    #[test]
    fn a_case_with_one_condition_more_is_of_the_same_space() {
        let all = spaces(&[("nginx", "10 KiB/16 clients"), ("nginx", "10 KiB/16 clients/memory 24 MiB")]);
        assert_eq!(all, [(vec![3], vec!["all memory".to_owned(), "memory 24 MiB".to_owned()])]);
        let disturbed = spaces(&[
            ("f", "4 Mbit/s/udp/files/disk/memory 1 MiB/9 clients"),
            ("f", "4 Mbit/s/udp/files/cached/9 clients/kill"),
            ("f", "4 Mbit/s/udp/files/cached/9 clients"),
        ]);
        assert_eq!(disturbed.len(), 1, "{disturbed:?}");
        assert_eq!(disturbed[0].1[1], "cached, all memory, kill");
    }

    #[test]
    fn cases_of_other_subjects_or_other_words_stay_apart() {
        assert_eq!(spaces(&[("load", "4 KiB/stride 8 B"), ("fill", "4 KiB")]).len(), 2);
        assert_eq!(spaces(&[("a", "x/y/2 hosts"), ("a", "u/v")]).len(), 2);
        assert_eq!(spaces(&[("a", "x/y"), ("b", "u/v")]).len(), 1);
    }
}
