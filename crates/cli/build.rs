//! Bakes the source revision into the binary, so that results tell what made them.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let revision = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo::rerun-if-changed=build.rs");
    // HEAD changes with a checkout, its log with each commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=FOREBAY_REVISION={}", revision.unwrap_or_else(|| version.to_owned()));
}
