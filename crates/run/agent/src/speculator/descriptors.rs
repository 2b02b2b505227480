//! The program's descriptors as the speculator sees them: each leads to an open file of its own, with its own offset.

use forebay_protocol::layout::file_system;
use forebay_protocol::signature::Signature;
use forebay_sigsafe::call;
use forebay_sigsafe::errno;
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;

use super::hints::{self, Ticket};
use super::sequential::Run;
use super::{State, kernel, paths};
use crate::residency;
use crate::snapshot::{DESCRIPTORS, Snapshot};

/// Inherited files that are reopened at once, so that the speculator keeps no open file of another process (and its locks) alive.
const REOPENED_MAX: usize = 16;

/// What an open file is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// Not in use.
    #[default]
    Closed = 0,
    /// A regular file that can be read.
    Regular,
    /// A directory.
    Directory,
    /// A file whose look-up is cold: a placeholder.
    Unknown,
    /// A directory whose look-up is cold.
    UnknownDirectory,
    /// A file that is only written to, or was made by the speculator: nothing of it is real.
    Sink,
    /// A terminal, pipe, socket or device of the original, closed here.
    Outside,
}

/// An open file.
#[derive(Clone, Copy)]
pub struct File {
    pub kind: Kind,
    /// Device entry.
    pub device: u8,
    /// Descriptors that lead here.
    pub references: u16,
    /// The kernel's descriptor, where there is one.
    pub real: i32,
    /// Flags of the open.
    pub flags: u32,
    pub offset: u64,
    pub size: u64,
    /// Names the file, whatever path led to it.
    pub identity: u64,
    /// The number that the program was told of it in place of the real one; 0 for none.
    pub number: u64,
    /// How far it is read in sequence.
    pub run: Run,
    /// Directory: the hint for its entries.
    pub ticket: Option<Ticket>,
    /// Directory: its entries were hinted before it was opened, and have not been read.
    pub was_hinted: bool,
    /// Directory: its entries were predicted, or have been read to the end.
    pub ended: bool,
    /// Directory: `real` only names it, and is opened at the first look at its entries.
    pub named_only: bool,
}

const CLOSED: File = File {
    kind: Kind::Closed,
    device: u8::MAX,
    references: 0,
    real: -1,
    flags: 0,
    offset: 0,
    size: 0,
    identity: 0,
    number: 0,
    run: Run::NONE,
    ticket: None,
    was_hinted: false,
    ended: false,
    named_only: false,
};

/// All descriptors and open files.
pub struct Table {
    /// `/proc/self/fd`, through which found files are opened.
    pub folder: isize,
    /// Figures of the file that was opened last, with its descriptor: programs ask for them at once.
    pub last_stat: (isize, n::stat),
    /// Index of the open file, plus 1; 0 for a closed descriptor.
    descriptors: [u16; DESCRIPTORS],
    files: [File; DESCRIPTORS],
    /// Paths of directories and placeholders, by index of the open file.
    paths: [PathBuffer<{ paths::BYTES }>; DESCRIPTORS],
    /// Files in use at some time: no higher index was.
    used: usize,
}

/// Names an open file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileIndex(u16);

impl Table {
    /// The open file of a descriptor.
    pub fn file(&mut self, descriptor: usize) -> Option<(FileIndex, &mut File)> {
        let index = self.descriptors.get(descriptor).copied()?.checked_sub(1)?;
        Some((FileIndex(index), self.files.get_mut(usize::from(index))?))
    }

    /// The open file with this index.
    pub fn at(&mut self, index: FileIndex) -> Option<&mut File> {
        self.files.get_mut(usize::from(index.0))
    }

    /// Path of a directory or placeholder.
    pub fn path(&mut self, index: FileIndex) -> Option<&mut PathBuffer<{ paths::BYTES }>> {
        self.paths.get_mut(usize::from(index.0))
    }

    /// Gives a new open file the lowest free descriptor not below `lowest`.
    pub fn add(&mut self, file: File, lowest: usize) -> Option<(usize, FileIndex)> {
        let descriptor = (lowest..DESCRIPTORS).find(|&at| self.descriptors.get(at) == Some(&0))?;
        let index = self.new_file(file)?;
        *self.descriptors.get_mut(descriptor)? = index.0 + 1;
        Some((descriptor, index))
    }

    fn add_at(&mut self, file: File, descriptor: usize) -> Option<FileIndex> {
        let index = self.new_file(file)?;
        *self.descriptors.get_mut(descriptor)? = index.0 + 1;
        Some(index)
    }

    fn new_file(&mut self, file: File) -> Option<FileIndex> {
        let free = self.files.iter().take(self.used).position(|file| file.kind == Kind::Closed);
        let index = free.unwrap_or(self.used);
        *self.files.get_mut(index)? = File { references: 1, ..file };
        self.paths.get_mut(index)?.clear();
        self.used = self.used.max(index + 1);
        Some(FileIndex(index as u16))
    }
}

/// A file with these figures.
pub fn opened(kind: Kind, real: isize, flags: u32) -> File {
    File { kind, real: real as i32, flags, ..CLOSED }
}

/// Names a file.
pub fn identity(device: u64, inode: u64) -> u64 {
    Signature::call(0).word(device).word(inode).value()
}

/// Takes the original's descriptors over, of which the intermediate process has left those of files that can be read: they get
/// descriptions of their own.
pub fn inherit(state: &mut State, snapshot: &Snapshot) {
    let mut reopened = 0;
    for (descriptor, known) in snapshot.known.iter().enumerate().take(snapshot.descriptors) {
        if known.offset == call::EBADF as i64 {
            continue;
        }
        let kind = match known.mode & n::S_IFMT {
            n::S_IFREG if known.readable() => Kind::Regular,
            n::S_IFREG => Kind::Sink,
            n::S_IFDIR if known.readable() => Kind::Directory,
            _ => Kind::Outside,
        };
        let mut file = opened(kind, -1, known.flags);
        file.offset = known.offset.max(0) as u64;
        file.size = known.size;
        file.identity = identity(known.device, known.inode);
        if matches!(kind, Kind::Regular | Kind::Directory) {
            file.real = descriptor as i32;
            file.device = hints::device_index(state.header, known.device);
            state.paths.found_on(hints::entry(state, file.device));
            let is_remote = residency::has(hints::entry(state, file.device), file_system::REMOTE);
            // On a remote file system to open a file is a request.
            if kind == Kind::Directory || reopened < REOPENED_MAX && !is_remote {
                reopened += 1;
                let own = if kind == Kind::Directory {
                    kernel::name_found(state.descriptors.folder, descriptor as isize)
                } else {
                    kernel::open_found(state.descriptors.folder, descriptor as isize)
                };
                if own >= 0 {
                    kernel::close(descriptor as isize);
                    file.real = own as i32;
                    file.named_only = kind == Kind::Directory;
                }
            }
        }
        let _ = state.descriptors.add_at(file, descriptor);
    }
}

/// `close`.
pub fn close(state: &mut State, descriptor: usize) -> isize {
    let Some((index, _)) = state.descriptors.file(descriptor) else { return call::EBADF };
    if let Some(place) = state.descriptors.descriptors.get_mut(descriptor) {
        *place = 0;
    }
    let Some(file) = state.descriptors.at(index) else { return call::EBADF };
    file.references = file.references.saturating_sub(1);
    if file.references == 0 {
        let real = file.real;
        *file = CLOSED;
        if state.descriptors.last_stat.0 == real as isize {
            state.descriptors.last_stat.0 = -1;
        }
        if real >= 0 && !hints::close_with_flight(state, real) {
            kernel::close(real as isize);
        }
    }
    0
}

/// `dup`, and `fcntl` with `F_DUPFD`.
pub fn duplicate(state: &mut State, descriptor: usize, lowest: usize) -> isize {
    let Some((index, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    file.references = file.references.saturating_add(1);
    let descriptors = &mut state.descriptors.descriptors;
    match (lowest..DESCRIPTORS).find(|&at| descriptors.get(at) == Some(&0)) {
        Some(new) => {
            if let Some(place) = descriptors.get_mut(new) {
                *place = index.0 + 1;
            }
            new as isize
        }
        None => call::error(errno::EMFILE),
    }
}

/// `dup2` and `dup3`.
pub fn duplicate_to(state: &mut State, descriptor: usize, new: usize) -> isize {
    if new >= DESCRIPTORS || state.descriptors.file(descriptor).is_none() {
        return call::EBADF;
    }
    if new != descriptor {
        let _ = close(state, new);
        if let Some((index, file)) = state.descriptors.file(descriptor) {
            file.references = file.references.saturating_add(1);
            if let Some(place) = state.descriptors.descriptors.get_mut(new) {
                *place = index.0 + 1;
            }
        }
    }
    new as isize
}

/// `fcntl`.
pub fn control(state: &mut State, descriptor: usize, command: u32, argument: usize) -> isize {
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    match command {
        n::F_DUPFD | n::F_DUPFD_CLOEXEC => duplicate(state, descriptor, argument),
        n::F_GETFD => n::FD_CLOEXEC as isize,
        n::F_GETFL => file.flags as isize,
        // Locks and flags are said to have been set.
        n::F_SETFD | n::F_SETFL | n::F_SETLK | n::F_SETLKW | n::F_OFD_SETLK | n::F_OFD_SETLKW => 0,
        _ => call::EINVAL,
    }
}
