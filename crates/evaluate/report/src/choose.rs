//! Which rows make a figure, and of what kind: it is told from how their cases are built, whatever was measured.
//!
//! Rows of one metric whose cases are built alike differ in their subject and in the parts of their case. Where an amount
//! among these takes three values or more there are curves over it; where two take many there is a surface; else there
//! are bars. The last word of a case is the side, and tells the series apart; what is left makes panels.

use std::collections::{BTreeMap, BTreeSet};

use forebay_results::{Row, Tier};

use crate::{
    case::{Part, singular},
    figure::{Category, Cell, Figure, Mark, Panel, Plot, Point},
    palette::SERIES_MAX,
    quantity::Quantity,
    space::{Space, words_and_amounts},
};

/// A row and its number among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) number: usize,
    pub(crate) row: &'a Row,
}

/// So many different amounts make a curve.
const CURVE_MIN: usize = 3;
/// So many places on two axes make a surface, where the second has no colours for all its amounts either.
const SURFACE_MIN: usize = 128;
/// More than these are told in tables only.
const ROWS_MAX: usize = 5000;
const PANELS_MAX: usize = 24;
const CATEGORIES_MAX: usize = 40;
/// As many names as a heading has room for.
const SUBJECTS_MAX: usize = 3;
/// Families of metrics, `time/computing` and so on, whose members are the parts of a whole.
const WHOLES: [&str; 1] = ["time"];
/// Metrics that tell by themselves what came of it, on however few sides they are.
const VERDICTS: [&str; 4] = ["speedup", "overhead", "ratio", "transactions"];

/// What rows must have in common to be in one figure: metric, unit, and the kinds of the parts of their cases.
pub(crate) type Shape = (String, String, Vec<(String, String)>);

/// The figures of `entries`, verdicts first, then in the order of the rows.
pub(crate) fn figures<'a>(entries: &[Entry<'a>]) -> Vec<Figure> {
    let mut groups: Vec<(Shape, Vec<Entry<'a>>)> = Vec::new();
    for entry in entries {
        let shape = shape(entry.row);
        match groups.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, group)) => group.push(*entry),
            None => groups.push((shape, vec![*entry])),
        }
    }
    let covered = |group: &[Entry], subjects: &BTreeSet<&str>| {
        let own = group.iter().filter(|entry| subjects.contains(entry.row.subject.as_str()));
        own.map(|entry| (&entry.row.subject, &entry.row.case)).collect::<BTreeSet<_>>().len()
    };
    // What was counted on one of the sides only is for those who look it up.
    let mut most_of: BTreeMap<BTreeSet<&str>, usize> = BTreeMap::new();
    let mut on_most_sides = |group: &[Entry<'a>]| {
        let subjects: BTreeSet<&str> = group.iter().map(|entry| entry.row.subject.as_str()).collect();
        let own = covered(group, &subjects);
        let most = most_of.entry(subjects).or_insert_with_key(|subjects| {
            groups.iter().map(|(_, other)| covered(other, subjects)).max().unwrap_or(0)
        });
        4 * own >= 3 * *most
    };
    let mut shown: Vec<&(Shape, Vec<Entry>)> = groups
        .iter()
        .filter(|((metric, ..), group)| VERDICTS.contains(&metric.as_str()) || on_most_sides(group))
        .collect();
    shown.sort_by_key(|((metric, ..), _)| !VERDICTS.contains(&metric.as_str()));
    let made = shown.into_iter().flat_map(|((metric, unit, _), group)| {
        by_tier(group).into_iter().filter_map(move |group| figure(metric, unit, &group))
    });
    told_apart(made.collect())
}

/// Gives figures of one quantity the names of what they are of, where these are few.
fn told_apart(mut figures: Vec<Figure>) -> Vec<Figure> {
    let titles: Vec<String> = figures.iter().map(|figure| figure.title.clone()).collect();
    for figure in &mut figures {
        let subjects: BTreeSet<&str> =
            figure.marks().map(|mark| mark.name.split(", ").next().unwrap_or_default()).collect();
        let twice = titles.iter().filter(|title| **title == figure.title).count() > 1;
        if twice && subjects.len() <= SUBJECTS_MAX {
            figure.title =
                format!("{}: {}", figure.title, subjects.into_iter().collect::<Vec<_>>().join(", "));
        }
    }
    figures
}

/// What `row` has in common with the rows that it can be drawn with. `time/disk` is a part of `time`.
pub(crate) fn shape(row: &Row) -> Shape {
    let kinds = words_and_amounts(row).into_iter().map(|part| match part {
        Part::Word(_) => ("word".to_owned(), String::new()),
        Part::Amount { name, unit, .. } => (singular(name).to_owned(), unit.to_owned()),
    });
    let metric = row.metric.split('/').next().unwrap_or_default();
    (metric.to_owned(), row.unit.clone(), kinds.collect())
}

/// The same quantity known by two tiers makes two figures; a prediction beside a measurement makes one.
fn by_tier<'a>(group: &[Entry<'a>]) -> Vec<Vec<Entry<'a>>> {
    let mut seen = BTreeSet::new();
    let name = |row: &'a Row| (&row.subject, &row.case, &row.metric);
    if group.iter().all(|entry| seen.insert(name(entry.row))) {
        return vec![group.to_vec()];
    }
    let of = |tier| group.iter().filter(|entry| entry.row.tier == tier).copied().collect::<Vec<_>>();
    Tier::ALL.into_iter().map(of).filter(|group| !group.is_empty()).collect()
}

fn figure(metric: &str, unit: &str, entries: &[Entry]) -> Option<Figure> {
    let first = entries[0].row.value;
    if entries.len() > ROWS_MAX || entries.iter().all(|entry| entry.row.value == first) {
        return None;
    }
    let quantity = Quantity::of(metric, unit);
    let space = Space::new(entries);
    let longest = space.amounts.iter().copied().max_by_key(|amount| (space.values(*amount).len(), *amount));
    let along = longest.filter(|amount| space.values(*amount).len() >= CURVE_MIN);
    let (series, panels) = match along {
        _ if WHOLES.contains(&metric) => over_parts(&space, &quantity),
        Some(along) => over_amounts(&space, along, &quantity),
        None => over_words(&space, &quantity),
    };
    let categories = |panel: &Panel| match &panel.plot {
        Plot::Bars(all) | Plot::Stacks(all) => all.len(),
        Plot::Curves { .. } | Plot::Surface { .. } => 0,
    };
    let fits = panels.len() <= PANELS_MAX && panels.iter().all(|panel| categories(panel) <= CATEGORIES_MAX);
    let reference = (metric == "speedup").then(|| (1.0, "neither faster nor slower".to_owned()));
    let reference = reference.or_else(|| (metric == "ratio").then(|| (1.0, "the same".to_owned())));
    let title = spoken(metric);
    fits.then(|| Figure { axis: axis(&title, &quantity), title, quantity, reference, series, panels })
}

/// A metric as a heading.
pub(crate) fn spoken(metric: &str) -> String {
    let mut characters = metric.chars().map(|char| if char == '_' { ' ' } else { char });
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn axis(title: &str, quantity: &Quantity) -> String {
    match quantity {
        Quantity::Time(_) if WHOLES.contains(&title.to_lowercase().as_str()) => {
            format!("share of {}, {} in all beside the bars", title.to_lowercase(), title.to_lowercase())
        }
        Quantity::Factor if title == "Ratio" => "times as much as before".into(),
        Quantity::Factor => "times as fast".into(),
        Quantity::Plain(unit) if !unit.is_empty() => format!("{}, {unit}", title.to_lowercase()),
        _ => title.to_lowercase(),
    }
}

fn over_words(space: &Space, quantity: &Quantity) -> (Vec<String>, Vec<Panel>) {
    // Amounts with two values only are as good as words.
    let dimensions: BTreeSet<usize> = space.words.iter().chain(&space.amounts).copied().collect();
    let side = space.dimensions() - 1;
    let sides = if dimensions.contains(&side) && side > 0 { space.values(side).len() } else { 0 };
    let alone = dimensions.len() == 1;
    let side = (2..=SERIES_MAX).contains(&sides).then_some(side).filter(|_| !alone);
    let series = side.map_or_else(|| vec![String::new()], |side| space.values(side));
    let mut rest: Vec<usize> = dimensions.into_iter().filter(|one| Some(*one) != side).collect();
    let category: Vec<usize> = if rest.is_empty() { vec![0] } else { vec![rest.remove(0)] };
    let panels = space.split(&rest).into_iter().map(|(title, rows)| {
        // Without a side all rows are of the one series.
        let side = (series.as_slice(), side.unwrap_or(0));
        Panel { title, plot: Plot::Bars(categories(space, quantity, side, &category, rows)) }
    });
    let panels = panels.collect();
    (series, panels)
}

/// The member of the family tells the parts apart, the subject the panels.
fn over_parts(space: &Space, quantity: &Quantity) -> (Vec<String>, Vec<Panel>) {
    let member = space.dimensions() - 1;
    let series = space.values(member);
    let varying: BTreeSet<usize> = space.words.iter().chain(&space.amounts).copied().collect();
    let conditions: Vec<usize> = varying.into_iter().filter(|one| *one != member && *one > 0).collect();
    let panels = space.split(&[0]).into_iter().map(|(title, rows)| Panel {
        title,
        plot: Plot::Stacks(categories(space, quantity, (&series, member), &conditions, rows)),
    });
    let panels = panels.collect();
    (series.iter().map(|member| member.replace('_', " ")).collect(), panels)
}

/// `rows` by their names along `conditions`, with a mark for each of `series`, which are the values along `side`.
fn categories(
    space: &Space,
    quantity: &Quantity,
    (series, side): (&[String], usize),
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

fn over_amounts(space: &Space, along: usize, quantity: &Quantity) -> (Vec<String>, Vec<Panel>) {
    let second = space
        .amounts
        .iter()
        .copied()
        .filter(|amount| *amount != along)
        .max_by_key(|amount| space.values(*amount).len());
    let mut words = space.words.clone();
    let other = |dimensions: &[usize]| {
        space
            .amounts
            .iter()
            .copied()
            .filter(|amount| *amount != along && !dimensions.contains(amount))
            .collect::<Vec<_>>()
    };
    let up = second.filter(|second| {
        let values = space.values(*second).len();
        values >= SERIES_MAX && values * space.values(along).len() >= SURFACE_MIN
    });
    if let Some(up) = up {
        let panels = space.split(&[words, other(&[up])].concat()).into_iter().map(|(title, rows)| {
            let cell = |row: usize| Cell {
                place: (space.amount(row, along), space.amount(row, up)),
                mark: mark(&space.entries[row], quantity),
            };
            let cells = rows.into_iter().map(cell).collect();
            Panel { title, plot: Plot::Surface { along: space.axis(along), up: space.axis(up), cells } }
        });
        return (vec![String::new()], panels.collect());
    }
    // The side, else the subject, else the other amount.
    let side = words.last().copied().or(second).filter(|side| space.values(*side).len() <= SERIES_MAX);
    words.retain(|word| Some(*word) != side);
    let series = side.map_or_else(|| vec![String::new()], |side| space.values(side));
    let apart = [words, other(&side.into_iter().collect::<Vec<_>>())].concat();
    let panels = space.split(&apart).into_iter().map(|(title, rows)| {
        let mut lines: Vec<BTreeMap<u64, Point>> = vec![BTreeMap::new(); series.len()];
        for row in rows {
            let number = side.map_or(0, |side| place_in(&series, space, row, side));
            let place = space.amount(row, along);
            // Amounts are not negative, so their bits are in the order of their values.
            lines[number].insert(place.to_bits(), Point { place, mark: mark(&space.entries[row], quantity) });
        }
        let lines = lines.into_iter().map(|line| line.into_values().collect()).collect();
        Panel { title, plot: Plot::Curves { along: space.axis(along), lines } }
    });
    let panels = panels.collect();
    (series, panels)
}

fn place_in(series: &[String], space: &Space, row: usize, side: usize) -> usize {
    let name = space.name(row, &[side]);
    series.iter().position(|one| *one == name).unwrap_or(0)
}

fn mark(entry: &Entry, quantity: &Quantity) -> Mark {
    let row = entry.row;
    Mark {
        value: row.value,
        range: (row.min, row.max),
        name: format!("{}, {}", row.subject, row.case),
        note: told(row, quantity),
        link: Some(format!("#r{}", entry.number)),
    }
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
mod tests {
    use super::*;

    fn figures_of(rows: &[(&str, &str, &str, f64)]) -> Vec<Figure> {
        let rows: Vec<Row> = rows
            .iter()
            .map(|(subject, case, metric, value)| Row::once(*subject, *case, *metric, "1", *value))
            .collect();
        let entries: Vec<Entry> =
            rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
        figures(&entries)
    }

    fn titles(figure: &Figure) -> Vec<&str> {
        figure.panels.iter().map(|panel| panel.title.as_str()).collect()
    }

    #[test]
    fn words_make_bars_with_a_series_for_each_side_and_a_panel_for_each_disk() {
        let mut rows = Vec::new();
        for (disk, subject) in
            [("ssd-1ms-q128", "ld"), ("ssd-1ms-q128", "grep"), ("local", "ld"), ("local", "grep")]
        {
            for (side, value) in [("original", 3.0), ("forebay", 1.0)] {
                rows.push((subject, format!("{disk}/{side}"), value));
            }
        }
        let rows: Vec<_> =
            rows.iter().map(|(subject, case, value)| (*subject, case.as_str(), "stalls", *value)).collect();
        let figures = figures_of(&rows);
        let [figure] = figures.as_slice() else { panic!("{figures:?}") };
        assert_eq!(
            (figure.title.as_str(), figure.series.as_slice()),
            ("Stalls", &["original".to_owned(), "forebay".to_owned()][..])
        );
        assert_eq!(titles(figure), ["ssd-1ms-q128", "local"]);
        let Plot::Bars(categories) = &figure.panels[1].plot else { panic!("{figure:?}") };
        assert_eq!(categories.iter().map(|one| one.label.as_str()).collect::<Vec<_>>(), ["ld", "grep"]);
        assert_eq!(categories[1].marks[0].as_ref().unwrap().link.as_deref(), Some("#r6"));
    }

    #[test]
    fn an_amount_with_three_values_makes_curves_by_size() {
        let rows = [
            ("fft", "ssd-1ms-q128/20 MiB/off", 5.0),
            ("fft", "ssd-1ms-q128/10 MiB/off", 9.0),
            ("fft", "ssd-1ms-q128/40 MiB/off", 2.0),
            ("fft", "ssd-1ms-q128/10 MiB/on", 4.0),
        ];
        let figures = figures_of(&rows.map(|(subject, case, value)| (subject, case, "stalls", value)));
        let Plot::Curves { along, lines } = &figures[0].panels[0].plot else { panic!("{figures:?}") };
        let mebibytes: Vec<f64> = lines[0].iter().map(|point| point.place / 1_048_576.0).collect();
        assert_eq!((mebibytes, lines[1].len()), (vec![10.0, 20.0, 40.0], 1));
        assert_eq!(
            (along.quantity.clone(), figures[0].series.clone()),
            (Quantity::Bytes, vec!["off".to_owned(), "on".to_owned()])
        );
    }

    #[test]
    fn two_amounts_make_lines_where_few_and_a_surface_where_many() {
        let rows = |sets: usize| -> Vec<(String, f64)> {
            let all = (0..sets).flat_map(|set| (0..8).map(move |stride| (set, stride)));
            all.map(|(set, stride)| {
                (format!("load/{} KiB/stride {}", 1 << set, 1 << stride), (set * 9 + stride) as f64)
            })
            .collect()
        };
        let figure = |sets| {
            let rows = rows(sets);
            let rows: Vec<_> =
                rows.iter().map(|(case, value)| ("memory", case.as_str(), "rate", *value)).collect();
            figures_of(&rows).remove(0)
        };
        let few = figure(4);
        assert_eq!(few.series, ["1 KiB", "2 KiB", "4 KiB", "8 KiB"]);
        let Plot::Curves { along, .. } = &few.panels[0].plot else { panic!("{few:?}") };
        assert_eq!(along.name, "stride");
        let many = figure(20);
        let Plot::Surface { along, up, cells } = &many.panels[0].plot else { panic!("{many:?}") };
        assert_eq!((along.quantity.clone(), up.name.as_str(), cells.len()), (Quantity::Bytes, "stride", 160));
    }

    #[test]
    fn what_one_side_alone_counted_is_for_the_table_but_a_verdict_is_shown() {
        let both = [
            ("a", "x", 1.0),
            ("a", "y", 2.0),
            ("b", "x", 3.0),
            ("b", "y", 4.0),
            ("c", "x", 3.0),
            ("c", "y", 4.0),
        ];
        let mut rows: Vec<_> =
            both.iter().map(|(subject, case, value)| (*subject, *case, "stalls", *value)).collect();
        rows.extend([
            ("a", "y", "hints", 7.0),
            ("b", "y", "hints", 8.0),
            ("a", "y", "speedup", 2.0),
            ("b", "y", "speedup", 3.0),
        ]);
        let figures = figures_of(&rows);
        assert_eq!(
            figures.iter().map(|figure| figure.title.as_str()).collect::<Vec<_>>(),
            ["Speedup", "Stalls"]
        );
        assert_eq!(figures[0].reference.as_ref().unwrap().0, 1.0);
    }

    #[test]
    fn what_does_not_differ_and_what_is_alone_is_no_figure() {
        assert_eq!(figures_of(&[("a", "x", "stalls", 1.0)]), []);
        assert_eq!(figures_of(&[("a", "x", "stalls", 1.0), ("b", "x", "stalls", 1.0)]), []);
        assert_eq!(figures_of(&[]), []);
    }

    #[test]
    fn parts_of_a_metric_are_told_apart() {
        let rows = [
            ("web", "p/model", "time/disk", 1.0),
            ("web", "p/model", "time/network", 3.0),
            ("rtp", "p/model", "time/disk", 2.0),
        ];
        let figures = figures_of(&rows);
        assert_eq!((figures[0].title.as_str(), figures[0].series.len()), ("Time", 2));
        assert_eq!(figures[0].marks().count(), 3);
    }

    #[test]
    fn figures_of_one_quantity_have_the_names_of_what_they_are_of() {
        let rows = [
            ("page fault", "minor", 1.0),
            ("page fault", "major", 9.0),
            ("call", "4 KiB", 2.0),
            ("call", "8 KiB", 3.0),
        ];
        let figures = figures_of(&rows.map(|(subject, case, value)| (subject, case, "cost", value)));
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Cost: page fault", "Cost: call"]);
    }

    #[test]
    fn one_quantity_of_two_tiers_makes_two_figures() {
        let rows: Vec<Row> = [("a", 1.0), ("b", 2.0)]
            .map(|(subject, value)| Row::once(subject, "x", "misses", "1", value))
            .into();
        let simulated = rows.iter().cloned().map(|row| row.with_tier(Tier::Simulated));
        let rows: Vec<Row> = rows.iter().cloned().chain(simulated).collect();
        let entries: Vec<Entry> =
            rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
        assert_eq!(figures(&entries).len(), 2);
    }
}
