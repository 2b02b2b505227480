//! Compiles the small C programs in `tests/guests/`. For tests, which run where the sources are.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::artifacts;

/// The folders of `tests/guests`, one a product. A guest's name is unique among all of them.
const FOLDERS: [&str; 5] = ["run", "swap", "share", "bench", "evaluate"];

const FLAGS: [&str; 10] = [
    "-O1",
    "-g",
    // Cancelled threads run what the scopes of variables end with.
    "-fexceptions",
    "-Wall",
    "-Wextra",
    "-Werror",
    // What some guests do on purpose.
    "-Wno-infinite-recursion",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    "-Wno-clobbered",
];
/// Libraries come after the sources that need them.
const LIBRARIES: [&str; 2] = ["-pthread", "-lm"];

/// How a guest is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An ordinary program.
    Program,
    /// A program at a fixed address whose functions are bound when they are called first.
    Fixed,
    /// A program without a dynamic loader.
    Static,
    /// A library to load or preload.
    Library,
}

impl Kind {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Program => &[],
            Self::Fixed => &["-no-pie", "-fno-pie", "-Wl,-z,lazy", "-Wl,-z,relro"],
            Self::Static => &["-static"],
            Self::Library => &["-shared", "-fPIC"],
        }
    }
}

/// The guest `name` as an ordinary program; see [`build_as`].
///
/// # Panics
/// When there is no such guest, or it does not compile.
#[must_use]
#[track_caller]
pub fn build(name: &str) -> PathBuf {
    build_as(name, Kind::Program)
}

/// The guest `tests/guests/*/<name>.c`, compiled with `$CC` or cc. The file keeps the guest's name. A file that another call
/// made, also one in another process, serves again while sources, compiler and flags are the same.
///
/// # Panics
/// When there is no such guest, or it does not compile.
#[must_use]
#[track_caller]
pub fn build_as(name: &str, kind: Kind) -> PathBuf {
    let source = source(name);
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut hasher = DefaultHasher::new();
    (&compiler, FLAGS, LIBRARIES, kind, read(&source), headers()).hash(&mut hasher);
    let folder = artifacts::target_folder().join("guests").join(format!("{:016x}", hasher.finish()));
    let guest = folder.join(name);
    if guest.exists() {
        return guest;
    }
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("make {}: {error}", folder.display()));
    // Another test may be building the same guest: each writes its own file, and the last rename wins.
    let unfinished = tempfile_beside(&guest);
    compile(&compiler, kind, &source, &unfinished);
    fs::rename(&unfinished, &guest).unwrap_or_else(|error| panic!("rename to {}: {error}", guest.display()));
    guest
}

#[track_caller]
fn compile(compiler: &str, kind: Kind, source: &Path, output: &Path) {
    let mut command = Command::new(compiler);
    command.args(FLAGS).args(kind.flags()).arg("-o").arg(output).arg(source).args(LIBRARIES);
    let run = command.output().unwrap_or_else(|error| panic!("start {compiler}: {error}"));
    assert!(run.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&run.stderr));
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let guests = artifacts::workspace().join("tests/guests");
    FOLDERS.into_iter().map(move |folder| guests.join(folder))
}

#[track_caller]
fn source(name: &str) -> PathBuf {
    let mut candidates = folders().map(|folder| folder.join(name).with_extension("c"));
    let Some(source) = candidates.find(|source| source.exists()) else {
        panic!("there is no {name}.c in tests/guests/{{{}}}", FOLDERS.join(","));
    };
    source
}

/// The text of every header: there are few, and each may be included by guests of several folders.
fn headers() -> Vec<Vec<u8>> {
    let entries = folders().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut headers: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    headers.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    headers.sort();
    headers.iter().map(|path| read(path)).collect()
}

#[track_caller]
fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// A name in the same folder that no other thread uses.
fn tempfile_beside(path: &Path) -> PathBuf {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    path.with_extension(format!("{}-{thread}", std::process::id()))
}
