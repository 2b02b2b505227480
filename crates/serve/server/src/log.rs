//! The log for the operator: a sentence a line, on standard error.
//!
//! The other end of a pipe may not read. So a thread of its own writes the lines, and lines that do not fit into its queue are
//! counted.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use forebay_rtsp::range::SECOND_NS;

use crate::error::{Result, to};

/// Lines in a second: a client that floods the server does not flood the log.
const LINES_MAX: u32 = 20;
/// Lines that wait to be written.
const WAITING_MAX: usize = 1000;
/// How long the end waits for those.
const FAREWELL: Duration = Duration::from_secs(1);

/// What lines for the operator begin with.
pub(crate) const PREFIX: &str = "forebay: ";

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    second: u64,
    lines: u32,
    /// `None` at the end.
    lines_to: Option<SyncSender<String>>,
    unread: Arc<AtomicU64>,
    /// Is closed when all has been written.
    is_written: Receiver<()>,
}

impl Log {
    /// One that is written to `output`, each line with a prefix.
    pub fn start(output: impl Write + Send + 'static, prefix: &'static str) -> Result<Self> {
        let (lines_to, lines) = sync_channel(WAITING_MAX);
        let (written, is_written) = sync_channel::<()>(0);
        let unread = Arc::new(AtomicU64::new(0));
        let counted = unread.clone();
        let write = move || {
            write_all(&lines, &counted, output, prefix);
            drop(written);
        };
        let thread = thread::Builder::new().name("log".to_owned());
        thread.spawn(write).map_err(to("a thread cannot be started"))?;
        Ok(Self { second: 0, lines: 0, lines_to: Some(lines_to), unread, is_written })
    }

    /// One sentence.
    pub fn say(&mut self, now_ns: u64, sentence: &str) {
        let second = now_ns / SECOND_NS;
        if second != self.second {
            let left_out = self.lines.saturating_sub(LINES_MAX);
            if left_out > 0 {
                self.put(format!("{left_out} more lines in one second are left out"));
            }
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        if self.lines <= LINES_MAX {
            self.put(sentence.to_owned());
        }
    }

    /// One line, of those that clients cannot make come faster than they play.
    pub fn line(&self, line: String) {
        self.put(line);
    }

    fn put(&self, sentence: String) {
        let is_put = self.lines_to.as_ref().is_some_and(|lines| lines.try_send(sentence).is_ok());
        if !is_put {
            self.unread.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines_to = None;
        // Returns when the thread has let go of its end, or too late.
        let _ = self.is_written.recv_timeout(FAREWELL);
    }
}

fn write_all(lines: &Receiver<String>, unread: &AtomicU64, mut output: impl Write, prefix: &str) {
    for sentence in lines {
        write(&mut output, prefix, &sentence);
        let unread = unread.swap(0, Ordering::Relaxed);
        if unread > 0 {
            let sentence = format!("{unread} lines are left out: standard error was not read");
            write(&mut output, prefix, &sentence);
        }
    }
}

/// Text of clients is shown without its control characters. A line that cannot be written is dropped.
fn write(output: &mut impl Write, prefix: &str, sentence: &str) {
    let shown: String = sentence.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect();
    let _ = output.write_all(format!("{prefix}{shown}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_log_that_is_not_read_does_not_block_the_server_and_counts_what_it_lacks() {
        const SAID: u64 = 20_000;
        let (reader, output) = UnixStream::pair().expect("a pair");
        let mut log = Log::start(output, PREFIX).expect("a log");
        let begun = Instant::now();
        let sentence = "x".repeat(100);
        (0..SAID).for_each(|second| log.say(second * SECOND_NS, &sentence));
        assert!(begun.elapsed() < Duration::from_secs(30));
        let read = thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map(|line| line.expect("a line"));
            let (mut shown, mut left_out) = (0, 0);
            for line in lines {
                match line.strip_suffix(" lines are left out: standard error was not read") {
                    Some(count) => {
                        left_out += count.trim_start_matches("forebay: ").parse::<u64>().expect("a number");
                    }
                    None => shown += 1,
                }
            }
            (shown, left_out)
        });
        drop(log);
        let (shown, left_out) = read.join().expect("a count");
        assert!(left_out > 0);
        assert_eq!(shown + left_out, SAID);
    }

    #[test]
    fn the_end_waits_for_a_log_that_is_not_read_but_not_for_ever() {
        let (reader, output) = UnixStream::pair().expect("a pair");
        let mut log = Log::start(output, PREFIX).expect("a log");
        let sentence = "x".repeat(1000);
        (0..10_000).for_each(|second| log.say(second * SECOND_NS, &sentence));
        let begun = Instant::now();
        drop(log);
        assert!((FAREWELL..30 * FAREWELL).contains(&begun.elapsed()));
        drop(reader);
    }
}
