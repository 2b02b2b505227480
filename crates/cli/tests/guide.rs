//! The guide in `docs/guide` has every option of every command: in the page of its first word, or in one of those that continue it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commands that have no page of their own: doctor's and run's pages describe them.
const ELSEWHERE: &[(&str, &str)] = &[("demo", "run"), ("completions", "doctor"), ("man", "doctor")];

/// Options that every command has.
const OF_ALL: &[&str] = &["--help", "--version"];

fn help(words: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines below a heading of help, up to the next heading.
fn section<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let below = help.lines().skip_while(move |line| *line != heading).skip(1);
    below.take_while(|line| line.is_empty() || line.starts_with(' '))
}

fn subcommands(help: &str) -> Vec<String> {
    let names = section(help, "Commands:").filter_map(|line| {
        let (name, _) = line.strip_prefix("  ")?.split_once(' ')?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

/// `--stats` of `      --stats   Print ...` and of `  -n, --hosts <N>  Number ...`.
fn options(help: &str) -> BTreeSet<String> {
    let long = section(help, "Options:").filter_map(|line| {
        let head = line.trim_start().split("  ").next()?;
        let flag = head.split([' ', ',', '=', '[']).find(|word| word.starts_with("--"))?;
        head.starts_with('-').then(|| flag.to_owned())
    });
    long.filter(|flag| !OF_ALL.contains(&flag.as_str())).collect()
}

/// Whether a page has the option, and not only a longer one that begins with it.
fn mentions(page: &str, option: &str) -> bool {
    page.match_indices(option).any(|(at, _)| {
        let next = page[at + option.len()..].chars().next().unwrap_or(' ');
        !next.is_ascii_alphanumeric() && next != '-'
    })
}

/// The text of `NAME.md` and of each `NAME-*.md`.
fn pages(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let is_part = |file: &str| file == format!("{name}.md") || file.starts_with(&format!("{name}-"));
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let parts = files.filter(|file| file.file_name().and_then(|file| file.to_str()).is_some_and(is_part));
    let text: String = parts.map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(!text.is_empty(), "{}: no page {name}.md", folder.display());
    text
}

/// The commands without subcommands, each with the options of its help.
fn commands(words: Vec<String>, found: &mut Vec<(Vec<String>, BTreeSet<String>)>) {
    let help = help(&words);
    let below = subcommands(&help);
    if below.is_empty() {
        found.push((words, options(&help)));
        return;
    }
    for name in below {
        commands(words.iter().cloned().chain([name]).collect(), found);
    }
}

#[test]
fn every_option_of_every_command_is_in_its_page_of_the_guide() {
    let mut found = Vec::new();
    commands(vec![], &mut found);
    let mut missing = Vec::new();
    let mut count = 0;
    for (words, options) in &found {
        let first = words[0].as_str();
        let page = ELSEWHERE.iter().find(|(command, _)| *command == first).map_or(first, |(_, page)| page);
        let text = pages(page);
        if !text.contains(&words.join(" ")) {
            missing.push(format!("{page}.md does not name {}", words.join(" ")));
        }
        count += options.len();
        let absent = options.iter().filter(|option| !mentions(&text, option));
        missing.extend(absent.map(|option| format!("{page}.md: {option} of {}", words.join(" "))));
    }
    assert!(found.len() > 15 && count > 80, "{} commands with {count} options", found.len());
    assert!(missing.is_empty(), "{} times:\n  {}", missing.len(), missing.join("\n  "));
}

#[test]
fn options_are_found_in_help_as_clap_writes_it() {
    let help = "Does.\n\nCommands:\n  run   Run it\n  help  Print\n\nOptions:\n  -n, --hosts <N>  So --many\n      \
                --stats      Print\n      --files[=<PATH>]\n          Tell --more\n  -h, --help  Print\n\nExamples:\n  --no\n";
    assert_eq!(subcommands(help), ["run"]);
    let options: Vec<String> = options(help).into_iter().collect();
    assert_eq!(options, ["--files", "--hosts", "--stats"]);
    assert!(mentions("`--json FILE`", "--json") && !mentions("--json-lines", "--json"));
}
