//! The files of the repository: those that people write, not those that are built.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `folder` that someone wrote, in order of path. Hidden folders (but `.ci`) and cargo's output
/// are left out; symbolic links are not followed.
///
/// # Panics
///
/// Where a folder cannot be read.
pub fn written_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(folder, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = entry.file_name().into_string().expect("file names here are UTF-8");
        let kind = entry.file_type().expect("the kind of a file just listed");
        if kind.is_file() {
            found.push(entry.path());
        } else if kind.is_dir() && !is_made(&name) {
            collect(&entry.path(), found);
        }
    }
}

fn is_made(name: &str) -> bool {
    (name.starts_with('.') && name != ".ci") || name == "target"
}

/// The text of a file.
///
/// # Panics
///
/// Where it cannot be read or is not UTF-8.
pub fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether `path` ends in one of `extensions` (without their dot).
pub fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|extension| extension.to_str()).is_some_and(|found| extensions.contains(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_file_is_found_and_nothing_below_target() {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = written_files(crate_folder);
        assert!(files.contains(&crate_folder.join("src/sources.rs")));
        assert!(is_made("target"));
        assert!(is_made(".git"));
        assert!(!is_made(".ci"));
    }
}
