//! Pages of Markdown: for each subject a page of chosen rows, each with median, extremes, runs and its command.
//!
//! A page is a function of the results, so the committed pages can be compared with the committed results.

mod pages;
mod table;

use std::fmt::Write;

use crate::results::{Results, Run};
use pages::{PAGES, Page};
use table::inline;

/// A page and the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownPage {
    /// Name of the file, such as `overhead.md`.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// The pages that `results` have rows for.
#[must_use]
pub fn markdown(results: &Results) -> Vec<MarkdownPage> {
    PAGES.iter().filter_map(|page| rendered(page, results)).collect()
}

fn rendered(page: &Page, results: &Results) -> Option<MarkdownPage> {
    let mut text = format!("# {}\n\n", page.title);
    text.push_str("<!-- Made by forebay report --markdown. Measure again rather than edit. -->\n\n");
    let _ = writeln!(text, "{}", page.about);
    let head = text.len();
    for section in page.sections {
        let runs = results.runs.iter().filter(|run| section.is_of(&run.report.command));
        let mut runs: Vec<&Run> = runs.collect();
        // Not in the order of a shell, which each locale has its own of.
        runs.sort_by(|one, other| one.file.cmp(&other.file));
        for run in &runs {
            if let Some(table) = table::table(section, &run.report.rows) {
                let _ = write!(
                    text,
                    "\n## {}\n\n{}\n\n{table}",
                    inline(&section.heading(&run.report.command, runs.len() > 1)),
                    origin(run)
                );
            }
        }
    }
    (text.len() > head).then(|| MarkdownPage { file: format!("{}.md", page.name), text })
}

/// The command of a run, and where it was measured.
fn origin(run: &Run) -> String {
    let (report, host) = (&run.report, &run.report.host);
    // The lines of a command end at the fence, which is longer than what they have of its kind.
    let fence =
        "`".repeat(report.command.split(|char| char != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
    format!(
        "{fence}sh\n{}\n{fence}\n\nRevision {}, {} with {} processors, {} of memory, Linux {}.",
        report.command,
        inline(&report.revision),
        inline(&host.cpu),
        host.cores,
        forebay_quantity::bytes(host.memory_bytes as f64),
        inline(&host.kernel)
    )
}

#[cfg(test)]
mod tests {
    use forebay_results::{Report, Row, Spread};

    use super::*;

    fn page(command: &str, rows: Vec<Row>) -> Vec<MarkdownPage> {
        let run = Run { file: "a.json".into(), report: Report::new("abc", command, rows) };
        markdown(&Results { runs: vec![run], left_out: vec![] })
    }

    fn row(case: &str, metric: &str, unit: &str, values: &[f64]) -> Row {
        Row::of("ld", case, metric, unit, Spread::of(values).unwrap())
    }

    #[test]
    fn a_row_has_its_median_its_extremes_its_runs_and_its_command() {
        let command = "forebay evaluate speculation --profile ssd-1ms-q128 --runs 3 --json a.json";
        let rows = vec![
            row("ssd-1ms-q128/original", "elapsed", "s", &[4.0, 3.0, 5.0]),
            row("ssd-1ms-q128/forebay", "elapsed", "s", &[2.0, 2.0, 2.0]),
            row("ssd-1ms-q128/forebay", "speedup", "1", &[0.5, 2.0, 2.5]),
        ];
        let pages = page(command, rows);
        assert_eq!(pages.len(), 1);
        let text = &pages[0].text;
        assert_eq!(pages[0].file, "run-files.md");
        assert!(text.contains(&format!("```sh\n{command}\n```")), "{text}");
        assert!(text.contains("## Programs\n"), "{text}");
        assert!(text.contains("Revision abc, "), "{text}");
        let line = text.lines().find(|line| line.starts_with("| ld ")).unwrap();
        assert!(line.contains("| 4.00 s (3.00 - 5.00) | 2.00 s |"), "{line}");
        assert!(line.contains("| 2.00x (0.50x - 2.50x) |") && line.ends_with("| 3 |"), "{line}");
    }

    #[test]
    fn what_results_say_is_text_and_never_markup() {
        let mut rows = vec![row("ssd-1ms-q128/original", "elapsed", "s", &[4.0])];
        rows[0].subject = "<script>alert(1)</script>\n| [a](b) `c` \\".into();
        let pages = page("forebay evaluate speculation --x '```\n# a'", rows);
        let text = &pages[0].text;
        let cell = r"| &lt;script>alert(1)&lt;/script> \| \[a](b) \`c\` \\ |";
        assert!(text.contains(cell) && !text.contains("<script"), "{text}");
        assert!(text.contains("\n````sh\nforebay") && text.contains("# a'\n````\n"), "{text}");
    }

    #[test]
    fn results_of_no_page_make_none() {
        assert_eq!(page("forebay run --json a.json -- ls", vec![row("total", "elapsed", "s", &[1.0])]), []);
    }
}
