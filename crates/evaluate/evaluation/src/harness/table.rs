//! Tables for the terminal, which are Markdown as well. None is wider than the terminal: one that would be is several, one
//! below the other.

use comfy_table::{CellAlignment, Table, presets};
use forebay_quantity::{percent, times};
use forebay_results::Spread;
use rustix::stdio::stdout;
use rustix::termios::tcgetwinsize;

/// Width where no terminal tells one.
const WIDTH_DEFAULT: usize = 80;
/// What a column takes besides its text, and a table besides its columns.
const BESIDE_TEXT: usize = 3;
const BESIDE_COLUMNS: usize = 1;

/// A table whose first column is text and whose other columns are figures.
pub(crate) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    render_within(width(), 1, header, rows.into_iter().collect())
}

/// The same with so many columns of text, which name a line.
pub(crate) fn render_named_by(
    names: usize,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    render_within(width(), names, header, rows.into_iter().collect())
}

/// Width of the terminal on standard output.
fn width() -> usize {
    let told = tcgetwinsize(stdout()).map(|size| usize::from(size.ws_col));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    told.ok().filter(|width| *width > 0).or_else(columns).unwrap_or(WIDTH_DEFAULT)
}

/// As few tables as are no wider than `width`, each with the first `names` columns, which name a line.
pub(crate) fn render_within(width: usize, names: usize, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let text = |line: &[String], column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let wide = |column: usize| {
        let widest = rows.iter().map(|line| text(line, column)).max().unwrap_or(0);
        widest.max(header[column].chars().count()) + BESIDE_TEXT
    };
    let named = (0..names.min(header.len())).map(wide).sum::<usize>() + BESIDE_COLUMNS;
    let mut parts: Vec<(Vec<usize>, usize)> = vec![(Vec::new(), named)];
    for column in names..header.len() {
        let (columns, taken) = parts.last_mut().expect("there is a first one");
        if !columns.is_empty() && *taken + wide(column) > width {
            parts.push((vec![column], named + wide(column)));
        } else {
            columns.push(column);
            *taken += wide(column);
        }
    }
    let tables = parts.into_iter().map(|(columns, _)| {
        let all: Vec<usize> = (0..names.min(header.len())).chain(columns).collect();
        let head: Vec<&str> = all.iter().map(|column| header[*column]).collect();
        let cells = |line: &Vec<String>| -> Vec<String> {
            all.iter().map(|column| line.get(*column).cloned().unwrap_or_default()).collect()
        };
        one(&head, names, rows.iter().map(cells))
    });
    tables.collect::<Vec<_>>().join("\n\n")
}

fn one(header: &[&str], names: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A speedup and its extremes.
pub(crate) fn times_spread(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |spread| format!("{} ({} - {})", times(spread.median), times(spread.min), times(spread.max)),
    )
}

/// A share that may not be known.
pub(crate) fn percent_or_dash(share: Option<f64>) -> String {
    percent(share.unwrap_or(f64::NAN))
}

pub(crate) fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "NO" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_is_several_with_the_same_names() {
        let header = ["server", "condition", "requests/s", "Mbit/s", "p50", "p99"];
        let rows = [["nginx", "4 clients", "1", "2", "3", "4"], ["apache", "64 clients", "5", "6", "7", "8"]];
        let rows = || rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        for width in [20, 40, 50, 60, 80] {
            let text = render_within(width, 2, &header, rows());
            let tables: Vec<&str> = text.split("\n\n").collect();
            assert_eq!(tables.len() == 1, width >= 60, "{text}");
            assert!(tables.iter().all(|table| table.starts_with("| server | condition  |")), "{text}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            // Names and one figure are the least that a table has.
            assert!(widest <= width.max(36), "{width}:\n{text}");
            for cell in ["requests/s |", " p99 |", " 7 |", "| apache |", "| 64 clients |"] {
                assert!(text.contains(cell), "{cell} of {width}:\n{text}");
            }
        }
    }

    #[test]
    fn figures_line_up_on_the_right() {
        let table = render(
            &["program", "cold"],
            [vec!["nm".into(), "4.0 s".into()], vec!["ld".into(), "12 s".into()]],
        );
        assert_eq!(
            table,
            "| program |  cold |\n|---------|-------|\n| nm      | 4.0 s |\n| ld      |  12 s |"
        );
    }
}
