//! `forebay completions` and `forebay man`: what is made from the command line's own table.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};

/// Prints the completions of a shell.
pub fn completions(args: &Completions) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "forebay", &mut text);
    print(&text)
}

/// Prints the main man page, or writes all of them.
pub fn man(args: &Man) -> anyhow::Result<ExitCode> {
    let Some(folder) = &args.dir else {
        let mut text = Vec::new();
        Page::new(Cli::command()).render(&mut text)?;
        return print(&text);
    };
    let cannot =
        || format!("cannot write man pages to '{}'; name a folder that you may write", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    match io::stdout().write_all(text) {
        // A reader like head(1) that has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output; check where it goes")?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;
    use clap_complete::Shell;

    use super::*;

    /// The command and all below it that users are told of, each with its words, e.g. `["forebay", "evaluate", "meter"]`.
    fn commands() -> Vec<(Vec<String>, Command)> {
        fn collect(words: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
            let words: Vec<String> = words.iter().cloned().chain([command.get_name().to_owned()]).collect();
            all.push((words.clone(), command.clone()));
            let below =
                command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
            below.for_each(|one| collect(&words, one, all));
        }
        let mut all = Vec::new();
        let mut command = Cli::command();
        command.build();
        collect(&[], &command, &mut all);
        all
    }

    fn flags(command: &Command) -> BTreeSet<String> {
        let told = command.get_arguments().filter(|argument| !argument.is_hide_set());
        told.filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect()
    }

    /// What begins with two hyphens, and goes on with a letter.
    fn flags_in(text: &str) -> BTreeSet<String> {
        let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-');
        let flags = words
            .filter(|word| word.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic)));
        flags.map(str::to_owned).collect()
    }

    #[test]
    fn every_command_has_a_man_page_with_its_flags_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        man(&Man { dir: Some(folder.path().to_owned()) }).unwrap();
        let mut pages = BTreeSet::new();
        for (words, command) in commands() {
            let name = format!("{}.1", words.join("-"));
            let page = fs::read_to_string(folder.path().join(&name)).unwrap_or_else(|_| panic!("no {name}"));
            let options = page.split(".SH OPTIONS").nth(1).and_then(|rest| rest.split("\n.SH ").next());
            // A heading is of bold flags; descriptions may speak of other commands'.
            let headings = options.unwrap_or_default().lines().filter(|line| line.starts_with("\\fB"));
            let plain = |line: &str| {
                ["\\fB", "\\fR", "\\fI"]
                    .iter()
                    .fold(line.replace("\\-", "-"), |line, font| line.replace(font, " "))
            };
            let headings: String = headings.map(|line| plain(line) + "\n").collect();
            assert_eq!(flags_in(&headings), flags(&command), "{name}");
            pages.insert(name);
        }
        let written = fs::read_dir(folder.path()).unwrap().flatten();
        let written: BTreeSet<String> = written.map(|file| file.file_name().into_string().unwrap()).collect();
        assert_eq!(written, pages);
    }

    #[test]
    fn every_shell_completes_every_flag_of_every_command() {
        let of = |shell| {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut text);
            String::from_utf8(text).unwrap()
        };
        let (bash, zsh, fish) = (of(Shell::Bash), of(Shell::Zsh), of(Shell::Fish));
        for (words, command) in commands() {
            let case = format!("\n        {})\n            opts=\"", words.join("__subcmd__"));
            let rest = bash.split_once(&case);
            let (_, rest) = rest.unwrap_or_else(|| panic!("bash has no {words:?}"));
            let offered = flags_in(rest.split('"').next().unwrap());
            assert_eq!(offered, flags(&command), "{words:?}");
            for flag in flags(&command) {
                assert!(zsh.contains(&flag), "zsh: {flag}");
                assert!(
                    fish.contains(&format!("-l {} ", &flag[2..]))
                        || fish.contains(&format!("-l {}\n", &flag[2..])),
                    "fish: {flag}"
                );
            }
        }
    }
}
