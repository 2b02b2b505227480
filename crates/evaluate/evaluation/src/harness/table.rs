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
/// Names are not cut to fewer characters.
const NAME_MIN: usize = 12;

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

/// As few tables as are no wider than `width`, each with the first `names` columns, which name a line. Names that leave no room
/// for a figure go on in the next line.
pub(crate) fn render_within(width: usize, names: usize, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let text = |line: &[String], column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let widest = |column: usize| {
        let cells = rows.iter().map(|line| text(line, column));
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let figure = (names..header.len()).map(widest).max().map_or(0, |widest| widest + BESIDE_TEXT);
    let room = width.saturating_sub(BESIDE_COLUMNS + figure);
    let name_max = name_max(&(0..names.min(header.len())).map(widest).collect::<Vec<_>>(), room);
    let rows: Vec<Vec<String>> = rows.iter().flat_map(|line| wrapped(line, names, name_max)).collect();
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

/// So wide names may be if all have room beside each other, and not less than can be read.
fn name_max(widths: &[usize], room: usize) -> usize {
    let fit = |most: &usize| widths.iter().map(|width| width.min(most) + BESIDE_TEXT).sum::<usize>() <= room;
    let widest = widths.iter().copied().max().unwrap_or(0);
    (NAME_MIN..=widest).rev().find(fit).unwrap_or(NAME_MIN)
}

/// The lines of a row whose first `names` cells are cut to so many characters.
fn wrapped(row: &[String], names: usize, most: usize) -> Vec<Vec<String>> {
    let cells: Vec<Vec<&str>> = row
        .iter()
        .enumerate()
        .map(|(column, cell)| if column < names { pieces(cell, most) } else { vec![cell.as_str()] })
        .collect();
    let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number| cells.iter().map(|cell| (*cell.get(number).unwrap_or(&"")).to_owned()).collect();
    (0..lines).map(line).collect()
}

/// A text in pieces of at most so many characters, cut behind words where there are some.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((end, _)) = rest.char_indices().nth(most) {
        let word = rest[..end].rfind([' ', '/', '-', '_', ',']).map_or(end, |place| place + 1);
        pieces.push(rest[..word].trim_end());
        rest = &rest[word..];
    }
    pieces.push(rest);
    pieces
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
    fn names_that_leave_no_room_go_on_in_the_next_line() {
        let header = ["server", "condition", "requests/s", "p99"];
        let server = "/opt/a-server-of-many-words/sbin/with-a-longer-name";
        let condition = "8 clients/memory 24 MiB/rate 500 requests a second";
        let unbroken = "x".repeat(90);
        let row = |server: &str| [server, condition, "1,234", "5 ms"].map(str::to_owned).to_vec();
        let text = render_within(80, 2, &header, vec![row(server), row(&unbroken)]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let column = |number: usize| -> Vec<String> {
            text.lines().map(|line| line.split('|').nth(number).unwrap_or("").trim().to_owned()).collect()
        };
        assert!(column(1).concat().contains(server) && column(1).concat().contains(&unbroken), "{text}");
        assert!(column(2).join(" ").contains("rate 500 requests a second"), "{text}");
        assert_eq!(text.matches("1,234").count(), 2, "{text}");
        assert_eq!(pieces("\u{e9}\u{e9}\u{e9}", 2), ["\u{e9}\u{e9}", "\u{e9}"]);
        assert_eq!(pieces("", 2), [""]);
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
