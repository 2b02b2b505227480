//! What the server tells its operator: a sentence a line, on standard error.

use std::io::Write;

/// Lines in a second. Who floods the server does not flood the log.
const LINES_MAX: u32 = 20;
const SECOND_NS: u64 = 1_000_000_000;

/// The log.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    second: u64,
    lines: u32,
}

impl Journal {
    /// One sentence.
    pub fn say(&mut self, now_ns: u64, sentence: &str) {
        let second = now_ns / SECOND_NS;
        if second != self.second {
            let left_out = self.lines.saturating_sub(LINES_MAX);
            if left_out > 0 {
                write(&format!("{left_out} more lines in one second are left out"));
            }
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        if self.lines <= LINES_MAX {
            write(sentence);
        }
    }
}

/// What clients send is shown without its control characters. Nobody reads what cannot be written.
fn write(sentence: &str) {
    let shown: String = sentence.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect();
    let _ = writeln!(std::io::stderr(), "forebay: {shown}");
}
