//! Every command line of forebay in the documents and in help is one that the parser takes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::Cli;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = ["README.md", "benches/README.md"].map(|page| root.join(page)).into();
    for folder in ["docs/guide", "docs/reference", "docs/benchmarks"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages
}

/// `text` with each command line on one line, also where a backslash goes on to the next.
fn joined(text: &str) -> String {
    text.replace("\\\n", " ")
}

/// A line of code in a page.
#[derive(Debug, PartialEq, Eq)]
enum Code<'a> {
    /// In a block: the reader may type it.
    Block(&'a str),
    /// Between back quotes: it may name a command or an option, and leave the rest out.
    Inline(&'a str),
}

fn code(page: &str) -> Vec<Code<'_>> {
    let mut found = Vec::new();
    // In every second part, between fences, are the blocks.
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 1 {
            let shows_output = part.lines().any(|line| line.starts_with("$ "));
            let typed = part.lines().skip(1).filter(|line| !shows_output || line.starts_with("$ "));
            found.extend(typed.map(Code::Block));
        } else {
            let lines = part.lines();
            found.extend(lines.flat_map(|line| line.split('`').skip(1).step_by(2)).map(Code::Inline));
        }
    }
    found
}

/// The command lines of forebay in a line of code: behind a prompt, `sudo`, `time` and `&&`; up to a pipe, a redirection, a
/// comment and the next command. Capitals stand for what the reader chooses, and `...` for more: such lines are no examples.
fn command_lines(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or(line);
    let commands = line.split("&&").flat_map(|part| part.split(['|', ';', '>']).take(1));
    let lines = commands.filter_map(|command| {
        let mut words =
            command.split_whitespace().skip_while(|word| ["$", "sudo", "time"].contains(word)).peekable();
        words.next_if_eq(&"forebay")?;
        let rest = words.map(|word| word.trim_matches('\'').to_owned());
        Some(std::iter::once("forebay".to_owned()).chain(rest).collect::<Vec<_>>())
    });
    let is_example = |words: &Vec<String>| {
        let is_chosen = |word: &String| word.chars().all(|sign| sign.is_ascii_uppercase());
        words.len() > 1 && !words.iter().any(|word| is_chosen(word) || word.contains("..."))
    };
    lines.filter(is_example).collect()
}

#[test]
fn every_command_line_in_the_documents_is_valid() {
    let mut count = 0;
    let mut broken = Vec::new();
    for path in pages() {
        let page = joined(&fs::read_to_string(&path).unwrap());
        for code in code(&page) {
            let (line, is_complete) = match code {
                Code::Block(line) => (line, true),
                Code::Inline(line) => (line, false),
            };
            for words in command_lines(line) {
                count += 1;
                broken.extend(refusal(&words, is_complete).map(|why| format!("{}: {why}", path.display())));
            }
        }
    }
    assert!(count > 100, "only {count} command lines were found");
    assert!(broken.is_empty(), "{} times:\n  {}", broken.len(), broken.join("\n  "));
}

#[test]
fn every_command_line_in_help_is_valid() {
    fn check(command: &clap::Command, broken: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = joined(&help);
        let examples = help.lines().skip_while(|line| !line.starts_with("Example"));
        broken.extend(examples.flat_map(command_lines).filter_map(|words| refusal(&words, true)));
        command.get_subcommands().for_each(|below| check(below, broken));
    }
    let mut broken = Vec::new();
    check(&Cli::command(), &mut broken);
    assert!(broken.is_empty(), "{} times:\n  {}", broken.len(), broken.join("\n  "));
}

/// Why the parser does not take a command line; what is left out of one that `is_complete` counts.
fn refusal(words: &[String], is_complete: bool) -> Option<String> {
    let error = Cli::try_parse_from(words).err()?;
    let is_empty = || error.get(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new()));
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            !is_complete
        }
        ErrorKind::InvalidValue => !is_complete && is_empty(),
        _ => false,
    };
    let sentence = error.to_string().lines().next().unwrap_or_default().to_owned();
    (!is_fine).then(|| format!("{}: {sentence}", words.join(" ")))
}

#[test]
fn command_lines_are_found_between_other_commands() {
    let typed = joined("$ forebay doctor \\\n    run && forebay run -- make | less  # why");
    let found = command_lines(&typed).concat().join(" ");
    assert_eq!(found, "forebay doctor run forebay run -- make");
    assert!(
        command_lines("forebay run -- CMD [ARGS...]").is_empty() && command_lines("# forebay").is_empty()
    );
    assert_eq!(
        code("a `forebay man` b\n```\n$ forebay demo\nforebay: done\n```\n"),
        [Code::Inline("forebay man"), Code::Block("$ forebay demo")]
    );
}
