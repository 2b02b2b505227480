//! Experiments: runs of one command whose cases are built alike, such as one on several disks, and their questions.

use std::collections::{BTreeSet, HashSet};

use crate::{
    aligned,
    conclusions::{Conclusion, conclusions},
    limits::{Limit, limits},
    question::{Entry, Question, family, questions},
    results::{Key, Results, key},
    summary::{counted, list},
    title::{Of, titles},
};

/// Runs that are shown together.
pub(crate) struct Experiment<'a> {
    /// What their commands have in common, words and options.
    pub(crate) command: String,
    /// For a reader.
    pub(crate) title: String,
    /// What was done, where that is known.
    pub(crate) about: &'static str,
    /// Numbers of the runs.
    pub(crate) runs: Vec<usize>,
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) questions: Vec<Question<'a>>,
    /// What limits in how many conditions.
    pub(crate) limits: Vec<Limit>,
    /// What follows, condition by condition.
    pub(crate) conclusions: Vec<Conclusion>,
}

/// Runs of one experiment may have measured a small part again, such as what the machine can do at most: one in so many.
const AGAIN_MAX: usize = 4;

/// Options that tell where results went and nothing of what was measured.
const OUTPUTS: [&str; 2] = ["--json", "--svg"];

/// The experiments of `results`, in the order of the runs.
pub(crate) fn experiments(results: &Results) -> Vec<Experiment<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut number = 0;
    for (run, of) in results.runs.iter().enumerate() {
        let rows = &of.report.rows;
        let entries: Vec<Entry> =
            rows.iter().zip(number..).map(|(row, number)| Entry { number, row }).collect();
        number += rows.len();
        let words = words(&options(&of.report.command));
        match groups.iter_mut().find(|group| group.words == words && group.takes(&entries)) {
            Some(group) => {
                group.runs.push(run);
                group.entries.extend(entries);
            }
            None => groups.push(Group { words, runs: vec![run], entries }),
        }
    }
    let commands: Vec<String> = groups.iter().map(|group| shared(results, &group.runs)).collect();
    let of = commands.iter().zip(&groups).map(|(command, group)| Of::new(command, &group.entries));
    let titles = titles(&of.collect::<Vec<_>>());
    let named =
        groups.into_iter().zip(commands).zip(titles).map(|((group, command), (title, about))| Experiment {
            command,
            title,
            about,
            questions: questions(&group.entries),
            limits: limits(results, &group.runs, &group.entries),
            conclusions: conclusions(results, &group.runs),
            runs: group.runs,
            entries: group.entries,
        });
    named.collect()
}

struct Group<'a> {
    words: String,
    runs: Vec<usize>,
    entries: Vec<Entry<'a>>,
}

impl<'a> Group<'a> {
    /// Whether `entries` are of the same experiment: they measured the same of other conditions. What was measured
    /// twice stands side by side, and not on top of each other.
    fn takes(&self, entries: &[Entry<'a>]) -> bool {
        let measured: HashSet<Key> = self.entries.iter().map(|entry| key(entry.row)).collect();
        let again = entries.iter().filter(|entry| measured.contains(&key(entry.row))).count();
        let metrics = |entries: &[Entry<'a>]| -> BTreeSet<&'a str> {
            entries.iter().map(|entry| family(&entry.row.metric)).collect()
        };
        let (own, other) = (metrics(&self.entries), metrics(entries));
        let shared = own.intersection(&other).count();
        2 * shared >= own.len().min(other.len())
            && AGAIN_MAX * again <= entries.len()
            && aligned::alike(&self.entries, entries)
    }
}

impl Experiment<'_> {
    /// What was measured, in a sentence.
    pub(crate) fn measured(&self) -> String {
        let mut subjects: Vec<&str> = Vec::new();
        let mut cases: Vec<&str> = Vec::new();
        for entry in &self.entries {
            let (subject, case) = (entry.row.subject.as_str(), entry.row.case.as_str());
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        let of = if subjects.len() == 1 { String::new() } else { format!("{} subjects: ", subjects.len()) };
        format!(
            "Measured: {of}{}, in {}; {} of {}.",
            list(&subjects, 6),
            counted(cases.len(), "condition", "conditions"),
            counted(self.entries.len(), "value", "values"),
            counted(self.runs.len(), "file", "files"),
        )
    }
}

/// Words before the first option.
fn words(options: &[String]) -> String {
    let words: Vec<&str> =
        options.iter().map(String::as_str).take_while(|one| !one.starts_with('-')).collect();
    words.join(" ")
}

/// The words of a command line behind the program, options with their values.
pub(crate) fn options(command: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    // Anything may stand in a file, also what is no line for a shell.
    let words =
        shlex::split(command).unwrap_or_else(|| command.split_whitespace().map(str::to_owned).collect());
    for word in words.into_iter().skip(1) {
        match options.last_mut() {
            Some(last) if last.starts_with("--") && !last.contains([' ', '=']) && !word.starts_with('-') => {
                last.push(' ');
                last.push_str(&word);
            }
            _ => options.push(word),
        }
    }
    options.retain(|option| !OUTPUTS.iter().any(|output| option.split([' ', '=']).next() == Some(output)));
    options
}

/// What the commands of runs have in common.
fn shared(results: &Results, runs: &[usize]) -> String {
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
        let sections = experiments(&results);
        let told: Vec<_> = sections.iter().map(|one| (one.command.as_str(), one.runs.as_slice())).collect();
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
        let sections = experiments(&results);
        let titles: Vec<&str> = sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "Programs that forebay run cannot help (measurement 1 of 2)",
                "Programs that forebay run cannot help (measurement 2 of 2)"
            ]
        );
        assert_eq!(sections[1].entries[0].number, 1);
    }

    #[test]
    fn quoted_arguments_are_whole() {
        let command = "forebay evaluate meter --json 'my results.json' -- sh -c 'echo --svg x'";
        assert_eq!(options(command), ["evaluate", "meter", "-- sh", "-c", "echo --svg x"]);
        assert_eq!(options("forebay it's --runs 5"), ["it's", "--runs 5"]);
    }

    #[test]
    fn a_command_that_says_nothing_has_a_title_all_the_same() {
        assert_eq!(experiments(&results(&[("", "x")]))[0].title, "What was measured of 0");
    }
}
