//! Programs that start with default signal dispositions.

use std::ffi::OsStr;
use std::process::Command;

/// A command for `program` in which every signal has its default disposition when `program` starts.
///
/// A process inherits ignored signals. Below `nohup`, or in the background of a shell, a test that sends SIGHUP or SIGINT
/// to what it started would wait for ever. env(1) resets the dispositions, and becomes `program`: the process id is its own.
#[must_use]
pub fn with_default_signals(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(program);
    command
}
