//! Rows as places: their subject, the parts of their case, and what of their metric follows a slash.

use forebay_results::Row;

use crate::{
    case::{Part, parts},
    choose::Entry,
    figure::Axis,
    quantity::Quantity,
};

/// The rows of a figure, as places in the space of their subjects and parts of cases.
pub(crate) struct Space<'a> {
    pub(crate) entries: &'a [Entry<'a>],
    /// One entry a row: the subject, then the parts.
    places: Vec<Vec<Part<'a>>>,
    /// Dimensions that vary: of words, and of amounts.
    pub(crate) words: Vec<usize>,
    pub(crate) amounts: Vec<usize>,
}

impl<'a> Space<'a> {
    pub(crate) fn new(entries: &'a [Entry<'a>]) -> Self {
        let place = |entry: &Entry<'a>| {
            let mut place = vec![Part::Word(entry.row.subject.as_str())];
            place.extend(words_and_amounts(entry.row));
            place
        };
        let places: Vec<Vec<Part>> = entries.iter().map(place).collect();
        let varies =
            |dimension: &usize| places.iter().any(|place| place[*dimension] != places[0][*dimension]);
        let varying: Vec<usize> = (0..places[0].len()).filter(varies).collect();
        let amount = |dimension: &usize| matches!(places[0][*dimension], Part::Amount { .. });
        let (amounts, words) = varying.into_iter().partition(amount);
        Self { entries, places, words, amounts }
    }

    /// Different values along a dimension: words in the order of the rows, amounts by size.
    pub(crate) fn values(&self, dimension: usize) -> Vec<String> {
        let mut values: Vec<&Part> = Vec::new();
        for place in &self.places {
            if !values.contains(&&place[dimension]) {
                values.push(&place[dimension]);
            }
        }
        values.sort_by(|one, other| amount_of(one).total_cmp(&amount_of(other)));
        values.into_iter().map(name_of).collect()
    }

    /// The values of a row along `dimensions`.
    pub(crate) fn name(&self, row: usize, dimensions: &[usize]) -> String {
        let names: Vec<String> =
            dimensions.iter().map(|dimension| name_of(&self.places[row][*dimension])).collect();
        names.join(", ")
    }

    /// Rows by their values along `dimensions`, in the order of the rows.
    pub(crate) fn split(&self, dimensions: &[usize]) -> Vec<(String, Vec<usize>)> {
        let mut panels: Vec<(String, Vec<usize>)> = Vec::new();
        for row in 0..self.entries.len() {
            let name = self.name(row, dimensions);
            match panels.iter_mut().find(|(other, _)| *other == name) {
                Some((_, rows)) => rows.push(row),
                None => panels.push((name, vec![row])),
            }
        }
        panels
    }

    /// How many parts a place has, the subject among them.
    pub(crate) fn dimensions(&self) -> usize {
        self.places[0].len()
    }

    /// The amount of a row along a dimension.
    pub(crate) fn amount(&self, row: usize, dimension: usize) -> f64 {
        amount_of(&self.places[row][dimension])
    }

    /// What an axis along a dimension of amounts shows.
    pub(crate) fn axis(&self, dimension: usize) -> Axis {
        // `processes` rather than `process`, where some have one and others have the other.
        let longest = self.places.iter().map(|place| &place[dimension]).max_by_key(|part| match part {
            Part::Amount { name, .. } => name.len(),
            Part::Word(_) => 0,
        });
        let Some(Part::Amount { name, unit, .. }) = longest else {
            return Axis { name: String::new(), quantity: Quantity::Plain(String::new()) };
        };
        let unit = if unit.is_empty() { "1" } else { unit };
        Axis { name: (*name).to_owned(), quantity: Quantity::of(name, unit) }
    }
}

/// Words do not differ in size, so sorting leaves them as they are.
fn amount_of(part: &Part) -> f64 {
    if let Part::Amount { value, .. } = part { *value } else { 0.0 }
}

fn name_of(part: &Part) -> String {
    match part {
        Part::Word(word) => (*word).to_owned(),
        Part::Amount { name, unit, value } => {
            let unit = if unit.is_empty() { "1" } else { unit };
            let shown = Quantity::of(name, unit).show(*value);
            if name.is_empty() { shown } else { format!("{name} {shown}") }
        }
    }
}

/// The parts of a row's case, and what of its metric follows a slash.
pub(crate) fn words_and_amounts(row: &Row) -> Vec<Part<'_>> {
    let mut all = parts(&row.case);
    all.extend(row.metric.split_once('/').map(|(_, part)| Part::Word(part)));
    all
}
