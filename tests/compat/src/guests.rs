//! Compiles the guests of this crate's tests: as programs, static programs and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

/// How a guest is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary program.
    Program,
    /// A program without a dynamic loader.
    Static,
    /// A library to load or preload.
    Library,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

/// Compiles `tests/guests/NAME.c` if it changed and returns the program's path.
///
/// # Panics
/// When it does not compile.
#[must_use]
pub fn build(name: &str) -> PathBuf {
    build_as(name, Kind::Program)
}

/// Compiles `tests/guests/NAME.c` in the given way.
///
/// # Panics
/// When it does not compile.
#[must_use]
pub fn build_as(name: &str, kind: Kind) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let sources = workspace().join("tests/guests");
    let source = sources.join(format!("{name}.c"));
    let built = env::current_exe().expect("the test's own path");
    let directory = built.ancestors().nth(3).expect("the target directory").join("promise-guests");
    fs::create_dir_all(&directory).expect("make the guests' directory");
    let (suffix, flags): (&str, &[&str]) = match kind {
        Kind::Program => ("", &[]),
        Kind::Static => (".static", &["-static"]),
        Kind::Library => (".so", &["-shared", "-fPIC"]),
    };
    let output = directory.join(format!("{name}{suffix}"));
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let headers = ["hostile.h", "faulting.h"].map(|header| changed(&sources.join(header)));
    let newest = headers.into_iter().fold(changed(&source), Ord::max);
    if changed(&output).is_some_and(|built| Some(built) > newest) {
        return output;
    }
    let scratch = directory.join(format!("{name}{suffix}.{}", std::process::id()));
    let result = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        // What the guests do on purpose.
        .args([
            "-Wno-infinite-recursion",
            "-Wno-stringop-overflow",
            "-Wno-stringop-overread",
            "-Wno-clobbered",
        ])
        .args(flags)
        .arg("-o")
        .arg(&scratch)
        .arg(&source)
        .output()
        .expect("a C compiler");
    assert!(result.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&result.stderr));
    fs::rename(&scratch, &output).expect("put the guest in place");
    output
}
