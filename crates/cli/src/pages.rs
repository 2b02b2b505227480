//! `forebay completions` and `forebay man`: what is made from the command line's own table.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
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
    let Some(folder) = &args.dir else { return print(page(&Page::new(Cli::command()))?.as_bytes()) };
    let cannot =
        || format!("cannot write man pages to '{}'; name a folder that you may write", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

/// The pages of a command and of all its subcommands.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let its_page = Page::new(command.clone());
    fs::write(folder.join(its_page.get_filename()), page(&its_page)?)
}

/// A man page. groff fills paragraphs, so indented lines of the text after the options are marked to be kept as they are.
fn page(page: &Page) -> io::Result<String> {
    let mut filled = Vec::new();
    page.render(&mut filled)?;
    let filled = String::from_utf8(filled).map_err(io::Error::other)?;
    let (mut kept, mut is_extra, mut is_kept) = (String::new(), false, false);
    for line in filled.lines() {
        if line.starts_with(".SH ") {
            is_extra = line == ".SH EXTRA";
        }
        let is_indented = is_extra && line.starts_with(' ');
        if is_indented && !is_kept {
            kept += ".nf\n";
        } else if is_kept && !is_indented && !line.is_empty() {
            kept += ".fi\n";
            is_kept = false;
        }
        is_kept |= is_indented;
        kept += line;
        kept.push('\n');
    }
    Ok(kept)
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
            // Groups of options follow in sections of their own, and then the text after all.
            let options = page.split(".SH OPTIONS").nth(1).and_then(|rest| rest.split("\n.SH EXTRA").next());
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

    /// A paragraph that is one line is wrapped by clap. A line of several, or an indented one, would become ragged.
    fn ragged(text: &str) -> Vec<&str> {
        let paragraphs = text.split("\n\n").map(|paragraph| paragraph.lines().collect::<Vec<_>>());
        let of_lines = paragraphs.filter(|lines| lines.len() != 1 || lines[0].starts_with(' '));
        of_lines.flatten().filter(|line| line.chars().count() > 80).collect()
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let mut wide = Vec::new();
        for (words, command) in commands() {
            let written = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            wide.extend(ragged(&written).into_iter().map(|line| format!("{words:?}: {line}")));
            let shown = command.term_width(80).render_help().to_string();
            // clap keeps a usage in one line, and terminals wrap it.
            let too_long = |line: &&str| line.chars().count() > 80 && !line.starts_with("Usage: ");
            wide.extend(shown.lines().filter(too_long).map(|line| format!("{words:?}: {line}")));
        }
        assert!(wide.is_empty(), "wider than 80 columns:\n{}", wide.join("\n"));
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
