//! Copies of programs.

use std::path::Path;
use std::process::Command;

/// Copies a program, which can be started at once.
///
/// Another process writes it. A descriptor of this one would be in the children that other threads fork at that moment, and the kernel
/// starts no program that is open for writing (`ETXTBSY`).
///
/// # Panics
///
/// Where it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").args([from.as_ref(), to.as_ref()]).status();
    assert!(copied.expect("cp is installed").success(), "{} cannot be copied", from.as_ref().display());
}
