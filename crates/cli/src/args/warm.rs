//! Options of `forebay warm`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Options of `forebay warm`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(after_help = HELP, group(ArgGroup::new("told").multiple(true).args(["wait", "explain"])))]
pub struct Warm {
    /// Fetch what lies below DIR, where the paths of the pack begin [default: /]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Return when all is in memory, and say what was fetched
    #[arg(long)]
    pub wait: bool,
    /// Fetch the recorded parts of files with another size or time, too
    #[arg(long)]
    pub even_if_changed: bool,
    /// Print what a cold start pays, by kind, folder and file, and fetch nothing
    #[arg(long, conflicts_with_all = ["wait", "even_if_changed"])]
    pub explain: bool,
    /// Write what --wait or --explain says as JSON to FILE (-: standard output)
    #[arg(long, value_name = "FILE", requires = "told")]
    pub json: Option<PathBuf>,
    /// A pack that 'forebay profile pack' made; - is standard input
    #[arg(value_name = "PACK", required_unless_present = "command")]
    pub pack: Option<PathBuf>,
    /// Take the profile that your own runs of this command left
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pack", "root"])]
    pub command: Vec<OsString>,
}

const HELP: &str = "\
Without --wait the fetching goes on in the background. It fills at most a
quarter of the available memory. Files that have changed are left alone but for
their first block. No symbolic link leads out of DIR.

Exit status:
  0: all was fetched, or is being fetched.
  1: the pack is refused, the command has no profile, or nothing was found.

Examples:
  forebay warm app.profile
  forebay warm --wait --root /srv/app app.profile
  forebay warm --explain app.profile
  forebay warm -- git status";

impl Warm {
    /// What the full parser makes of a command line (without the program's name) that starts with `warm` and has options that
    /// need no other program; `None` for any other.
    pub fn quickly(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.peekable();
        arguments.next_if(|command| command == "warm")?;
        let mut warm = Self::default();
        while let Some(argument) = arguments.next() {
            let text = argument.to_str()?;
            let (option, value) = match text.split_once('=') {
                Some((option, value)) if option.starts_with('-') => (option, Some(value)),
                _ => (text, None),
            };
            match option {
                "--" if value.is_none() => {
                    warm.command = arguments.collect();
                    let is_alone = warm.pack.is_none() && warm.root.is_none();
                    return (is_alone && !warm.command.is_empty()).then_some(warm);
                }
                "--wait" if value.is_none() && !warm.wait => warm.wait = true,
                "--even-if-changed" if value.is_none() && !warm.even_if_changed => {
                    warm.even_if_changed = true;
                }
                "--root" if warm.root.is_none() => {
                    warm.root = Some(super::plain(value, &mut arguments)?.into());
                }
                _ if is_name(text) && warm.pack.is_none() => warm.pack = Some(argument.into()),
                _ => return None,
            }
        }
        warm.pack.is_some().then_some(warm)
    }
}

fn is_name(word: &str) -> bool {
    word == "-" || !word.is_empty() && !word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn the_quick_parser_agrees_with_the_full_one() {
        let words = [
            "--",
            "--wait",
            "--root",
            "--root=a",
            "--even-if-changed",
            "--explain",
            "-",
            "a",
            "-x",
            "",
            "warm",
        ];
        let mut quick = 0;
        // All command lines of up to four of these words.
        for length in 0..=4 {
            for number in 0..words.len().pow(length) {
                let chosen = (0..length).map(|place| words[number / words.len().pow(place) % words.len()]);
                let line: Vec<OsString> = ["warm"].into_iter().chain(chosen).map(OsString::from).collect();
                let Some(warm) = Warm::quickly(line.iter().cloned()) else { continue };
                quick += 1;
                let full = Cli::try_parse_from(["forebay".into()].into_iter().chain(line.iter().cloned()));
                let Ok(Cli { command: Command::Warm(full) }) = full else { panic!("{line:?}: {warm:?}") };
                assert_eq!(warm, full, "{line:?}");
            }
        }
        assert!(quick > 300, "{quick}");
    }
}
