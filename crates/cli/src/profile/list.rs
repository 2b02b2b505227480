//! `forebay profile list`: a line for each profile, those used last first.

use std::cmp::Reverse;
use std::fmt::Write;
use std::path::Path;
use std::time::SystemTime;

use forebay_profile::{Costs, Level, Profile};
use forebay_quantity::thousands;
use forebay_results::Sink;
use forebay_supervisor::{ProfileStore, terminal_width};
use serde::Serialize;

use super::SCHEMA;
use crate::args::List;
use crate::costs::{printable, size};
use crate::results::REVISION;
use crate::warm::{print, write};

/// What stands before the command in a line.
const NUMBERS: usize = 38;
const COMMAND_MIN: usize = 20;

/// A profile in the list.
#[derive(Debug, Serialize)]
pub struct Row {
    command: Vec<String>,
    /// What the profile is bound to: `program`, `subject` or `whole`.
    level: &'static str,
    directory: String,
    runs: u32,
    last_use_s: u64,
    paths: u64,
    bytes: u64,
    file: String,
    #[serde(skip)]
    is_shared: bool,
}

#[derive(Serialize)]
struct Rows {
    schema: u32,
    revision: &'static str,
    folder: String,
    off: bool,
    profiles: Vec<Row>,
}

/// Prints the list, and writes it.
pub fn run(store: &ProfileStore, list: &List) -> anyhow::Result<()> {
    let sink = list.json.as_deref().map(Sink::open).transpose()?;
    let mut profiles: Vec<Profile> = store.profiles().collect();
    profiles.sort_by_key(|profile| (Reverse(profile.last_use_s()), Reverse(profile.key().level)));
    let profiles: Vec<Row> = profiles.iter().map(Row::of).collect();
    let off = store.is_off();
    if list.json.as_deref() != Some(Path::new("-")) {
        print(&text(&profiles, off, now_s(), terminal_width()))?;
    }
    let folder = store.path().display().to_string();
    let rows = Rows { schema: SCHEMA, revision: REVISION, folder, off, profiles };
    sink.map(|sink| write(sink, &rows)).transpose()?;
    Ok(())
}

fn text(rows: &[Row], off: bool, now_s: u64, width: usize) -> String {
    let mut text = String::new();
    if off {
        text.push_str("Profiles are off; 'forebay profile on' turns them on.\n");
    }
    if rows.is_empty() {
        text.push_str("There are no profiles; 'forebay run' leaves one of each command that it runs.\n");
        return text;
    }
    let _ = writeln!(text, "{:>6}{:>10}{:>9}{:>11}  command", "runs", "last use", "paths", "data");
    for row in rows {
        let numbers = format!(
            "{:>6}{:>10}{:>9}{:>11}  ",
            row.runs,
            ago(now_s.saturating_sub(row.last_use_s)),
            thousands(row.paths),
            size(row.bytes)
        );
        let _ =
            writeln!(text, "{numbers}{}", clip(&row.line(), width.saturating_sub(NUMBERS).max(COMMAND_MIN)));
    }
    text
}

impl Row {
    /// What is told of a profile.
    pub fn of(profile: &Profile) -> Self {
        let (key, origin) = (profile.key(), profile.origin());
        let common = key.level.common(origin.command());
        let costs = Costs::of(profile);
        Self {
            command: common.iter().map(|word| printable(word)).collect(),
            level: match key.level {
                Level::Program => "program",
                Level::Subject => "subject",
                Level::Whole => "whole",
            },
            directory: printable(origin.directory()),
            runs: profile.runs(),
            last_use_s: profile.last_use_s(),
            paths: costs.paths,
            bytes: costs.total.bytes,
            file: key.name(),
            is_shared: key.level != Level::Whole,
        }
    }

    /// The command, with `...` for what differs between runs.
    fn line(&self) -> String {
        let command = self.command.join(" ");
        if self.is_shared { format!("{command} ...") } else { command }
    }

    /// The first line of what is shown of it.
    pub fn head(&self, now_s: u64) -> String {
        let place = if self.is_shared { String::new() } else { format!(", in {}", self.directory) };
        let runs = if self.runs == 1 { "run" } else { "runs" };
        let used = ago(now_s.saturating_sub(self.last_use_s));
        format!("{}{place}: {} {runs}, the last one {used} ago", self.line(), self.runs)
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// A time in the unit that suits it.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The beginning of a text that is too long: of commands that is what tells.
fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 3).collect();
    kept + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_fits_its_terminal() {
        let row = |runs, last_use_s| Row {
            command: vec!["program".into(); 30],
            level: "whole",
            directory: "/".into(),
            runs,
            last_use_s,
            paths: 100_000,
            bytes: 1 << 40,
            file: String::new(),
            is_shared: true,
        };
        let rows = [row(1, 0), row(999_999, 1_000_000_000)];
        for width in [80, 120] {
            let text = text(&rows, true, 1_800_000_000, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert_eq!(text.lines().count(), 4, "{text}");
        }
        assert!(text(&[], false, 0, 80).starts_with("There are no profiles"));
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!([0, 59, 60, 7_200, 90_000].map(ago), ["0 s", "59 s", "1 min", "2 h", "1 d"]);
    }
}
