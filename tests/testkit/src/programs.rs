//! Programs that tests make and start.

use std::fs;
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

/// Writes a script, which can be started at once, as a copy can.
///
/// # Panics
///
/// Where it cannot be written.
pub fn script(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    let written = path.with_extension("text");
    fs::write(&written, text).unwrap_or_else(|error| panic!("{}: {error}", written.display()));
    let installed = Command::new("install").args(["-m", "755"]).args([written.as_path(), path]).status();
    assert!(installed.expect("install is installed").success(), "{} cannot be written", path.display());
    let _ = fs::remove_file(written);
}
