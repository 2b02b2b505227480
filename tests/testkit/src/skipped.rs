//! Reports tests that could not run, to the terminal and to `scripts/test`.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

/// Names the file to which [`skip`] appends one line a call. `scripts/test` counts the lines.
const LIST: &str = "FOREBAY_TEST_SKIPS";
/// Set to 1 on the machine of continuous integration, as root: there, only the tests of [`ALLOWED`] may be skipped.
const REFERENCE: &str = "FOREBAY_TEST_REFERENCE";

/// What the reference machine lacks: a part of the reported reason, and why it cannot be had there.
const ALLOWED: [(&str, &str); 3] = [
    ("openRTSP is not on the PATH", "the distribution has no package of live555's player"),
    ("other programs take the processors all the time", "the machine is shared with other work"),
    ("pocketsphinx_batch is not installed", "its models take 24 MB, and are for a single row of a table"),
];

/// Reports that the calling test, or a part of it, cannot run on this machine. The test then returns.
///
/// The report goes to stderr even where the test harness captures what tests print.
///
/// # Panics
/// On the reference machine, unless that machine cannot have what is missing.
pub fn skip(test: &str, why: impl Display) {
    let line = format!("SKIPPED {test}: {why}\n");
    // `eprintln!` would be captured. Where stderr is closed there is no terminal to report to.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        // The harness runs each test in a thread that has the test's name.
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let program = std::env::current_exe().unwrap_or_default();
        let entry = format!("{}\t{thread}\t{test}: {}\n", program.display(), one_line(&why.to_string()));
        let file = File::options().append(true).create(true).open(&list);
        // One write, so that lines of several processes do not mix.
        let written = file.and_then(|mut file| file.write_all(entry.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    }
    let is_reference = std::env::var_os(REFERENCE).is_some_and(|value| value == "1");
    assert!(
        !is_reference || is_allowed(&why.to_string()),
        "{test} was skipped on the reference machine: {why}. Install what is missing, or add the reason to ALLOWED in {}",
        file!()
    );
}

fn is_allowed(why: &str) -> bool {
    ALLOWED.iter().any(|(part, _)| why.contains(part))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_reasons_are_allowed_on_the_reference_machine() {
        for (part, reason) in ALLOWED {
            assert!(is_allowed(&format!("it is so: {part}, install it")) && !reason.is_empty());
        }
        assert!(!is_allowed("ffmpeg is not installed: run `scripts/setup test`"));
    }

    #[test]
    fn a_reason_of_several_lines_takes_one_in_the_list() {
        assert_eq!(one_line("no device:\n  mknod failed"), "no device: mknod failed");
    }
}
