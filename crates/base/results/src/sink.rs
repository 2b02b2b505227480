//! Where results go.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use crate::{Report, reason};

/// The destination of results: tried before anything is measured, so that a path that cannot be written is told
/// in time, and written once.
///
/// Until then a file keeps what it holds, and a file that is not there is not made. So nothing is left behind, however the
/// process ends.
#[derive(Debug)]
pub struct Sink {
    path: PathBuf,
    to: Destination,
}

#[derive(Debug)]
enum Destination {
    Stdout,
    /// Opened for writing.
    There(File),
    /// To be made.
    Missing,
}

/// What tells a destination from another.
#[derive(PartialEq, Eq)]
enum Place {
    Inode(u64, u64),
    Path(PathBuf),
}

impl Sink {
    /// Tries whether `path` can be written; `-` is standard output.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn open(path: &Path) -> Result<Self, SinkError> {
        let sink = |to| Self { path: path.into(), to };
        if path.as_os_str() == "-" {
            return Ok(sink(Destination::Stdout));
        }
        match OpenOptions::new().write(true).open(path) {
            Ok(file) => Ok(sink(Destination::There(file))),
            Err(missing) if missing.kind() == ErrorKind::NotFound => {
                try_to_make(path).map_err(|source| SinkError { path: path.into(), source })?;
                Ok(sink(Destination::Missing))
            }
            Err(source) => Err(SinkError { path: path.into(), source }),
        }
    }

    /// Whether this goes where standard output goes.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.is_with(&Self { path: "-".into(), to: Destination::Stdout })
    }

    /// Whether both go to one place, where one would overwrite the other, or mix with it.
    #[must_use]
    pub fn is_with(&self, other: &Self) -> bool {
        self.place().is_some_and(|place| other.place() == Some(place))
    }

    /// None where everything may go, and where nobody can tell.
    fn place(&self) -> Option<Place> {
        let metadata = match &self.to {
            Destination::Missing => {
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
                return Some(Place::Path(folder.join(self.path.file_name()?)));
            }
            Destination::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned().ok()?).metadata(),
            Destination::There(file) => file.metadata(),
        };
        let of = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let (here, nowhere) = (of(&metadata.ok()?), fs::metadata("/dev/null").ok().map(|null| of(&null)));
        Some(Place::Inode(here.0, here.1)).filter(|_| nowhere != Some(here))
    }

    /// Writes `report` as indented JSON and a final newline, over whatever the file held.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(self, report: &Report) -> Result<(), SinkError> {
        let mut text = serde_json::to_string_pretty(report).expect("a report has no maps with odd keys");
        text.push('\n');
        self.write_text(&text)
    }

    /// Writes `text`, such as a chart of what a report has, over whatever the file held.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_text(self, text: &str) -> Result<(), SinkError> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes `bytes` over whatever the file held. Where that fails, a regular file is as it was. That the reader of
    /// standard output has seen enough, as head(1) has, is no failure.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_bytes(self, bytes: &[u8]) -> Result<(), SinkError> {
        let Self { path, to } = self;
        let written = match to {
            Destination::Stdout => {
                let mut out = io::stdout().lock();
                match out.write_all(bytes).and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                    written => written,
                }
            }
            Destination::There(file) => replace(&path, file, bytes),
            Destination::Missing => make(&path, bytes),
        };
        written.map_err(|source| SinkError { path, source })
    }
}

/// Makes a file, and removes it. A link that leads to no file is left as it is, and so is not tried.
fn try_to_make(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    match File::create_new(path) {
        Ok(_) => fs::remove_file(path),
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a file with these contents, or none.
fn make(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes).and_then(|()| synced(&file)).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Gives a file other contents: a new one takes its place. Where the folder takes none, the file is overwritten. Not every
/// destination is a file with a length (a device, a pipe); those simply take the bytes.
fn replace(path: &Path, mut file: File, bytes: &[u8]) -> io::Result<()> {
    let old = file.metadata()?;
    if !old.is_file() {
        return file.write_all(bytes);
    }
    if old.nlink() == 1
        && let Some(beside) = beside(path, &old)
    {
        let (beside, real) = beside;
        return make(&beside, bytes).and_then(|()| fs::rename(&beside, real)).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        });
    }
    file.set_len(0)?;
    file.write_all(bytes)?;
    synced(&file)
}

/// A new file beside `path`, with the owner and the rights of the old one, and where the old one is.
fn beside(path: &Path, old: &Metadata) -> Option<(PathBuf, PathBuf)> {
    let real = fs::canonicalize(path).ok()?;
    let name = real.file_name()?.to_string_lossy().into_owned();
    let beside = real.with_file_name(format!(".{name}.{}", std::process::id()));
    let made = File::create_new(&beside).ok()?;
    let new = made.metadata().ok()?;
    let owned = if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        Ok(())
    } else {
        chown(&beside, Some(old.uid()), Some(old.gid()))
    };
    match owned.and_then(|()| fs::set_permissions(&beside, old.permissions())) {
        Ok(()) => Some((beside, real)),
        Err(_) => {
            let _ = fs::remove_file(&beside);
            None
        }
    }
}

/// A full disk may show only here.
fn synced(file: &File) -> io::Result<()> {
    match file.sync_all() {
        // What cannot be synced, as a device, is written.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// A report could not be written.
#[derive(Debug)]
pub struct SinkError {
    /// The path that was asked for.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot write results to '{}' ({}); name a file in a folder that you may write, or - for standard output",
            self.path.display(),
            reason(&self.source)
        )
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder that goes with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("forebay-results-{}-{name}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_old_file_is_kept_until_the_report_replaces_it() {
        let scratch = Scratch::new("old");
        let path = scratch.at("results.json");
        fs::write(&path, "x".repeat(1 << 16)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let sink = Sink::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 16);
        sink.write(&Report::new("r", "c", vec![])).unwrap();
        let read: Report = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read.command, "c");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o604);
        assert_eq!(scratch.names(), ["results.json"]);
    }

    #[test]
    fn a_file_is_not_there_before_it_is_written() {
        let scratch = Scratch::new("new");
        let path = scratch.at("results.json");
        let sink = Sink::open(&path).unwrap();
        assert_eq!(scratch.names(), [""; 0]);
        sink.write_text("text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        drop(Sink::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn links_lead_to_what_is_written_and_stay() {
        let scratch = Scratch::new("links");
        let (file, link, hard) = (scratch.at("file"), scratch.at("link"), scratch.at("hard"));
        symlink("file", &link).unwrap();
        for text in ["first", "second"] {
            Sink::open(&link).unwrap().write_text(text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        fs::hard_link(&file, &hard).unwrap();
        Sink::open(&hard).unwrap().write_text("third").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "third");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let error = Sink::open(Path::new("/dev/full")).unwrap().write_text("text").unwrap_err().to_string();
        assert!(error.contains("'/dev/full'") && error.contains("No space left"), "{error}");
    }

    #[test]
    fn two_sinks_of_one_place_are_told_from_others() {
        let scratch = Scratch::new("same");
        let (one, other) = (scratch.at("one"), scratch.at("other"));
        let with = |left: &Path, right: &Path| Sink::open(left).unwrap().is_with(&Sink::open(right).unwrap());
        assert!(with(&one, &scratch.at("./one")) && !with(&one, &other));
        fs::write(&one, "").unwrap();
        symlink("one", &other).unwrap();
        assert!(with(&one, &other) && with(Path::new("-"), Path::new("-")));
        assert!(!with(Path::new("/dev/null"), Path::new("/dev/null")));
        assert!(!Sink::open(&one).unwrap().is_stdout() && Sink::open(Path::new("-")).unwrap().is_stdout());
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named_with_a_remedy() {
        let error = Sink::open(Path::new("/nowhere/at/all.json")).unwrap_err().to_string();
        assert!(error.contains("'/nowhere/at/all.json'") && error.contains("name a file"), "{error}");
    }
}
