//! `forebay report`: reads results, writes the page and the other forms of them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_quantity::number;
use forebay_report::{Change, Comparison, LEAST_EFFECT, MarkdownPage, Results, Run, Verdict, figure::Figure};
use forebay_results::{Report as Measured, Row, Sink, reason};

use crate::args::{FailOn, Report};
use crate::experiment::tell;

/// Exit status where a comparison fails by `--fail-on`.
const CHANGED: u8 = 3;

/// Makes everything that was asked for, and writes nothing where that cannot be.
pub fn run(args: &Report) -> anyhow::Result<ExitCode> {
    let before = read(&args.results, args.keep_going)?;
    let mut gate = Gate::default();
    let made = if args.compare.is_empty() {
        Made::of_results(&before)
    } else {
        let after = read(&args.compare, args.keep_going)?;
        let comparison = forebay_report::compare(&before, &after, args.least.unwrap_or(LEAST_EFFECT))?;
        gate = args.fail_on.map_or_else(Gate::default, |fail_on| Gate::of(&comparison, fail_on));
        Made::of_comparison(&before, &after, &comparison)
    };
    let mut sinks = Vec::new();
    prepare(args, &made, &mut sinks)?;
    for (sink, text) in sinks {
        sink.write_text(text)?;
    }
    gate.said.iter().for_each(|line| tell(line));
    Ok(if gate.fails { CHANGED.into() } else { ExitCode::SUCCESS })
}

/// What `--fail-on` finds in a comparison.
#[derive(Default)]
struct Gate {
    /// A line on each change that makes the comparison fail, and on what could not be compared.
    said: Vec<String>,
    fails: bool,
}

impl Gate {
    /// What cannot be compared may have changed: the comparison fails where rows are gone, and where the runs tell of no
    /// value that differs.
    fn of(comparison: &Comparison, fail_on: FailOn) -> Self {
        let (FailOn::Worse(share) | FailOn::Change(share)) = fail_on;
        let mut said = failures(comparison, fail_on);
        let (open, told) = comparison.open(share);
        let gone = comparison.only_before;
        let fails = !said.is_empty() || gone > 0 || (open > 0 && !told);
        if open > 0 {
            said.push(format!(
                "forebay: {open} of {} could not be judged; give at least three runs of each side, and more where they \
                 scatter",
                counted(comparison.changes.len(), "value")
            ));
        }
        if gone > 0 {
            said.push(format!(
                "forebay: {} of before {} missing after; measure the same on both sides",
                counted(gone, "row"),
                if gone == 1 { "is" } else { "are" }
            ));
        }
        Self { said, fails }
    }
}

/// Such as `1 row` and `2 rows`.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A line on each change that counts.
fn failures(comparison: &Comparison, fail_on: FailOn) -> Vec<String> {
    let (share, changes) = match fail_on {
        FailOn::Worse(share) => (share, comparison.decided(share, |verdict| verdict == Verdict::Worse)),
        FailOn::Change(share) => (share, comparison.decided(share, Verdict::is_decided)),
    };
    let line = |change: &&Change| {
        let Row { subject, case, metric, unit, .. } = &change.before;
        let (before, after) = (number(change.before.value), number(change.after.value));
        let verdict = change.judged(share).name();
        format!("forebay: {subject}, {case}: {metric} is {verdict}: {after} {unit}, before {before} {unit}")
    };
    changes.iter().map(line).collect()
}

/// Writes the figures of what this command measured to `folder`.
///
/// # Errors
/// It cannot be written.
pub fn draw(folder: &Path, report: Measured) -> anyhow::Result<()> {
    let run = Run { file: String::new(), report };
    write_figures(folder, &forebay_report::figures(&Results { runs: vec![run], left_out: vec![] }))
}

/// The rows of one file of results.
///
/// # Errors
/// It cannot be read, or is no results.
pub fn rows_of(path: &PathBuf) -> anyhow::Result<Vec<Row>> {
    let results = read(std::slice::from_ref(path), false)?;
    Ok(results.runs.into_iter().flat_map(|run| run.report.rows).collect())
}

/// Opens what is to be written, with its text, and writes the figures.
fn prepare<'a>(args: &Report, made: &'a Made, sinks: &mut Vec<(Sink, &'a str)>) -> anyhow::Result<()> {
    for (path, text) in [(&args.output, &made.page), (&args.csv, &made.csv), (&args.json, &made.json)] {
        if let Some(path) = path {
            let sink = Sink::open(path)?;
            if sinks.iter().any(|(other, _)| other.is_with(&sink)) {
                bail!(
                    "two outputs go to '{}', where they would mix; give each a place of its own",
                    path.display()
                );
            }
            sinks.push((sink, text));
        }
    }
    if args.markdown.as_deref() == Some(Path::new("-")) && sinks.iter().any(|(sink, _)| sink.is_stdout()) {
        bail!("two outputs go to standard output, where they would mix; give each a place of its own");
    }
    args.svg.as_ref().map_or(Ok(()), |folder| write_figures(folder, &made.figures))?;
    args.markdown.as_ref().map_or(Ok(()), |folder| write_pages(folder, &made.pages))
}

/// Writes the pages into `folder`, or the only one to standard output.
fn write_pages(folder: &Path, pages: &[MarkdownPage]) -> anyhow::Result<()> {
    match pages {
        [] => bail!("no page shows these results; give results of forebay evaluate"),
        [page] if folder.as_os_str() == "-" => Ok(Sink::open(folder)?.write_text(&page.text)?),
        _ if folder.as_os_str() == "-" => {
            bail!("these results make {} pages; name a folder for them instead of -", pages.len())
        }
        _ => {
            let cannot =
                || format!("cannot write pages to '{}'; name a folder that you may write", folder.display());
            fs::create_dir_all(folder).with_context(cannot)?;
            pages
                .iter()
                .try_for_each(|page| fs::write(folder.join(&page.file), &page.text))
                .with_context(cannot)
        }
    }
}

/// All forms of what was read.
struct Made {
    page: String,
    csv: String,
    json: String,
    /// By the name of the section.
    figures: Vec<(String, Figure)>,
    pages: Vec<MarkdownPage>,
}

impl Made {
    fn of_results(results: &Results) -> Self {
        Self {
            page: forebay_report::page(results),
            csv: forebay_report::csv(results),
            json: forebay_report::json(results),
            figures: forebay_report::figures(results),
            pages: forebay_report::markdown(results),
        }
    }

    fn of_comparison(before: &Results, after: &Results, comparison: &Comparison) -> Self {
        let figures = forebay_report::comparison_figures(comparison);
        Self {
            page: forebay_report::comparison_page(before, after, comparison),
            csv: forebay_report::comparison_csv(comparison),
            json: String::new(),
            figures: figures.into_iter().map(|figure| ("change".to_owned(), figure)).collect(),
            pages: Vec::new(),
        }
    }
}

/// Reads all files. With `keep_going` those that are refused are told of and left out.
fn read(paths: &[PathBuf], keep_going: bool) -> anyhow::Result<Results> {
    let mut results = Results::default();
    for path in paths {
        match add(&mut results, path) {
            Err(refusal) if keep_going => {
                let sentence = format!("{refusal:#}");
                eprintln!("forebay: {sentence}; it is left out");
                results.left_out.push(sentence);
            }
            added => added?,
        }
    }
    if results.runs.is_empty() {
        bail!("no file is left to report of; give one that a command wrote with --json");
    }
    Ok(results)
}

fn add(results: &mut Results, path: &Path) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| {
        anyhow::anyhow!(
            "cannot read '{name}' ({}); give a file that a command wrote with --json",
            reason(&error)
        )
    })?;
    // What is not text is not JSON either, and says so.
    results.add(&name, &String::from_utf8_lossy(&bytes))?;
    Ok(())
}

/// Writes each figure to `folder`, named by its section and title.
fn write_figures(folder: &Path, figures: &[(String, Figure)]) -> anyhow::Result<()> {
    make_folder(folder, "figures")?;
    let mut taken = HashSet::new();
    for (section, figure) in figures {
        let name = unique(file_name(section, &figure.title), &mut taken);
        fs::write(folder.join(format!("{name}.svg")), forebay_report::svg(figure))
            .with_context(|| cannot_write(folder, "figures"))?;
    }
    Ok(())
}

/// Makes the folder of `what`, where there is none.
///
/// # Errors
/// It cannot be made, or is meant to be standard output.
pub fn make_folder(folder: &Path, what: &str) -> anyhow::Result<()> {
    if folder.as_os_str() == "-" {
        bail!(
            "{what} are several files, which standard output cannot take; name a folder for them instead of -"
        );
    }
    fs::create_dir_all(folder).with_context(|| cannot_write(folder, what))
}

fn cannot_write(folder: &Path, what: &str) -> String {
    format!("cannot write {what} to '{}'; name a folder that you may write", folder.display())
}

/// The name of a figure's file: its section and title in letters and digits of lower case, hyphens between. A section is
/// a command line of any length, and gives way to the title.
fn file_name(section: &str, title: &str) -> String {
    let title = hyphenated(title, NAME_BYTES_MAX / 2);
    let section = hyphenated(section, NAME_BYTES_MAX - title.len());
    let both = [section, title].into_iter().filter(|words| !words.is_empty());
    both.collect::<Vec<_>>().join("-")
}

/// File systems take names of 255 bytes; a number, an ending and hyphens come on top of this.
const NAME_BYTES_MAX: usize = 200;

/// As many of the words as fit into `bytes_max`; of one that alone is longer, its beginning.
fn hyphenated(words: &str, bytes_max: usize) -> String {
    let parts = words.split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut name = parts.collect::<Vec<_>>().join("-").to_lowercase();
    if name.len() > bytes_max {
        let end = name[..=bytes_max].rfind('-').unwrap_or(bytes_max);
        name.truncate(end);
    }
    name
}

/// `name`, with a number where another file has it.
fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let numbered = (2_usize..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|one| !taken.contains(one));
    let free = free.unwrap_or(name);
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names_that_any_file_system_takes() {
        assert_eq!(
            file_name("evaluate speculation --runs 5", "Stall time"),
            "evaluate-speculation-runs-5-stall-time"
        );
        assert_eq!(file_name("../\u{e9}/x", ""), "x");
        assert_eq!(file_name("\u{e9}", "Time"), "time");
        // However long the command is, the title is told.
        for command in ["run --json x ".repeat(100), "y".repeat(1000)] {
            let name = file_name(&command, "Stall time");
            assert!((NAME_BYTES_MAX / 2..=NAME_BYTES_MAX + 1).contains(&name.len()), "{name}");
            assert!(name.ends_with("-stall-time"), "{name}");
        }
        assert!(file_name(&"y".repeat(1000), &"z".repeat(1000)).len() <= NAME_BYTES_MAX + 1);
    }

    #[test]
    fn no_two_figures_have_one_name() {
        let mut taken = HashSet::new();
        let names = ["a", "a", "a-2", "a"].map(|name| unique(name.to_owned(), &mut taken));
        assert_eq!(names, ["a", "a-2", "a-2-2", "a-3"]);
    }
}
