//! Entries of directories, which tell whether a cold path exists, and whether it is a directory.
//!
//! As a rule the program has just read the directory that a cold path is in. Its entries are resident, but the inodes that
//! they name are not. A program that visits one directory of it visits the others too, so they are hinted together.

use forebay_protocol::layout::PathHint;
use forebay_protocol::signature::Signature;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::turn::Turn;
use forebay_sigsafe::{general as n, sys, text};

use super::descriptors::FileIndex;
use super::{State, hints, kernel, paths, touch_program};

const ENTRIES_MAX: usize = 16384;
/// Directories below one directory that are hinted.
const HINTED_MAX: usize = 512;
/// Most of a directory that is looked through, in buffers.
const BUFFERS_MAX: usize = 32;
const BUFFER_BYTES: usize = 32 << 10;
const TYPE_UNKNOWN: u8 = 0;
const TYPE_DIRECTORY: u8 = 4;
/// Where the fields of a `linux_dirent64` are.
const NEXT_AT: usize = 8;
const LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// What is known of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is a directory.
    Directory,
    /// It is something else.
    Other,
    /// Its directory has no such entry.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// Paths that were seen in directories, by their hashes: bit 1 set for a directory. A directory that was looked
/// through whole is in it with its path and a slash.
pub struct Listed {
    paths: [u64; ENTRIES_MAX],
    /// Entries seen.
    entries: u64,
    /// The program visits directories that it found in others.
    pub descends: bool,
}

const IS_DIRECTORY: u64 = 2;

impl Listed {
    fn hash(path: &[u8]) -> u64 {
        Signature::call(0).bytes(path).value() & !IS_DIRECTORY
    }

    fn place(&mut self, hash: u64) -> Option<&mut u64> {
        self.paths.get_mut((hash >> 20) as usize % ENTRIES_MAX)
    }

    fn add(&mut self, path: &[u8], directory: bool) {
        let hash = Self::hash(path);
        if let Some(place) = self.place(hash) {
            *place = hash | if directory { IS_DIRECTORY } else { 0 };
        }
    }

    fn get(&mut self, path: &[u8]) -> Option<bool> {
        let hash = Self::hash(path);
        let found = *self.place(hash)?;
        (found & !IS_DIRECTORY == hash).then_some(found & IS_DIRECTORY != 0)
    }
}

/// In use while a directory is looked through, of which one does not lead to another.
static BUFFER: Turn<[u8; BUFFER_BYTES]> = Turn::new([0; BUFFER_BYTES]);
/// All users of the buffer are alike.
const SCANNING: usize = 1;

/// The descriptor that reads an open directory on from where the program is; `None` where it cannot be had.
///
/// A fresh descriptor is read from its beginning: some file systems know a place in a listing only by having come there.
pub fn open(state: &mut State, index: FileIndex) -> Option<isize> {
    let folder = state.descriptors.folder;
    let file = state.descriptors.at(index)?;
    let (named, offset) = (file.real as isize, file.offset);
    if !file.named_only {
        return (named >= 0).then_some(named);
    }
    let (own, found) = open_at(folder, named, offset)?;
    let file = state.descriptors.at(index)?;
    file.real = own as i32;
    file.named_only = false;
    file.ended |= !found;
    if state.descriptors.last_stat.0 == named {
        state.descriptors.last_stat.0 = own;
    }
    kernel::close(named);
    Some(own)
}

/// Opens what `named` names and reads it up to a place; whether the place was found.
fn open_at(folder: isize, named: isize, place: u64) -> Option<(isize, bool)> {
    let mut held = BUFFER.enter(SCANNING)?;
    let buffer = held.as_mut_ptr() as usize;
    let opened = || Some(kernel::open_found(folder, named)).filter(|own| *own >= 0);
    let own = opened()?;
    if place == 0 {
        return Some((own, true));
    }
    // SAFETY: a buffer as large as the call is told.
    let fill =
        |own, size| unsafe { usize::try_from(sys!(n::__NR_getdents64, own, buffer, size)).unwrap_or(0) };
    for whole in 0..BUFFERS_MAX {
        let length = fill(own, BUFFER_BYTES);
        // SAFETY: the kernel has just filled the buffer.
        let before = unsafe { length_before(buffer, length, place) };
        if length == 0 || before == Some(length) {
            return Some((own, length != 0));
        }
        let Some(before) = before else { continue };
        // The place is among these entries: the same again, no further than there.
        kernel::close(own);
        let own = opened()?;
        for _ in 0..whole {
            let _ = fill(own, BUFFER_BYTES);
        }
        return Some((own, fill(own, before) == before));
    }
    Some((own, false))
}

/// Bytes of the entries before a place in a listing.
///
/// # Safety
/// `buffer` holds `length` bytes of entries, as the kernel writes them.
unsafe fn length_before(buffer: usize, length: usize, place: u64) -> Option<usize> {
    let mut at = 0;
    while at + NAME_AT < length {
        let entry = (buffer + at) as *const u8;
        // SAFETY: the kernel's entries are whole.
        let (next, step) = unsafe {
            let next = entry.add(NEXT_AT).cast::<u64>().read_unaligned();
            (next, entry.add(LENGTH_AT).cast::<u16>().read_unaligned())
        };
        if step == 0 {
            return None;
        }
        at += usize::from(step);
        if next == place {
            return Some(at);
        }
    }
    None
}

/// What the directory that `path` is in tells of it. Where it is a directory, it and its siblings have been hinted.
pub fn look(state: &mut State, path: &[u8]) -> Entry {
    let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else { return Entry::Unknown };
    let parent = path.get(..slash + 1).unwrap_or_default();
    let name = path.get(slash + 1..).unwrap_or_default();
    if parent.len() < 2 || matches!(name, b"" | b"." | b"..") {
        return Entry::Unknown;
    }
    let mut whole = state.listed.get(parent);
    if whole.is_none() {
        whole = scan(state, parent, false).then_some(false);
        if whole.is_some() {
            state.listed.add(parent, false);
        }
    }
    match (state.listed.get(path), whole) {
        (Some(true), hinted) => {
            state.listed.descends = true;
            if hinted != Some(true) {
                // The mark of a directory whose directories have been hinted.
                state.listed.add(parent, true);
                let _ = scan(state, parent, true);
            }
            Entry::Directory
        }
        (Some(false), _) => Entry::Other,
        // Other paths may have taken the places of its entries.
        (None, Some(_)) if state.listed.entries < ENTRIES_MAX as u64 / 16 => Entry::Absent,
        _ => Entry::Unknown,
    }
}

/// Reads a directory that is cached; whether it was read to its end.
fn scan(state: &mut State, parent: &[u8], hint: bool) -> bool {
    let mut path = PathBuffer::<{ paths::BYTES }>::new();
    if !path.push(parent) {
        return false;
    }
    let Some(mut held) = BUFFER.enter(SCANNING) else { return false };
    let buffer = held.as_mut_ptr() as usize;
    // SAFETY: a terminated path, and a buffer as large as the calls are told.
    unsafe {
        let found = kernel::find(n::AT_FDCWD as isize, path.as_ptr() as usize, n::O_DIRECTORY);
        if found < 0 {
            return false;
        }
        let directory = kernel::open_found(state.descriptors.folder, found);
        kernel::close(found);
        if directory < 0 {
            return false;
        }
        let mut ended = false;
        let mut sure = true;
        for _ in 0..BUFFERS_MAX {
            let read = sys!(n::__NR_getdents64, directory, buffer, BUFFER_BYTES);
            let Ok(length) = usize::try_from(read) else { break };
            if length == 0 {
                ended = true;
                break;
            }
            sure &= note(state, parent, buffer, length, hint);
        }
        kernel::close(directory);
        ended && sure
    }
}

/// Takes note of the entries that `getdents64` has put into `[buffer, buffer + length)` for the program; a program that
/// descends gets the directories among them hinted.
///
/// # Safety
/// The kernel has just filled the buffer.
pub unsafe fn note_listed(state: &mut State, descriptor: usize, buffer: usize, length: usize) {
    let mut base = PathBuffer::<{ paths::BYTES }>::new();
    if paths::directory_path(state, descriptor, &mut base) && base.push(b"/") {
        let descends = state.listed.descends;
        // SAFETY: the caller's.
        let _ = unsafe { note(state, base.as_bytes(), buffer, length, descends) };
        if descends {
            state.listed.add(base.as_bytes(), true);
        }
    }
}

/// Whether the kind of every entry was told.
///
/// # Safety
/// As [`note_listed`].
unsafe fn note(state: &mut State, parent: &[u8], buffer: usize, length: usize, hint: bool) -> bool {
    let mut at = 0;
    let mut hinted = 0;
    let mut sure = true;
    while at + NAME_AT < length {
        let mut path = PathBuffer::<{ paths::BYTES }>::new();
        // SAFETY: the kernel's entries are whole, their names terminated.
        let (step, kind, is_link, fits) = touch_program(state, || unsafe {
            let entry = (buffer + at) as *const u8;
            let step = entry.add(LENGTH_AT).cast::<u16>().read_unaligned();
            let name = text::bytes(entry.add(NAME_AT));
            let is_link = name == b"." || name == b"..";
            let fits = path.push(parent) && path.push(name);
            (usize::from(step), entry.add(TYPE_AT).read(), is_link, fits)
        });
        if step == 0 {
            return false;
        }
        at += step;
        if is_link {
            continue;
        }
        if kind == TYPE_UNKNOWN || !fits {
            sure = false;
            continue;
        }
        state.listed.entries += 1;
        state.listed.add(path.as_bytes(), kind == TYPE_DIRECTORY);
        if hint && kind == TYPE_DIRECTORY && hinted < HINTED_MAX {
            hinted += 1;
            let _ = hints::path(state, PathHint::Directory, path.as_bytes(), 0, 0);
        }
    }
    sure
}
