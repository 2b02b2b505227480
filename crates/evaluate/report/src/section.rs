//! Runs that belong together: of one command, with cases that are built alike, such as one experiment on several disks.

use std::collections::HashSet;

use crate::{
    choose::{self, Entry},
    results::{Key, Results, key},
};

/// Runs that are shown together.
pub(crate) struct Section<'a> {
    /// What their commands have in common.
    pub(crate) title: String,
    /// Numbers of the runs.
    pub(crate) runs: Vec<usize>,
    pub(crate) entries: Vec<Entry<'a>>,
}

/// Options that tell where results went and nothing of what was measured.
const OUTPUTS: [&str; 2] = ["--json", "--svg"];

/// The sections of `results`, in the order of the runs.
pub(crate) fn sections(results: &Results) -> Vec<Section<'_>> {
    let mut sections: Vec<(Kind, Section)> = Vec::new();
    let mut number = 0;
    for (run, of) in results.runs.iter().enumerate() {
        let rows = &of.report.rows;
        let entries = rows.iter().zip(number..).map(|(row, number)| Entry { number, row });
        number += rows.len();
        let options = options(&of.report.command);
        let kind = kind(&options, rows);
        // What was measured twice stands side by side, and not on top of each other.
        let apart = |section: &Section| {
            let measured: HashSet<Key> = section.entries.iter().map(|entry| key(entry.row)).collect();
            rows.iter().all(|row| !measured.contains(&key(row)))
        };
        match sections.iter_mut().find(|(other, section)| *other == kind && apart(section)) {
            Some((_, section)) => {
                section.runs.push(run);
                section.entries.extend(entries);
            }
            None => {
                let section = Section { title: String::new(), runs: vec![run], entries: entries.collect() };
                sections.push((kind, section));
            }
        }
    }
    let titles: Vec<String> = sections.iter().map(|(_, section)| title(results, &section.runs)).collect();
    let named = |title: &String, run: usize| {
        let alone = titles.iter().filter(|other| *other == title).count() == 1;
        if alone { title.clone() } else { format!("{title}, {}", origin(results, run)) }
    };
    let named: Vec<String> =
        sections.iter().zip(&titles).map(|((_, section), title)| named(title, section.runs[0])).collect();
    let titled = sections.into_iter().zip(named);
    titled.map(|((_, section), title)| Section { title, ..section }).collect()
}

/// What tells a run from another of the same command.
fn origin(results: &Results, run: usize) -> String {
    format!("run {} at {}", run + 1, results.runs[run].report.revision)
}

/// Words before the first option, and the most frequent build of the cases.
type Kind = (String, Vec<(String, String)>);

fn kind(options: &[String], rows: &[forebay_results::Row]) -> Kind {
    let words: Vec<&str> =
        options.iter().map(String::as_str).take_while(|one| !one.starts_with('-')).collect();
    let mut builds: Vec<(Vec<(String, String)>, usize)> = Vec::new();
    for row in rows.iter().filter(|row| !row.metric.contains('/')) {
        let (_, _, build) = choose::shape(row);
        match builds.iter_mut().find(|(other, _)| *other == build) {
            Some((_, count)) => *count += 1,
            None => builds.push((build, 1)),
        }
    }
    let build = builds.into_iter().max_by_key(|(_, count)| *count).map(|(build, _)| build);
    (words.join(" "), build.unwrap_or_default())
}

/// The words of a command line behind the program, options with their values.
pub(crate) fn options(command: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for word in command.split_whitespace().skip(1) {
        match options.last_mut() {
            Some(last) if last.starts_with("--") && !last.contains([' ', '=']) && !word.starts_with('-') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => options.push(word.to_owned()),
        }
    }
    options.retain(|option| !OUTPUTS.iter().any(|output| option.split([' ', '=']).next() == Some(output)));
    options
}

fn title(results: &Results, runs: &[usize]) -> String {
    let mut of_all = runs.iter().map(|run| options(&results.runs[*run].report.command));
    let mut shared = of_all.next().unwrap_or_default();
    for options in of_all {
        shared.retain(|option| options.contains(option));
    }
    if shared.is_empty() { "Results".into() } else { shared.join(" ") }
}

#[cfg(test)]
mod tests {
    use forebay_results::{Report, Row};

    use super::*;

    fn results(commands: &[(&str, &str)]) -> Results {
        let mut results = Results::default();
        for (number, (command, case)) in commands.iter().enumerate() {
            let report =
                Report::new("r", *command, vec![Row::once(number.to_string(), *case, "elapsed", "s", 1.0)]);
            results.add(&format!("{number}.json"), &serde_json::to_string(&report).unwrap()).unwrap();
        }
        results
    }

    #[test]
    fn runs_of_one_command_with_cases_built_alike_are_one_section() {
        let results = results(&[
            (
                "forebay evaluate speculation --profile ssd-1ms-q128 --runs 5 --json a.json",
                "ssd-1ms-q128/forebay",
            ),
            ("forebay evaluate overhead --json o.json", "warm/forebay"),
            ("forebay evaluate speculation --profile local --runs 5 --json=b.json", "local/forebay"),
            ("forebay evaluate speculation --table 5 --svg x.svg", "ssd-1ms-q128/10 MiB/on"),
        ]);
        let sections = sections(&results);
        let told: Vec<_> = sections.iter().map(|one| (one.title.as_str(), one.runs.as_slice())).collect();
        let expected: [(&str, &[usize]); 3] = [
            ("evaluate speculation --runs 5", &[0, 2]),
            ("evaluate overhead", &[1]),
            ("evaluate speculation --table 5", &[3]),
        ];
        assert_eq!(told, expected);
        assert_eq!(sections[0].entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn runs_that_measured_the_same_are_sections_of_their_own_and_named() {
        let text = |revision: &str| {
            let rows = vec![Row::once("ld", "ssd-1ms-q128/forebay", "elapsed", "s", 1.0)];
            serde_json::to_string(&Report::new(revision, "forebay evaluate overhead", rows)).unwrap()
        };
        let mut results = Results::default();
        results.add("a.json", &text("abc")).unwrap();
        results.add("b.json", &text("def")).unwrap();
        let sections = sections(&results);
        let titles: Vec<&str> = sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["evaluate overhead, run 1 at abc", "evaluate overhead, run 2 at def"]);
        assert_eq!(sections[1].entries[0].number, 1);
    }

    #[test]
    fn a_command_that_says_nothing_has_a_title_all_the_same() {
        assert_eq!(sections(&results(&[("", "x")]))[0].title, "Results");
    }
}
