//! Bakes the source revision into the binary: results name what made them, and `forebay --version` names its commit.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the repository begins, seen from this crate.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let (revision, told) = match commit() {
        Some(commit) => {
            let told = format!("{version} ({})", &commit[..7]);
            (commit, told)
        }
        None => (version.to_owned(), version.to_owned()),
    };
    println!("cargo::rustc-env=FOREBAY_REVISION={revision}");
    println!("cargo::rustc-env=FOREBAY_VERSION={told}");
}

/// At least twelve digits of the commit that is checked out; `None` in sources without their repository, also where they
/// lie in another one.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(ROOT).ok()? {
        return None;
    }
    // HEAD changes with a checkout, its log with each commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
