//! Taking files out of the page cache, and looking whether they are out.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags};

use crate::{Error, sys};

/// Pages that another CPU was just about to put on a list are out of reach for a moment.
const ATTEMPTS_MAX: usize = 4;

/// What shall be cold afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The data of the files. Needs no privilege.
    Data,
    /// The data, and names, inodes and blocks of metadata as well. That is done for the whole machine, by root only, and
    /// not in every container; elsewhere it is the same as [`Extent::Data`].
    Everything,
}

/// What was evicted, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Regular files looked at.
    pub files: u64,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// Files of which pages are still in memory: in use by somebody, or on a file system that lives in memory.
    pub resident: Vec<Resident>,
    /// Files whose pages in memory the kernel would not tell this user.
    pub unverified: Vec<PathBuf>,
    /// Whether names, inodes and blocks of metadata are cold too.
    pub metadata_dropped: bool,
}

/// A file that is not cold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The file.
    pub path: PathBuf,
    /// Its pages that are still in memory.
    pub pages: u64,
}

impl Report {
    /// Whether none of the data is known to be in memory.
    pub fn is_cold(&self) -> bool {
        self.resident.is_empty()
    }
}

/// Writes back and evicts every regular file among `paths` and below them. Symbolic links are not followed.
///
/// Files that a running program has mapped stay, and are reported.
///
/// # Errors
///
/// When a path cannot be read. A file that vanishes meanwhile is no error.
pub fn evict<P: AsRef<Path>>(paths: &[P], extent: Extent) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        // Dirty pages cannot be dropped.
        let root = File::open(path).map_err(|error| Error::at("open", path, error))?;
        rustix::fs::syncfs(&root).map_err(|error| Error::at("sync", path, error))?;
        collect(path, &mut files)?;
    }
    if extent == Extent::Everything {
        report.metadata_dropped = fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    }
    for path in files {
        let Some(file) = open(&path)? else { continue };
        let size = file.metadata().map_err(|error| Error::at("look at", &path, error))?.size();
        report.files += 1;
        report.bytes += size;
        match evict_file(&file, size).map_err(|error| Error::at("evict", &path, error))? {
            Some(0) => {}
            Some(pages) => report.resident.push(Resident { path, pages }),
            None => report.unverified.push(path),
        }
    }
    Ok(report)
}

/// How many of a file's pages are in memory; `None` where the kernel does not tell this user.
///
/// # Errors
///
/// When the file cannot be read.
pub fn resident_pages(path: &Path) -> Result<Option<u64>, Error> {
    let file = File::open(path).map_err(|error| Error::at("open", path, error))?;
    let size = file.metadata().map_err(|error| Error::at("look at", path, error))?.size();
    pages_in_memory(&file, size).map_err(|error| Error::at("look at", path, error))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let kind = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::at("look at", path, error)),
    };
    if kind.is_file() {
        files.push(path.to_owned());
    } else if kind.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| Error::at("list", path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Error::at("list", path, error))?;
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}

/// Opens without a trace in the access time where the kernel lets us; `None` when the file is gone.
fn open(path: &Path) -> Result<Option<File>, Error> {
    let quiet = OFlags::NOATIME | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let plain = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    for flags in [quiet, plain] {
        match File::options().read(true).custom_flags(flags.bits() as i32).open(path) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && flags == quiet => {}
            Err(error) => return Err(Error::at("open", path, error)),
        }
    }
    Ok(None)
}

fn evict_file(file: &File, size_bytes: u64) -> io::Result<Option<u64>> {
    let mut left = None;
    for _ in 0..ATTEMPTS_MAX {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
        left = pages_in_memory(file, size_bytes)?;
        match left {
            Some(1..) => file.sync_data()?,
            Some(0) | None => break,
        }
    }
    Ok(left)
}

fn pages_in_memory(file: &File, size_bytes: u64) -> io::Result<Option<u64>> {
    let unprivileged = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP))
    };
    match forebay_linux::cachestat(file) {
        Ok(counts) => Ok(Some(counts.cached)),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            match sys::resident_pages(file, size_bytes) {
                Ok(pages) => Ok(Some(pages)),
                Err(error) if unprivileged(&error) => Ok(None),
                Err(error) => Err(error),
            }
        }
        Err(error) if unprivileged(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
