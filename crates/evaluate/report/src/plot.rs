//! Which plot shows the rows of a question: it is told from how their cases are built, whatever was measured.
//!
//! An amount with three values or more makes curves, and two with many values make a surface. Many subjects lie in the
//! order of their values. The rest makes bars. All conditions are series of one panel where these have colours, else
//! panels beside each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    aligned::Aligned,
    figure::{Axis, Category, Cell, Figure, Mark, Panel, Plot, Point},
    palette::SERIES_MAX,
    quantity::Quantity,
    question::{Entry, spoken, told},
};

/// So many different amounts make a curve.
const CURVE_MIN: usize = 3;
/// So many places on two axes make a surface, where the second has no colours for all its amounts either.
const SURFACE_MIN: usize = 128;
/// More than these are told in tables only.
const ROWS_MAX: usize = 5000;
const PANELS_MAX: usize = 12;
/// As many bars as a panel has.
const BARS_MAX: usize = 36;
/// Families of metrics, `time/computing` and so on, whose members are the parts of a whole.
const WHOLES: [&str; 1] = ["time"];

/// The figure of a metric; none where all values are the same, or there are too many.
pub(crate) fn figure(metric: &str, quantity: &Quantity, space: &Aligned) -> Option<Figure> {
    let first = space.entries[0].row.value;
    if space.entries.len() > ROWS_MAX || space.entries.iter().all(|entry| entry.row.value == first) {
        return None;
    }
    let (series, panels, labels) = if WHOLES.contains(&metric) && space.entries[0].row.metric.contains('/') {
        parts(space, quantity)
    } else if let Some(along) = along(space) {
        curves(space, along, quantity)
    } else {
        bars(space, quantity)
    };
    let fits = (1..=PANELS_MAX).contains(&panels.len());
    let reference = match metric {
        "speedup" => Some((1.0, "neither faster nor slower".to_owned())),
        "ratio" => Some((1.0, "the same".to_owned())),
        _ => None,
    };
    let axis = axis(metric, quantity, &space.entries);
    let quantity = quantity.clone();
    fits.then(|| Figure { title: spoken(metric), quantity, axis, labels, reference, series, panels })
}

/// The metric and its unit.
fn axis(metric: &str, quantity: &Quantity, entries: &[Entry]) -> String {
    let name = spoken(metric).to_lowercase();
    match quantity {
        Quantity::Time(_) if WHOLES.contains(&metric) => {
            format!("share of {name}, %; {name} in all beside the bars")
        }
        Quantity::Factor if metric == "ratio" => "after over before, times".into(),
        Quantity::Plain(unit) if unit.is_empty() => {
            let whole = entries.iter().all(|entry| entry.row.value.fract() == 0.0);
            format!("{name}, {}", if whole { "count" } else { "ratio" })
        }
        _ => quantity.titled(&name),
    }
}

/// Series, panels, and what is above labels.
type Made = (Vec<String>, Vec<Panel>, String);

/// The amount with the most values, where it makes curves of most rows.
fn along(space: &Aligned) -> Option<usize> {
    let amounts = space.varying.iter().copied().filter(|one| space.is_amount(*one));
    let enough = amounts.filter(|one| {
        let others: Vec<usize> = space.varying.iter().copied().filter(|other| other != one).collect();
        let points = |rows: &[usize]| rows.iter().filter(|row| space.amount(**row, *one).is_some()).count();
        let lines = space.split(&others);
        let on_curves: usize =
            lines.iter().map(|(_, rows)| points(rows)).filter(|points| *points >= CURVE_MIN).sum();
        2 * on_curves > space.entries.len()
    });
    enough.max_by_key(|one| (space.levels(*one).len(), *one))
}

/// `dimensions` as those of series, which have colours in each panel, and those of panels.
fn series_and_panels(space: &Aligned, dimensions: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let (mut series, mut panels) = (dimensions.to_vec(), Vec::new());
    let fits = |series: &[usize]| space.split(series).len() <= SERIES_MAX;
    while !fits(&series) {
        let without = |one: usize| series.iter().copied().filter(|other| *other != one).collect::<Vec<_>>();
        // One alone that helps, with few panels; else the first.
        let alone = series.iter().copied().filter(|one| fits(&without(*one)));
        let next = alone.min_by_key(|one| space.levels(*one).len()).unwrap_or(series[0]);
        series = without(next);
        panels.push(next);
    }
    panels.sort_unstable();
    (series, panels)
}

fn names(groups: &[(String, Vec<usize>)]) -> Vec<String> {
    groups.iter().map(|(name, _)| name.clone()).collect()
}

fn place_in(series: &[String], space: &Aligned, row: usize, dimensions: &[usize]) -> usize {
    let name = space.name(row, dimensions);
    series.iter().position(|one| *one == name).unwrap_or(0)
}

fn curves(space: &Aligned, along: usize, quantity: &Quantity) -> Made {
    let others: Vec<usize> = space.varying.iter().copied().filter(|one| *one != along).collect();
    let second = others.iter().copied().filter(|one| space.is_amount(*one) && space.amounts(*one) > 0);
    let up = second.max_by_key(|one| space.levels(*one).len()).filter(|up| {
        let values = space.levels(*up).len();
        values >= SERIES_MAX && values * space.levels(along).len() >= SURFACE_MIN
    });
    if let Some(up) = up {
        let others: Vec<usize> = others.into_iter().filter(|one| *one != up).collect();
        return (vec![String::new()], surfaces(space, (along, up), &others, quantity), String::new());
    }
    let (side, apart) = series_and_panels(space, &others);
    let series = names(&space.split(&side));
    let panels = space.split(&apart).into_iter().map(|(title, rows)| {
        let mut lines: Vec<BTreeMap<u64, Point>> = vec![BTreeMap::new(); series.len()];
        for row in rows {
            let Some(place) = space.amount(row, along) else { continue };
            let number = place_in(&series, space, row, &side);
            // Amounts are not negative, so their bits are in the order of their values.
            let mark = mark(&space.entries[row], quantity);
            lines[number].insert(place.to_bits(), Point { place, mark });
        }
        let lines = lines.into_iter().map(|line| line.into_values().collect()).collect();
        Panel { title, plot: Plot::Curves { along: space.axis(along), lines } }
    });
    let panels = panels.collect();
    (series, panels, String::new())
}

fn surfaces(
    space: &Aligned,
    (along, up): (usize, usize),
    others: &[usize],
    quantity: &Quantity,
) -> Vec<Panel> {
    let panels = space.split(others).into_iter().map(|(title, rows)| {
        let cell = |row: usize| {
            let place = (space.amount(row, along)?, space.amount(row, up)?);
            Some(Cell { place, mark: mark(&space.entries[row], quantity) })
        };
        let cells = rows.into_iter().filter_map(cell).collect();
        Panel { title, plot: Plot::Surface { along: space.axis(along), up: space.axis(up), cells } }
    });
    panels.collect()
}

fn bars(space: &Aligned, quantity: &Quantity) -> Made {
    let side = side(space);
    let mut rest: Vec<usize> = space.varying.iter().copied().filter(|one| Some(*one) != side).collect();
    let side: Vec<usize> = side.into_iter().collect();
    let series = names(&space.split(&side));
    let mut apart = Vec::new();
    // The last of the conditions makes panels, until a panel has room for what is left.
    while space.split(&apart).iter().any(|(_, rows)| rows.len() > BARS_MAX) {
        if rest.len() < 2 {
            return ranked(space, &side, &[rest, apart].concat(), quantity);
        }
        let last = (1..rest.len()).min_by_key(|one| space.levels(rest[*one]).len()).unwrap_or(1);
        apart.push(rest.remove(last));
    }
    let category = if rest.is_empty() { vec![0] } else { rest };
    let labels: BTreeSet<String> = category.iter().map(|one| space.axis(*one).title_of_labels()).collect();
    let panels = space.split(&apart).into_iter().map(|(title, rows)| {
        let all = categories(space, quantity, (&series, &side), &category, rows);
        Panel { title, plot: Plot::Bars(all) }
    });
    let panels = panels.collect();
    (series, panels, labels.into_iter().collect::<Vec<_>>().join(", "))
}

/// What tells series apart: the last condition that has colours for its values, else the subject.
fn side(space: &Aligned) -> Option<usize> {
    let few = |one: &usize| space.levels(*one).len() <= SERIES_MAX;
    let varying = &space.varying;
    let last = varying.iter().copied().rfind(|one| *one > 0 && few(one));
    last.or_else(|| varying.first().copied().filter(few)).filter(|_| varying.len() > 1)
}

/// All values of each series in their order, for more subjects than there is room to name.
fn ranked(space: &Aligned, side: &[usize], others: &[usize], quantity: &Quantity) -> Made {
    let series = names(&space.split(side));
    let mut lines: Vec<Vec<usize>> = vec![Vec::new(); series.len()];
    for row in 0..space.entries.len() {
        lines[place_in(&series, space, row, side)].push(row);
    }
    let line = |mut rows: Vec<usize>| -> Vec<Point> {
        let value = |row: &usize| space.entries[*row].row.value;
        rows.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let point = |(place, row): (usize, usize)| Point {
            place: place as f64 + 1.0,
            mark: mark(&space.entries[row], quantity),
        };
        rows.into_iter().enumerate().map(point).collect()
    };
    let lines = lines.into_iter().map(line).collect();
    let what = if others.contains(&0) { "subjects" } else { "conditions" };
    let name = format!("{what} in the order of their values");
    let along = Axis { name, quantity: Quantity::Plain(String::new()), ranks: true };
    (series, vec![Panel { title: String::new(), plot: Plot::Curves { along, lines } }], String::new())
}

/// The member of the family tells the parts apart, the subject the panels.
fn parts(space: &Aligned, quantity: &Quantity) -> Made {
    let member = space.varying.last().copied().unwrap_or(0);
    let series = names(&space.split(&[member]));
    let conditions: Vec<usize> =
        space.varying.iter().copied().filter(|one| *one != member && *one > 0).collect();
    let (category, apart) = if conditions.is_empty() { (vec![0], vec![]) } else { (conditions, vec![0]) };
    let panels = space.split(&apart).into_iter().map(|(title, rows)| {
        let all = categories(space, quantity, (&series, &[member]), &category, rows);
        Panel { title, plot: Plot::Stacks(all) }
    });
    let panels = panels.collect();
    let labels = if category == [0] { "subject" } else { "condition" };
    (series.iter().map(|member| member.replace('_', " ")).collect(), panels, labels.into())
}

/// `rows` by their names along `conditions`, with a mark for each of `series`, which are the values along `side`.
fn categories(
    space: &Aligned,
    quantity: &Quantity,
    (series, side): (&[String], &[usize]),
    conditions: &[usize],
    rows: Vec<usize>,
) -> Vec<Category> {
    let mut all: Vec<Category> = Vec::new();
    for row in rows {
        let label = space.name(row, conditions);
        let at = all.iter().position(|one| one.label == label).unwrap_or_else(|| {
            all.push(Category { label, marks: vec![None; series.len()] });
            all.len() - 1
        });
        all[at].marks[place_in(series, space, row, side)] = Some(mark(&space.entries[row], quantity));
    }
    all
}

fn mark(entry: &Entry, quantity: &Quantity) -> Mark {
    let row = entry.row;
    Mark {
        value: row.value,
        range: (row.min, row.max),
        name: format!("{}, {}", row.subject, row.case),
        note: told(row, quantity),
        row: Some(entry.number),
    }
}
