//! What of files is in memory (cachestat(2)).

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_linux::{CacheStat, cachestat, has_cachestat};
use rustix::param::page_size;

use crate::error::{Error, Refused, SAME_USER};
use crate::sheet::{Sheet, Source};

/// So many files are looked at in a sample; of more under given paths, each so-and-so-many-th stands for its neighbours.
const LOOKED_AT_MAX: usize = 256;
/// So many descriptors are looked at in a sample.
const DESCRIPTORS_MAX: usize = 4096;
const PLACE: &str = "cachestat(2)";
/// What to do where the kernel does not tell what of a file is in memory.
const WITH_CACHESTAT: &str = "run Linux 6.5 or later";

/// Files of which is told what is in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// None.
    #[default]
    None,
    /// Those that the processes of the target have open, at each sample: the first 256 of them.
    Open,
    /// These, and those in these folders, at any depth, when the meter is opened. Of more than 256, every n-th stands for n.
    Under(Vec<PathBuf>),
}

/// What was found of some files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Found {
    pages: u64,
    counts: CacheStat,
}

impl Found {
    /// A file that cannot be looked at, because it is somebody else's, adds nothing.
    fn add(&mut self, path: &Path) {
        let looked = File::open(path).and_then(|file| Ok((file.metadata()?.len(), cachestat(&file)?)));
        let Ok((bytes, counts)) = looked else { return };
        let sum = &mut self.counts;
        self.pages += bytes.div_ceil(page_size() as u64);
        sum.cached += counts.cached;
        sum.dirty += counts.dirty;
        sum.writeback += counts.writeback;
        sum.evicted += counts.evicted;
        sum.recently_evicted += counts.recently_evicted;
    }

    /// What the kernel does not tell at all is refused there.
    fn enter(&self, sheet: &mut Sheet, told: bool, each_stands_for: f64) {
        let CacheStat { cached, dirty, writeback, evicted, recently_evicted } = self.counts;
        let pages = |pages: u64| Some(pages as f64 * each_stands_for).filter(|_| told);
        sheet.level("file_pages", "pages", pages(self.pages));
        sheet.level("file_pages_cached", "pages", pages(cached));
        sheet.level("file_pages_dirty", "pages", pages(dirty));
        sheet.level("file_pages_writeback", "pages", pages(writeback));
        sheet.level("file_pages_evicted", "pages", pages(evicted));
        sheet.level("file_pages_recently_evicted", "pages", pages(recently_evicted));
    }
}

/// The files that processes have open.
pub(crate) struct OpenFiles {
    told: bool,
    /// Whether the target's descriptors may be looked at.
    seen: bool,
}

impl OpenFiles {
    /// Of the process that the others come from, or of anybody's.
    pub(crate) fn new(process: Option<u32>) -> Self {
        let seen = process.is_none_or(|pid| fs::read_dir(format!("/proc/{pid}/fd")).is_ok());
        Self { told: has_cachestat(), seen }
    }

    /// Enters what is in memory of the files of these processes, each file once.
    pub(crate) fn sample(&self, processes: impl Iterator<Item = u32>, sheet: &mut Sheet) {
        let mut found = Found::default();
        let mut met = HashSet::new();
        let folders = processes.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")));
        for descriptor in
            folders.flatten().flatten().take(if self.told && self.seen { DESCRIPTORS_MAX } else { 0 })
        {
            let path = descriptor.path();
            let Ok(file) = fs::metadata(&path) else { continue };
            if file.is_file() && met.len() < LOOKED_AT_MAX && met.insert((file.dev(), file.ino())) {
                found.add(&path);
            }
        }
        if self.seen {
            sheet.from(PLACE, WITH_CACHESTAT);
        } else {
            sheet.from("/proc/PID/fd", SAME_USER);
        }
        found.enter(sheet, self.told && self.seen, 1.0);
    }
}

/// That a machine has no files of its own.
pub(crate) fn nobodys() -> Refused {
    Refused {
        counter: "file_pages_cached".to_owned(),
        tier: forebay_results::Tier::Software,
        why: "all files of a machine are too many to be looked at".to_owned(),
        remedy: "name files or folders".to_owned(),
    }
}

/// Files and folders that somebody named.
pub(crate) struct NamedFiles {
    told: bool,
    looked_at: Vec<PathBuf>,
    each_stands_for: f64,
}

impl NamedFiles {
    /// # Errors
    /// One of them is not there, or may not be read.
    pub(crate) fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut all = Vec::new();
        for path in paths {
            let refused = |source| Error::File { path: path.clone(), source };
            collect(path, &fs::metadata(path).map_err(refused)?, &mut all).map_err(refused)?;
        }
        all.sort();
        let step = all.len().div_ceil(LOOKED_AT_MAX).max(1);
        let number = all.len();
        let looked_at: Vec<PathBuf> = all.into_iter().step_by(step).collect();
        let each_stands_for = number as f64 / looked_at.len().max(1) as f64;
        Ok(Self { told: has_cachestat(), looked_at, each_stands_for })
    }
}

impl Source for NamedFiles {
    fn sample(&mut self, sheet: &mut Sheet) {
        let mut found = Found::default();
        self.looked_at.iter().filter(|_| self.told).for_each(|path| found.add(path));
        sheet.from(PLACE, WITH_CACHESTAT);
        found.enter(sheet, self.told, self.each_stands_for);
    }
}

/// Links within folders are not followed.
fn collect(path: &Path, what: &Metadata, all: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if what.is_file() {
        all.push(path.to_owned());
    } else if what.is_dir() {
        for entry in fs::read_dir(path)?.flatten() {
            // What is gone by now, or closed to us, is not counted.
            let _ = entry.metadata().and_then(|what| collect(&entry.path(), &what, all));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(source: &mut dyn Source) -> Vec<f64> {
        let mut sheet = Sheet::default();
        source.sample(&mut sheet);
        sheet.take()
    }

    #[test]
    fn of_many_files_some_stand_for_all() {
        if !has_cachestat() {
            forebay_testkit::skip("of_many_files_some_stand_for_all", "the kernel has no cachestat");
            return;
        }
        let folder = std::env::temp_dir().join(format!("forebay-files-{}", std::process::id()));
        fs::create_dir_all(folder.join("below")).unwrap();
        for number in 0..LOOKED_AT_MAX * 2 {
            fs::write(folder.join("below").join(number.to_string()), [7; 5000]).unwrap();
        }
        let mut files = NamedFiles::new(std::slice::from_ref(&folder)).unwrap();
        let counts = entered(&mut files);
        forebay_lab::cold::evict(std::slice::from_ref(&folder), forebay_lab::cold::Extent::Data).unwrap();
        let cold = entered(&mut files);
        fs::remove_dir_all(&folder).unwrap();
        // Two pages each, all of them just written.
        let all = (LOOKED_AT_MAX * 4) as f64;
        assert_eq!((files.looked_at.len(), counts[0], counts[1]), (LOOKED_AT_MAX, all, all));
        assert!(cold[0] == all && cold[1] < all / 2.0, "{cold:?}");
        assert_eq!(entered(&mut files)[0], 0.0);
    }

    #[test]
    fn an_old_kernel_is_named() {
        let mut sheet = Sheet::default();
        NamedFiles { told: false, looked_at: vec![], each_stands_for: 1.0 }.sample(&mut sheet);
        let (had, refused) = sheet.survey();
        assert!(had.is_empty());
        let named = refused.iter().find(|one| one.counter == "file_pages_cached").unwrap().to_string();
        assert_eq!(
            named,
            "file_pages_cached (software): cachestat(2) does not tell it; run Linux 6.5 or later"
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let error = NamedFiles::new(&["/no/such".into()]).err().unwrap().to_string();
        assert!(error.contains("/no/such"), "{error}");
    }
}
