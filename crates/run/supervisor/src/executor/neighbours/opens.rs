//! What is opened in folders, as the kernel tells of a program that has no agent (inotify(7)). Opens by others are seen, too.

use std::{
    collections::HashMap, ffi::OsStr, mem::MaybeUninit, os::fd::OwnedFd, os::unix::ffi::OsStrExt, sync::Arc,
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Folders at most. Choice: an eighth of what the kernel lets a user watch at least.
const FOLDERS_MAX: usize = 1024;
/// Bytes that are read at once: some 100 events.
const BUFFER_BYTES: usize = 4096;

/// Folders that are watched.
#[derive(Default)]
pub struct Opens {
    events: Option<OwnedFd>,
    folders: HashMap<i32, Arc<[u8]>>,
    is_refused: bool,
}

/// A file or folder that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub folder: Arc<[u8]>,
    pub name: Box<[u8]>,
}

impl Opens {
    /// Watches a folder. Where the kernel refuses, nothing is told of it.
    pub fn watch(&mut self, folder: &Arc<[u8]>) {
        if self.folders.len() >= FOLDERS_MAX {
            return;
        }
        if self.events.is_none() && !self.is_refused {
            self.events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
            self.is_refused = self.events.is_none();
        }
        let Some(events) = &self.events else { return };
        // Two opens of a file in a row are one event, unless it was closed between them.
        let what =
            WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        if let Ok(watch) = inotify::add_watch(events, OsStr::from_bytes(folder), what) {
            self.folders.insert(watch, Arc::clone(folder));
        }
    }

    /// What was opened since the last call, in order.
    pub fn take(&self) -> Vec<Opened> {
        let mut opened = Vec::new();
        let Some(events) = &self.events else { return opened };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = Reader::new(events, &mut buffer);
        while let Ok(event) = events.next() {
            if !event.events().contains(ReadFlags::OPEN) {
                continue;
            }
            // An open of the folder itself has no name.
            if let (Some(folder), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) {
                opened.push(Opened { folder: Arc::clone(folder), name: name.to_bytes().into() });
            }
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn each_open_is_told_once() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        fs::write(place.join("a"), "").unwrap();
        fs::create_dir(place.join("d")).unwrap();
        let folder: Arc<[u8]> = place.as_os_str().as_bytes().into();
        let mut opens = Opens::default();
        assert!(opens.take().is_empty());
        opens.watch(&(*b"/none/such").into());
        opens.watch(&folder);
        for name in ["a", "a", "d", "."] {
            let _ = fs::File::open(place.join(name)).unwrap();
        }
        let one = |name: &str| Opened { folder: folder.clone(), name: name.as_bytes().into() };
        assert_eq!(opens.take(), ["a", "a", "d"].map(one));
        assert!(opens.take().is_empty());
    }
}
