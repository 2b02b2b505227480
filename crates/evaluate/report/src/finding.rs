//! What a question shows, in a sentence: a change from one condition to another, what stands out, on which side of 1.

use forebay_results::{Direction, Row};

use crate::{
    aligned::Aligned,
    quantity::Quantity,
    question::spoken,
    summary::{counted, grouped},
};

/// A sentence, and how much it matters beside others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) sentence: String,
    pub(crate) strength: f64,
}

/// A change by less is none.
const LEAST_CHANGE: f64 = 0.1;
/// So many values make a middle that one of them can be far from.
const PEERS_MIN: usize = 6;
/// How far that is: in median distances from the middle, and as a factor.
const FAR: f64 = 6.0;
const FAR_FACTOR: f64 = 2.0;
/// Dimensions with more values are no conditions to set against each other.
const LEVELS_MAX: usize = 24;
/// Nothing matters more than a wrong result.
const WRONG: f64 = 1e3;

/// What `space` shows, if anything.
pub(crate) fn of(metric: &str, quantity: &Quantity, space: &Aligned) -> Option<Finding> {
    match quantity {
        Quantity::Flag => wrong(metric, space),
        Quantity::Factor => around_one(metric, quantity, space),
        _ => {
            let findings = [change(metric, quantity, space), outlier(metric, quantity, space)];
            findings.into_iter().flatten().max_by(|one, other| one.strength.total_cmp(&other.strength))
        }
    }
}

fn named(row: &Row) -> String {
    format!("{}, {}", row.subject, row.case)
}

fn wrong(metric: &str, space: &Aligned) -> Option<Finding> {
    let wrong: Vec<&Row> = space.entries.iter().map(|entry| entry.row).filter(|row| row.min < 1.0).collect();
    let first = wrong.first()?;
    let of = counted(space.entries.len(), "condition", "conditions");
    let sentence =
        format!("{} does not hold in {} of {of}, first of {}.", spoken(metric), wrong.len(), named(first));
    Some(Finding { sentence, strength: WRONG })
}

/// Of ratios: how many lie above and below 1 in every run, and the ends.
fn around_one(metric: &str, quantity: &Quantity, space: &Aligned) -> Option<Finding> {
    let rows: Vec<&Row> = space.entries.iter().map(|entry| entry.row).collect();
    let order = |one: &&&Row, other: &&&Row| one.value.total_cmp(&other.value);
    let (least, most) = (rows.iter().min_by(order)?, rows.iter().max_by(order)?);
    let above = rows.iter().filter(|row| row.min > 1.0).count();
    let below = rows.iter().filter(|row| row.max < 1.0).count();
    let [faster, slower] =
        if metric == "speedup" { ["Faster", "slower"] } else { ["More than before", "less"] };
    let ends = |row: &Row| format!("{} ({})", quantity.show(row.value), named(row));
    let sentence = match rows.len() {
        1 => format!("{} is {}.", spoken(metric), ends(most)),
        all => format!(
            "{faster} in every run in {} of {} conditions, {slower} in {}. The most is {}, the least {}.",
            grouped(above),
            grouped(all),
            grouped(below),
            ends(most),
            ends(least)
        ),
    };
    let mut logs: Vec<f64> =
        rows.iter().filter(|row| row.value > 0.0).map(|row| row.value.ln().abs()).collect();
    Some(Finding { sentence, strength: 1.0 + middle(&mut logs).unwrap_or(0.0) })
}

/// A pair of rows that differ in one condition, by places.
struct Pair {
    from: usize,
    to: usize,
}

/// The largest change from one condition to another that all else agrees on.
fn change(metric: &str, quantity: &Quantity, space: &Aligned) -> Option<Finding> {
    let changes = space.varying.iter().filter_map(|dimension| {
        let levels = space.levels(*dimension);
        (2..=LEVELS_MAX).contains(&levels.len()).then_some(())?;
        // Amounts from the least to the largest; conditions against the first, or against none at all.
        let (first, others) = if is_condition(space, *dimension) && space.is_amount(*dimension) {
            levels.split_last()?
        } else {
            let (first, others) = levels.split_first()?;
            let last = if space.is_amount(*dimension) { others.len() - 1 } else { 0 };
            (first, &others[last..])
        };
        let all =
            others.iter().filter_map(|other| from_to(metric, quantity, space, *dimension, (first, other)));
        all.max_by(|one, other| one.strength.total_cmp(&other.strength))
    });
    changes.max_by(|one, other| one.strength.total_cmp(&other.strength))
}

/// Whether a dimension has conditions, such as a limit that some rows do not have, and no mere amounts.
fn is_condition(space: &Aligned, dimension: usize) -> bool {
    space.amounts(dimension) < space.entries.len()
}

fn from_to(
    metric: &str,
    quantity: &Quantity,
    space: &Aligned,
    dimension: usize,
    (from, to): (&str, &str),
) -> Option<Finding> {
    let (mut pairs, all) = pairs(space, dimension, (from, to));
    let value = |row: usize| space.entries[row].row.value;
    let log = |pair: &Pair| (value(pair.to) / value(pair.from)).ln();
    pairs.sort_by(|one, other| log(one).total_cmp(&log(other)));
    // Of an even number, the larger change of the two in the middle.
    let middles = [pairs.len().checked_sub(1)? / 2, pairs.len() / 2].map(|place| &pairs[place]);
    let typical = middles.into_iter().max_by(|one, other| log(one).abs().total_cmp(&log(other).abs()))?;
    let by = log(typical);
    let alike = pairs.iter().filter(|pair| log(pair).signum() == by.signum()).count();
    if by.abs() < LEAST_CHANGE || 4 * alike < 3 * all {
        return None;
    }
    let factor = Quantity::Factor.show(by.abs().exp()).replace('x', " times");
    let moved = if by > 0.0 { "more" } else { "less" };
    let with = match dimension {
        0 => format!("Of {to} instead of {from}"),
        _ if !is_condition(space, dimension) => format!("From {from} to {to}"),
        _ => format!("With {to} instead of {from}"),
    };
    let elsewhere: Vec<usize> = space.varying.iter().copied().filter(|other| *other != dimension).collect();
    let at = space.name(typical.from, &elsewhere);
    let at = if at.is_empty() { String::new() } else { format!(" ({at})") };
    let judged = match Direction::of(metric, &space.entries[0].row.unit) {
        // Of a size or a number of clients it is no merit.
        _ if !is_condition(space, dimension) => "",
        Some(direction) if direction.is_worse(by.exp()) => ", for the worse",
        Some(_) => ", for the better",
        None => "",
    };
    let told = if all > 1 {
        format!("; {moved} in {} of {} such pairs", grouped(alike), grouped(all))
    } else {
        String::new()
    };
    let (before, after) = (quantity.show(value(typical.from)), quantity.show(value(typical.to)));
    let sentence = format!(
        "{with}: {} {after} against {before}{at}, {factor} {moved}{judged}{told}.",
        spoken(metric).to_lowercase()
    );
    // Servers and programs differ anyway, sizes have their costs, and less is known from a single pair.
    let weight = if dimension == 0 || !is_condition(space, dimension) { 0.4 } else { 1.0 };
    let known = (pairs.len() as f64 / (pairs.len() as f64 + 1.0)).max(0.6);
    Some(Finding { sentence, strength: by.abs().min(5.0) * weight * known })
}

/// Rows with these values along `dimension`, and all else alike, where both are above 0; and how many there are in all.
fn pairs(space: &Aligned, dimension: usize, (from, to): (&str, &str)) -> (Vec<Pair>, usize) {
    let others: Vec<usize> = space.varying.iter().copied().filter(|other| *other != dimension).collect();
    let groups = space.split(&others);
    let all = groups.iter().filter_map(|(_, rows)| {
        let at = |level: &str| rows.iter().copied().find(|row| space.name(*row, &[dimension]) == level);
        Some(Pair { from: at(from)?, to: at(to)? })
    });
    let mut pairs: Vec<Pair> = all.collect();
    let number = pairs.len();
    let above = |row: usize| space.entries[row].row.value > 0.0;
    pairs.retain(|pair| above(pair.from) && above(pair.to));
    (pairs, number)
}

/// A value far from all others that differ in the subject, or in one condition without an order, alone.
fn outlier(metric: &str, quantity: &Quantity, space: &Aligned) -> Option<Finding> {
    let words = space.varying.iter().copied().filter(|one| !space.is_amount(*one));
    let mut far: Option<(f64, usize, f64, usize)> = None;
    for dimension in words {
        let others: Vec<usize> = space.varying.iter().copied().filter(|one| *one != dimension).collect();
        for (_, rows) in space.split(&others) {
            let rows: Vec<usize> =
                rows.into_iter().filter(|row| space.entries[*row].row.value > 0.0).collect();
            if rows.len() < PEERS_MIN {
                continue;
            }
            let log = |row: &usize| space.entries[*row].row.value.ln();
            let centre = middle(&mut rows.iter().map(log).collect::<Vec<_>>())?;
            let apart = middle(&mut rows.iter().map(|row| (log(row) - centre).abs()).collect::<Vec<_>>())?;
            for row in &rows {
                let by = (log(row) - centre).abs();
                let is_far = by > FAR * apart && by > FAR_FACTOR.ln();
                if is_far && far.is_none_or(|(most, ..)| by > most) {
                    far = Some((by, *row, centre, rows.len()));
                }
            }
        }
    }
    let (by, row, centre, all) = far?;
    let row = space.entries[row].row;
    let sentence = format!(
        "{} stands out: {} is {}, where {} is in the middle of {} alike.",
        named(row),
        spoken(metric).to_lowercase(),
        quantity.show(row.value),
        quantity.show(centre.exp()),
        grouped(all)
    );
    Some(Finding { sentence, strength: by.min(5.0) * 0.6 })
}

fn middle(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
