//! The workspace as cargo sees it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The output of `cargo metadata --no-deps`: our own crates only.
#[derive(Deserialize)]
pub struct Workspace {
    /// Every crate of the workspace.
    pub packages: Vec<Package>,
    /// The folder that holds the workspace's `Cargo.toml`.
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    pub target_directory: PathBuf,
}

/// One crate.
#[derive(Deserialize)]
pub struct Package {
    /// Its name in its manifest.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// What it depends on, in every kind.
    pub dependencies: Vec<Dependency>,
    /// Its library, binaries, tests, examples, benches and build script.
    pub targets: Vec<Target>,
}

/// One line under `[dependencies]`, `[dev-dependencies]` or `[build-dependencies]`.
#[derive(Deserialize)]
pub struct Dependency {
    /// The name of the crate depended on.
    pub name: String,
    /// The version requirement; `*` for none.
    pub req: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
    /// Where it is, for a crate in this repository.
    pub path: Option<PathBuf>,
}

/// One thing that cargo builds of a crate.
#[derive(Deserialize)]
pub struct Target {
    /// `lib`, `cdylib`, `bin`, `test`, `bench`, `example`, `custom-build`, ...
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace that this crate is part of.
    ///
    /// # Panics
    ///
    /// Where cargo fails or its answer cannot be read: no rule can be judged then.
    pub fn load() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo starts");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout)
            .expect("cargo metadata prints the JSON that its book describes")
    }

    /// `path` as seen from the workspace's root, with `/` between its parts.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a str {
        path.strip_prefix(&self.root).unwrap_or(path).to_str().expect("file names here are UTF-8")
    }
}

impl Package {
    /// The name without the `forebay-` that all of ours carry: `speculation` for `forebay-policy`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("forebay-").unwrap_or(&self.name)
    }

    /// The folder of its manifest.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().expect("a manifest lies in a folder")
    }

    /// The short names of the crates of this workspace that its shipped code is linked with or built by.
    pub fn own_dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.strip_prefix("forebay-").unwrap_or(&dependency.name))
    }
}
