//! What a command line of the corpus consists of.

use std::fmt;

/// What kind of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Shells, coreutils and findutils.
    Files,
    /// Searches in many files.
    Search,
    /// Version control.
    History,
    /// Archives, compression and backups.
    Archive,
    /// Compilers, linkers and what starts them.
    Build,
    /// Interpreters and what is written for them.
    Interpreter,
    /// Databases.
    Database,
    /// Numbers in files and tables.
    Science,
    /// Mail, pictures, sound and films.
    Media,
    /// Programs without shared libraries.
    Static,
    /// Several programs joined by pipes.
    Pipeline,
    /// Programs in the root of a container.
    Container,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 12] = [
        Self::Files,
        Self::Search,
        Self::History,
        Self::Archive,
        Self::Build,
        Self::Interpreter,
        Self::Database,
        Self::Science,
        Self::Media,
        Self::Static,
        Self::Pipeline,
        Self::Container,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Search => "search",
            Self::History => "history",
            Self::Archive => "archive",
            Self::Build => "build",
            Self::Interpreter => "interpreter",
            Self::Database => "database",
            Self::Science => "science",
            Self::Media => "media",
            Self::Static => "static",
            Self::Pipeline => "pipeline",
            Self::Container => "container",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Something that has to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A package of Debian, and a file of it: a program by its name, or an absolute path.
    Debian(&'static str, &'static str),
    /// A package of PyPI, in the folder of tools.
    Python(&'static str),
    /// A package of npm, in the folder of tools.
    Node(&'static str),
    /// The programs cargo and rustc, of rustup or of Debian.
    Rust,
}

/// Files that the experiment writes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// A tree of source files: its folder and the number of files.
    Tree(&'static str, usize),
    /// Text like that of sources: a file and its size in bytes.
    Text(&'static str, usize),
    /// Random bytes: a file and its size in MiB.
    Random(&'static str, u64),
    /// Objects for a linker: their folder and how many.
    Objects(&'static str, usize),
}

/// What of the output must be the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Exit status, standard output and error, and the files written.
    All,
    /// The same without standard error, where the program prints times.
    AllButMessages,
    /// Exit status and the files written: the program prints times, or lines in an order of its threads' own.
    Files,
}

/// A command line of a real program.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// What kind of program it is.
    pub kind: Kind,
    /// Program and arguments. `{tools}` stands for the folder of tools, `{rust}` for that of the Rust toolchain.
    pub command: &'static [&'static str],
    /// What has to be installed.
    pub needs: &'static [Need],
    /// Written first.
    pub data: &'static [Data],
    /// A script for `sh -e` that makes the rest of the data, in the folder of the data.
    pub prepare: &'static str,
    /// A script for `sh -e` that makes the data again what it was, before each run.
    pub restore: &'static str,
    /// More variables for the command and the script.
    pub environment: &'static [(&'static str, &'static str)],
    /// Files and folders that the command writes. They are removed before each run and compared after it.
    pub writes: &'static [&'static str],
    /// What the command ends with.
    pub status: i32,
    /// What must be the same in every run.
    pub compared: Compared,
}

impl Case {
    pub(crate) const fn new(
        kind: Kind,
        name: &'static str,
        command: &'static [&'static str],
        needs: &'static [Need],
    ) -> Self {
        Self {
            name,
            kind,
            command,
            needs,
            data: &[],
            prepare: "",
            restore: "",
            environment: &[],
            writes: &[],
            status: 0,
            compared: Compared::All,
        }
    }

    pub(crate) const fn data(self, data: &'static [Data]) -> Self {
        Self { data, ..self }
    }

    pub(crate) const fn prepare(self, prepare: &'static str) -> Self {
        Self { prepare, ..self }
    }

    pub(crate) const fn restore(self, restore: &'static str) -> Self {
        Self { restore, ..self }
    }

    pub(crate) const fn environment(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        Self { environment, ..self }
    }

    pub(crate) const fn writes(self, writes: &'static [&'static str]) -> Self {
        Self { writes, ..self }
    }

    pub(crate) const fn status(self, status: i32) -> Self {
        Self { status, ..self }
    }

    pub(crate) const fn compared(self, compared: Compared) -> Self {
        Self { compared, ..self }
    }
}
