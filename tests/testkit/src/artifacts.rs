//! Where cargo puts what tests need: the agent, the `forebay` program. For tests, which run where the sources are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::Error;

static AGENT: Once = Once::new();
static FOREBAY: Once = Once::new();
static C_LIBRARY: Once = Once::new();
static WORKLOAD: Once = Once::new();

/// The agent's library, up to date: cargo builds it on the first call in a process if its sources have changed.
///
/// `$FOREBAY_AGENT` names another one.
///
/// # Errors
///
/// [`Error::Program`] with what cargo said.
pub fn agent() -> Result<PathBuf, Error> {
    AGENT.get("FOREBAY_AGENT", || {
        cargo_build(&["--package", "forebay-agent", "--profile", "agent"])?;
        built("agent", "libforebay_agent.so")
    })
}

/// The `forebay` program, up to date and built like the calling test, with the agent where it looks for it. Variables of
/// the environment can change its thresholds (feature `test-hooks`).
///
/// `$FOREBAY_PROGRAM` names another one.
///
/// # Errors
///
/// [`Error::Program`] with what cargo said.
pub fn forebay() -> Result<PathBuf, Error> {
    FOREBAY.get("FOREBAY_PROGRAM", || {
        agent()?;
        built_like_the_caller(&["--package", "forebay-cli", "--bins", "--features", "test-hooks"], "forebay")
    })
}

/// What hosts do while shared memory is measured, up to date, beside [`forebay`].
///
/// `$FOREBAY_WORKLOAD` names another one.
///
/// # Errors
///
/// [`Error::Program`] with what cargo said.
pub fn workload() -> Result<PathBuf, Error> {
    WORKLOAD.get("FOREBAY_WORKLOAD", || {
        built_like_the_caller(&["--package", "forebay-share-workload"], "forebay-share-workload")
    })
}

/// The library for C, up to date and built like the calling test.
///
/// `$FOREBAY_C_LIBRARY` names another one.
///
/// # Errors
///
/// [`Error::Program`] with what cargo said.
pub fn c_library() -> Result<PathBuf, Error> {
    C_LIBRARY.get("FOREBAY_C_LIBRARY", || {
        built_like_the_caller(&["--package", "forebay-capi", "--lib"], "libforebay.so")
    })
}

/// An example of a crate of ours, up to date and built like the calling test.
///
/// # Errors
///
/// [`Error::Program`] with what cargo said.
pub fn example(package: &str, name: &str) -> Result<PathBuf, Error> {
    built_like_the_caller(&["--package", package, "--example", name], &format!("examples/{name}"))
}

/// The workspace this was compiled in.
pub(crate) fn workspace() -> &'static Path {
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
    testkit.ancestors().nth(2).unwrap_or(testkit)
}

/// Cargo's output folder: `$CARGO_TARGET_DIR`, else the one that this program is in, else the workspace's.
pub(crate) fn target_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        // Cargo takes a relative one from where it was started; tests are started in their crate.
        return workspace().join(folder);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// A path found once in a process.
struct Once(Mutex<Option<PathBuf>>);

impl Once {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn get(&self, variable: &str, find: impl FnOnce() -> Result<PathBuf, Error>) -> Result<PathBuf, Error> {
        if let Some(path) = std::env::var_os(variable) {
            return Ok(PathBuf::from(path));
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_none() {
            *found = Some(find()?);
        }
        Ok(found.clone().unwrap_or_default())
    }
}

fn built_like_the_caller(what: &[&str], name: &str) -> Result<PathBuf, Error> {
    let (profile, folder) = profile();
    cargo_build(&[what, &["--profile", profile]].concat())?;
    built(folder, name)
}

/// Set by `scripts/test`, which builds everything before it starts the tests.
const BUILT: &str = "FOREBAY_TEST_BUILT";

fn cargo_build(arguments: &[&str]) -> Result<(), Error> {
    if std::env::var_os(BUILT).is_some() {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("build").args(arguments).arg("--target-dir").arg(target_folder()).current_dir(workspace());
    // What cargo tells a test about itself must not look like a change of the environment to what it builds.
    for (name, _) in std::env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name.starts_with("CARGO_BIN_EXE_")
                || matches!(name, "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE" | "LD_LIBRARY_PATH")
        });
        if told {
            command.env_remove(name);
        }
    }
    let run = command.output().map_err(|error| Error::io("start cargo", error))?;
    if run.status.success() {
        return Ok(());
    }
    Err(Error::Program {
        command: format!("cargo build {}", arguments.join(" ")),
        said: String::from_utf8_lossy(&run.stderr).trim().to_owned(),
    })
}

fn built(profile_folder: &str, name: &str) -> Result<PathBuf, Error> {
    let path = target_folder().join(profile_folder).join(name);
    match path.try_exists() {
        Ok(true) => Ok(path),
        _ => Err(Error::Program {
            command: "cargo build".into(),
            said: format!("it did not make {}", path.display()),
        }),
    }
}

/// That of this program: its name, and its folder.
fn profile() -> (&'static str, &'static str) {
    let program = std::env::current_exe().unwrap_or_default();
    let is_release =
        program.ancestors().any(|folder| folder.file_name().is_some_and(|name| name == "release"));
    if is_release { ("release", "release") } else { ("dev", "debug") }
}
