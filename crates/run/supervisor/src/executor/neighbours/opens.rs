//! Which files of a folder are opened, as the kernel tells of a program that has no agent (inotify(7)). Opens by others are seen, too.

use std::{collections::HashMap, ffi::OsStr, mem::MaybeUninit, os::fd::OwnedFd, os::unix::ffi::OsStrExt};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Bytes that are read at once: some 100 events.
const BUFFER_BYTES: usize = 4096;

/// Folders that are watched. Each is known by its place.
#[derive(Default)]
pub struct Opens {
    events: Option<OwnedFd>,
    folders: HashMap<i32, usize>,
    is_refused: bool,
}

impl Opens {
    /// Watches a folder. Where the kernel refuses, nothing is told of it.
    pub fn watch(&mut self, place: usize, folder: &[u8]) {
        if self.events.is_none() && !self.is_refused {
            self.events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
            self.is_refused = self.events.is_none();
        }
        let Some(events) = &self.events else { return };
        // Two opens of a file in a row are one event, unless it was closed between them.
        let what =
            WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        if let Ok(watch) = inotify::add_watch(events, OsStr::from_bytes(folder), what) {
            self.folders.insert(watch, place);
        }
    }

    /// Files that were opened since the last call, in order: their folders' places, and their names.
    pub fn take(&self) -> Vec<(usize, Box<[u8]>)> {
        let mut opened = Vec::new();
        let Some(events) = &self.events else { return opened };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = Reader::new(events, &mut buffer);
        while let Ok(event) = events.next() {
            let is_open =
                event.events().contains(ReadFlags::OPEN) && !event.events().contains(ReadFlags::ISDIR);
            if let (true, Some(place), Some(name)) =
                (is_open, self.folders.get(&event.wd()), event.file_name())
            {
                opened.push((*place, name.to_bytes().into()));
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
    fn each_open_of_a_file_is_told_once() {
        let folder = std::env::temp_dir().join(format!("forebay-opens-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "").unwrap();
        fs::create_dir(folder.join("d")).unwrap();
        let mut opens = Opens::default();
        assert!(opens.take().is_empty());
        opens.watch(7, b"/none/such");
        opens.watch(3, folder.as_os_str().as_bytes());
        for name in ["a", "a", "d"] {
            let _ = fs::File::open(folder.join(name)).unwrap();
        }
        let one = || (3, (*b"a").into());
        assert_eq!(opens.take(), [one(), one()]);
        assert!(opens.take().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
