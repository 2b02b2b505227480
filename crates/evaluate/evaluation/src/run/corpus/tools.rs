//! Where the programs of the corpus are, and what is missing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Need};

/// Where programs are searched for: a distribution's own, and no others that a machine may have besides.
pub(super) const PATH: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Columns that a command line may take.
const WIDTH: usize = 74;

/// The programs of the corpus.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    /// Has Python's packages in `python` and Node's in `node`.
    folder: PathBuf,
    /// Has cargo and rustc in `bin`.
    rust: Option<PathBuf>,
}

impl Tools {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self { folder, rust: rust_toolchain() }
    }

    /// What the case needs and this machine lacks.
    pub(super) fn missing(&self, case: &Case) -> Vec<Need> {
        case.needs.iter().copied().filter(|need| !self.has(*need)).collect()
    }

    fn has(&self, need: Need) -> bool {
        match need {
            Need::Debian(_, file) => program(file).is_some(),
            Need::Python(package) => {
                let libraries = self.folder.join("python/lib");
                let mut versions = std::fs::read_dir(libraries).into_iter().flatten().flatten();
                versions.any(|version| version.path().join("site-packages").join(package).exists())
            }
            Need::Node(package) => self.folder.join("node/node_modules").join(package).exists(),
            Need::Rust => self.rust.is_some(),
        }
    }

    /// `text` with the folders that it names by their roles.
    pub(super) fn resolve(&self, text: &str) -> String {
        let rust = self.rust.as_deref().unwrap_or(Path::new("/usr"));
        text.replace("{tools}", &self.folder.to_string_lossy()).replace("{rust}", &rust.to_string_lossy())
    }
}

/// The file called `name` in [`PATH`], or at this absolute path.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    PATH.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// That of rustup, or else of the distribution.
fn rust_toolchain() -> Option<PathBuf> {
    let said = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let folder = PathBuf::from(OsStr::new(String::from_utf8(said.stdout).ok()?.trim()));
    folder.join("bin/cargo").exists().then_some(folder)
}

/// The command lines that install what is missing, Python's and Node's packages into `folder`.
pub(super) fn how_to_install(missing: &[Need], folder: &Path) -> Vec<String> {
    let names = |of: fn(&Need) -> Option<&'static str>| {
        let names: BTreeSet<&str> = missing.iter().filter_map(of).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let debian = names(|need| match need {
        Need::Debian(package, _) => Some(package),
        Need::Rust => Some("cargo"),
        Need::Python(_) => Some("python3-venv"),
        Need::Node(_) => Some("npm"),
    });
    let python = names(|need| if let Need::Python(package) = need { Some(package) } else { None });
    let node = names(|need| if let Need::Node(package) = need { Some(package) } else { None });
    let folder = folder.display();
    let mut commands = Vec::new();
    if !debian.is_empty() {
        commands.push(folded("apt-get install --no-install-recommends", &debian));
    }
    if !python.is_empty() {
        commands.push(format!("python3 -m venv {folder}/python"));
        commands.push(folded(&format!("{folder}/python/bin/pip install"), &python));
    }
    if !node.is_empty() {
        commands.push(folded(&format!("npm install --prefix {folder}/node"), &node));
    }
    commands
}

/// A command line with many words, in lines that fit a terminal.
fn folded(command: &str, words: &[&str]) -> String {
    let mut text = command.to_owned();
    let mut width = text.len();
    for word in words {
        if width + word.len() > WIDTH {
            text += " \\\n   ";
            width = 3;
        }
        text.push(' ');
        text += word;
        width += word.len() + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(program("sh").is_some() && program("/bin/sh").is_some());
        assert!(program("no-such-program").is_none() && program("/no/such/program").is_none());
    }

    #[test]
    fn each_package_is_named_once_by_its_manager() {
        let missing = [
            Need::Debian("ripgrep", "rg"),
            Need::Debian("borgbackup", "borg"),
            Need::Debian("ripgrep", "rg"),
            Need::Python("numpy"),
        ];
        assert_eq!(
            how_to_install(&missing, Path::new("t")),
            [
                "apt-get install --no-install-recommends borgbackup python3-venv ripgrep",
                "python3 -m venv t/python",
                "t/python/bin/pip install numpy"
            ]
        );
    }

    #[test]
    fn a_long_command_line_is_folded() {
        let words = ["one-long-word"; 12];
        let text = folded("install", &words);
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 78), "{text}");
        assert_eq!(text.replace("\\\n", "").split_whitespace().count(), 13);
    }
}
