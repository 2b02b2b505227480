//! Tables for the terminal, which are Markdown as well.

use comfy_table::{CellAlignment, Table, presets};
use forebay_quantity::{percent, times};
use forebay_results::Spread;

/// A table whose first column is text and whose other columns are figures.
pub(crate) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
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
