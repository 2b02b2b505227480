//! Tables for the terminal that are Markdown as well, and numbers as people read them.

use comfy_table::{CellAlignment, Table, presets};
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

/// Three digits of a duration, in the unit that suits it.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value < 0.000_999_5 => format!("{:.0} us", value * 1e6),
        value if value < 0.009_995 => format!("{:.2} ms", value * 1e3),
        value if value < 0.099_95 => format!("{:.1} ms", value * 1e3),
        value if value < 0.999_5 => format!("{:.0} ms", value * 1e3),
        value if value < 9.995 => format!("{value:.2} s"),
        value if value < 99.95 => format!("{value:.1} s"),
        value => format!("{value:.0} s"),
    }
}

/// A speedup, e.g. `15.4x`.
pub(crate) fn times(value: f64) -> String {
    if value < 9.995 { format!("{value:.2}x") } else { format!("{value:.1}x") }
}

/// A speedup and its extremes.
pub(crate) fn times_spread(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |spread| format!("{} ({} - {})", times(spread.median), times(spread.min), times(spread.max)),
    )
}

/// A share, e.g. `97 %`.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// A size, e.g. `62.5 MiB`.
pub(crate) fn mebibytes(bytes: f64) -> String {
    if bytes.is_finite() { format!("{:.1} MiB", bytes / f64::from(1 << 20)) } else { "-".to_owned() }
}

pub(crate) fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "NO" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits() {
        let shown = [0.000_5, 0.001_234, 0.012_34, 0.123_4, 1.234, 12.34, 123.4, f64::NAN].map(seconds);
        assert_eq!(shown, ["500 us", "1.23 ms", "12.3 ms", "123 ms", "1.23 s", "12.3 s", "123 s", "-"]);
    }

    #[test]
    fn a_unit_changes_before_a_fourth_digit_appears() {
        assert_eq!([0.999_7, 9.996, 99.97].map(seconds), ["1.00 s", "10.0 s", "100 s"]);
    }

    #[test]
    fn figures_line_up_on_the_right() {
        let table = render(
            &["program", "cold"],
            [vec!["agrep".into(), "4.0 s".into()], vec!["ld".into(), "12 s".into()]],
        );
        assert_eq!(
            table,
            "| program |  cold |\n|---------|-------|\n| agrep   | 4.0 s |\n| ld      |  12 s |"
        );
    }
}
