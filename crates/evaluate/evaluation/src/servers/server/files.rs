//! Files that a server has open, or mapped: what of them is in memory already would not count as its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_lab::cold;

use super::observer::Scope;

/// No more files than this are taken out of memory.
const FILES_MAX: usize = 4096;

/// Takes out of memory what can be of the files that the server uses, as of now. What a program runs from stays, and so does a
/// file that may not be opened.
pub(super) fn make_cold(scope: &Scope) {
    for file in used(scope) {
        let _ = cold::evict(&[file], cold::Extent::Data);
    }
}

/// Regular files that the server has open or mapped, without what it runs from.
pub(super) fn used(scope: &Scope) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for process in scope.processes() {
        let folder = Path::new("/proc").join(process.to_string());
        found.extend(mapped(&fs::read_to_string(folder.join("maps")).unwrap_or_default()));
        let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        found.extend(open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()));
    }
    found.retain(|path| path.is_absolute() && is_on_disk(path));
    found.into_iter().take(FILES_MAX).collect()
}

/// Files of the mappings that no code runs from (proc_pid_maps(5)).
fn mapped(maps: &str) -> BTreeSet<PathBuf> {
    let (mut files, mut code) = (BTreeSet::new(), BTreeSet::new());
    for line in maps.lines() {
        let (Some(rights), Some(place)) = (line.split_whitespace().nth(1), line.find('/')) else { continue };
        let file = PathBuf::from(&line[place..]);
        if rights.contains('x') {
            code.insert(file);
        } else {
            files.insert(file);
        }
    }
    &files - &code
}

/// Whether it is a regular file with blocks of a disk.
fn is_on_disk(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.blocks() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_runs_from_is_none_of_its_data() {
        let maps = "55d0-55d1 r--p 00000000 fe:00 12  /usr/bin/server\n55d1-55d2 r-xp 00001000 fe:00 12  /usr/bin/server\n\
                    7f00-7f80 r--s 00000000 fe:00 13  /srv/the data\n7ffc-7ffd rw-p 00000000 00:00 0  [stack]\n";
        assert_eq!(mapped(maps), ["/srv/the data".into()].into());
    }

    #[test]
    fn a_process_uses_the_files_that_it_has_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("data");
        fs::write(&path, vec![1; 8192]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let own = Scope::Tree(std::process::id());
        assert!(used(&own).contains(&path) || !is_on_disk(&path), "{:?}", used(&own));
    }
}
