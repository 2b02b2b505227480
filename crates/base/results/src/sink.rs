//! Where a report goes.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Seek, Write},
    path::{Path, PathBuf},
};

use crate::{Report, reason};

/// The destination of a report: opened before anything is measured, so that a path that cannot be written is told
/// in time, and written once.
#[derive(Debug)]
pub struct Sink(Destination);

#[derive(Debug)]
enum Destination {
    Stdout,
    File { path: PathBuf, file: File, created: bool },
}

impl Sink {
    /// Opens `path` for writing; `-` is standard output. What the file holds stays until [`Sink::write`].
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn open(path: &Path) -> Result<Self, SinkError> {
        if path.as_os_str() == "-" {
            return Ok(Self(Destination::Stdout));
        }
        let error = |source| SinkError { path: path.into(), source };
        let mut options = OpenOptions::new();
        options.write(true).truncate(false);
        let (file, created) = match options.open(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                (options.create(true).open(path).map_err(error)?, true)
            }
            opened => (opened.map_err(error)?, false),
        };
        Ok(Self(Destination::File { path: path.into(), file, created }))
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

    /// Writes `bytes` over whatever the file held.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_bytes(self, bytes: &[u8]) -> Result<(), SinkError> {
        match self.0 {
            Destination::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)
                    .and_then(|()| out.flush())
                    .map_err(|source| SinkError { path: "-".into(), source })
            }
            Destination::File { path, mut file, .. } => {
                replace(&mut file, bytes).map_err(|source| SinkError { path, source })
            }
        }
    }

    /// Gives the destination up unwritten; a file that [`Sink::open`] created goes away again.
    pub fn discard(self) {
        if let Destination::File { path, created: true, .. } = self.0 {
            // Best effort: an empty file that stays behind harms nobody.
            let _ = fs::remove_file(path);
        }
    }
}

fn replace(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    // Not every destination has a length (/dev/stderr, a pipe); those simply take the bytes.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    file.write_all(bytes)
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
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("forebay-results-{}-{name}", std::process::id()))
    }

    #[test]
    fn an_old_file_is_kept_until_the_report_replaces_it() {
        let path = scratch("old");
        fs::write(&path, "x".repeat(1 << 16)).unwrap();
        let sink = Sink::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 16);
        sink.write(&Report::new("r", "c", vec![])).unwrap();
        let read: Report = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read.command, "c");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_discarded_new_file_goes_away_and_an_old_one_stays() {
        let path = scratch("new");
        Sink::open(&path).unwrap().discard();
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        Sink::open(&path).unwrap().discard();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named_with_a_remedy() {
        let error = Sink::open(Path::new("/nowhere/at/all.json")).unwrap_err().to_string();
        assert!(error.contains("'/nowhere/at/all.json'") && error.contains("name a file"), "{error}");
    }
}
