//! Where the programs of the corpus are, and what is missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Need};

/// Where programs are searched for: a distribution's own, and no others that a machine may have besides.
pub(super) const PATH: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

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

/// A sentence for each package manager with what is to be installed by it.
pub(super) fn how_to_install(missing: &[Need]) -> Vec<String> {
    let names = |of: fn(&Need) -> Option<&'static str>| {
        let mut names: Vec<_> = missing.iter().filter_map(of).collect();
        names.sort_unstable();
        names.dedup();
        names.join(" ")
    };
    let debian = names(|need| if let Need::Debian(package, _) = need { Some(package) } else { None });
    let python = names(|need| if let Need::Python(package) = need { Some(package) } else { None });
    let node = names(|need| if let Need::Node(package) = need { Some(package) } else { None });
    let rust = missing.contains(&Need::Rust);
    let mut commands = Vec::new();
    if !debian.is_empty() {
        commands.push(format!("apt-get install --no-install-recommends {debian}"));
    }
    if !python.is_empty() {
        commands.push(format!("TOOLS/python/bin/pip install {python}"));
    }
    if !node.is_empty() {
        commands.push(format!("npm install --prefix TOOLS/node {node}"));
    }
    if rust {
        commands.push("apt-get install --no-install-recommends cargo".to_owned());
    }
    commands
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
            how_to_install(&missing),
            [
                "apt-get install --no-install-recommends borgbackup ripgrep",
                "TOOLS/python/bin/pip install numpy"
            ]
        );
    }
}
