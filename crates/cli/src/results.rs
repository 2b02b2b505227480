//! Results files, with the command line that made them.

use std::env;
use std::path::Path;

use forebay_results::{Report, Row, Sink, SinkError};

/// Source revision of this binary.
pub const REVISION: &str = env!("FOREBAY_REVISION");

/// Opens the destination of `--json`, if it was given.
///
/// # Errors
/// The file cannot be written.
pub fn open(json: Option<&Path>) -> Result<Option<Sink>, SinkError> {
    json.map(Sink::open).transpose()
}

/// Writes `rows` to the destination, if one was given.
///
/// # Errors
/// Writing fails.
pub fn write(sink: Option<Sink>, rows: impl FnOnce() -> Vec<Row>) -> Result<(), SinkError> {
    sink.map_or(Ok(()), |sink| sink.write(&report(rows())))
}

/// `rows` as results of this command line.
pub fn report(rows: Vec<Row>) -> Report {
    Report::new(REVISION, command_line(), rows)
}

/// This command line, quoted for a shell.
fn command_line() -> String {
    let name = Some("forebay".to_owned());
    let arguments = env::args_os().skip(1).map(|argument| quoted(&argument.to_string_lossy()));
    name.into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn quoted(argument: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-+=./:,@%".contains(char);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--json=a/b.json"), "--json=a/b.json");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        for argument in ["a,b=%c", "$(x) `y` \\ \"z\" !", "*?[~#{", "two\nlines", "\u{fc}ber"] {
            assert_eq!(shlex::split(&quoted(argument)).unwrap(), [argument]);
        }
    }
}
