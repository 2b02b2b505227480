//! Rows as a table.

use std::fmt::Write;

use forebay_results::Row;

use super::pages::{Column, Section, Shape};
use crate::{quantity::Quantity, question::spoken};

/// The rows of `section` as a table; `None` without any.
pub(super) fn table(section: &Section, rows: &[Row]) -> Option<String> {
    match section.shape {
        Shape::Sides(columns) => sides(columns, rows),
        Shape::List(subjects) => list(subjects, rows),
    }
}

/// A line for each subject and condition, a column for each metric.
fn sides(columns: &[Column], rows: &[Row]) -> Option<String> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        for (place, column) in columns.iter().enumerate() {
            let Some(case) = column.condition(row) else { continue };
            let at = lines.iter().position(|line| line.subject == row.subject && line.case == case);
            let at = at.unwrap_or_else(|| {
                lines.push(Line { subject: &row.subject, case, cells: vec![vec![]; columns.len()] });
                lines.len() - 1
            });
            lines[at].cells[place].push(row);
        }
    }
    // What only some of the columns know of, such as the sum over all, is no line.
    lines.retain(|line| !line.cells[0].is_empty());
    let is_used = |place: &usize| lines.iter().any(|line| !line.cells[*place].is_empty());
    let used: Vec<usize> = (0..columns.len()).filter(is_used).collect();
    // What is the same in all lines is in the command.
    let differs = lines.iter().any(|line| line.case != lines[0].case) || lines.len() == 1;
    let condition = differs.then_some("case");
    let heads =
        ["subject"].into_iter().chain(condition).chain(used.iter().map(|place| columns[*place].heading));
    let mut text = head(heads.chain(["runs"]));
    for line in &lines {
        let mut cells = vec![line.subject.to_owned()];
        cells.extend(condition.map(|_| line.case.to_owned()));
        cells.extend(used.iter().map(|place| cell(&columns[*place], &line.cells[*place])));
        cells.push(runs(line.cells.iter().flatten().map(|row| row.runs)));
        push_line(&mut text, &cells);
    }
    (!lines.is_empty()).then_some(text)
}

struct Line<'a> {
    subject: &'a str,
    case: &'a str,
    /// The rows of each column: one, or the members of a family.
    cells: Vec<Vec<&'a Row>>,
}

fn cell(column: &Column, rows: &[&Row]) -> String {
    match rows {
        [] => String::new(),
        _ if column.is_family() => {
            let members = rows.iter().filter_map(|row| row.metric.split_once('/'));
            members.map(|(_, member)| member.replace('_', " ")).collect::<Vec<_>>().join(", ")
        }
        [row, ..] => value(row),
    }
}

/// A line for each row of these subjects.
fn list(subjects: &[&str], rows: &[Row]) -> Option<String> {
    let chosen = rows.iter().filter(|row| subjects.iter().any(|subject| row.subject.starts_with(subject)));
    let mut text = head(["subject", "case", "quantity", "median (min - max)", "runs"].into_iter());
    let empty = text.len();
    for row in chosen {
        let cells =
            [row.subject.clone(), row.case.clone(), spoken(&row.metric), value(row), row.runs.to_string()];
        push_line(&mut text, &cells);
    }
    (text.len() > empty).then_some(text)
}

/// Median and extremes.
fn value(row: &Row) -> String {
    let quantity = Quantity::of(&row.metric, &row.unit);
    let [median, least, largest] = [row.value, row.min, row.max].map(|value| quantity.show(value));
    if least == largest {
        return median;
    }
    // The unit once, where it is the same.
    let unit = median.find(' ').map_or("", |place| &median[place..]);
    let extremes = least.strip_suffix(unit).zip(largest.strip_suffix(unit));
    let (least, largest) = extremes.unwrap_or((&least, &largest));
    format!("{median} ({least} - {largest})")
}

/// How often it was measured, where the cells differ from the least to the most.
fn runs(counts: impl Iterator<Item = u32> + Clone) -> String {
    // A verdict over all runs is a single value.
    let repeated = counts.clone().filter(|count| *count > 1);
    let least = repeated.clone().min().or_else(|| counts.clone().min()).unwrap_or(0);
    let most = repeated.max().unwrap_or(least);
    if least == most { least.to_string() } else { format!("{least} - {most}") }
}

fn head<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(str::to_owned).collect();
    let mut text = String::new();
    push_line(&mut text, &names);
    let rule: Vec<String> =
        names.iter().enumerate().map(|(place, _)| if place == 0 { "---" } else { "---:" }.into()).collect();
    push_line(&mut text, &rule);
    text
}

fn push_line(text: &mut String, cells: &[String]) {
    for cell in cells {
        let _ = write!(text, "| {} ", inline(cell));
    }
    text.push_str("|\n");
}

/// Text within a line, of which no character is markup.
pub(super) fn inline(text: &str) -> String {
    let mut plain = String::new();
    for char in text.chars() {
        match char {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '|' | '[' | '`' | '\\' => plain.extend(['\\', char]),
            '\n' | '\t' => plain.push(' '),
            char => plain.push(char),
        }
    }
    plain
}
