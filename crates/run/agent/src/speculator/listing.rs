//! Entries of directories, which tell whether a cold path exists, and whether it is a directory.
//!
//! As a rule the program has just read the directory that a cold path is in. Its entries are resident, but the inodes that
//! they name are not. A program that visits one directory of it visits the others too, so those next to it are hinted with it,
//! as many as the executor's queue has room for. The next ones are hinted when half of these were visited.

use core::mem;
use core::ops::Range;

use forebay_protocol::layout::{PATH_CELLS, PathHint};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::turn::Turn;
use forebay_sigsafe::{general as n, sys, text};

use super::descriptors::FileIndex;
use super::{State, hints, kernel, paths, touch_program};

const ENTRIES_MAX: usize = 16384;
/// Directories opened, after which the executor's queue is filled up: half of it is free then.
const OPENED_MAX: u32 = PATH_CELLS as u32 / 2;
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

/// Paths that were seen in directories, by their hashes with marks in the lowest bits. What is known of a directory's listing is
/// under its path and a slash.
pub struct Listed {
    paths: [u64; ENTRIES_MAX],
    /// Entries seen.
    entries: u64,
    /// The program visits directories that it found in others.
    pub descends: bool,
    /// Directories that it has opened since siblings were last hinted.
    opened: u32,
    /// The hash of the one before the last.
    entered: u64,
}

const IS_DIRECTORY: u64 = 1;
/// The executor was told of the directory.
const IS_HINTED: u64 = 2;
/// The listing was looked through whole.
const IS_WHOLE: u64 = 1;
/// The program has opened a directory that the listing has.
const IS_ENTERED: u64 = 2;
const MARKS: u64 = 3;

impl Listed {
    fn hash(path: &[u8]) -> u64 {
        Signature::call(0).bytes(path).value() & !MARKS
    }

    fn place(&mut self, hash: u64) -> Option<&mut u64> {
        self.paths.get_mut((hash >> 20) as usize % ENTRIES_MAX)
    }

    /// Adds marks to what is known of a path.
    fn add(&mut self, path: &[u8], marks: u64) {
        let hash = Self::hash(path);
        if let Some(place) = self.place(hash) {
            let known = if *place & !MARKS == hash { *place & MARKS } else { 0 };
            *place = hash | known | marks;
        }
    }

    /// The marks of a path that is known.
    fn get(&mut self, path: &[u8]) -> Option<u64> {
        let hash = Self::hash(path);
        let found = *self.place(hash)?;
        (found & !MARKS == hash).then_some(found & MARKS)
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

/// What the directory that `path` is in tells of it. Where it is a directory, it has been hinted.
pub fn look(state: &mut State, path: &[u8]) -> Entry {
    let Some(parent) = parent(path) else { return Entry::Unknown };
    let is_whole = |state: &mut State| state.listed.get(parent).is_some_and(|marks| marks & IS_WHOLE != 0);
    if !is_whole(state) && scan(state, parent, &mut Pass::new(0..0)) {
        state.listed.add(parent, IS_WHOLE);
    }
    match state.listed.get(path) {
        Some(marks) if marks & IS_DIRECTORY != 0 => {
            state.listed.descends = true;
            let _ = enter(state, path);
            Entry::Directory
        }
        Some(_) => Entry::Other,
        // Other paths may have taken the places of its entries.
        None if is_whole(state) && state.listed.entries < ENTRIES_MAX as u64 / 16 => Entry::Absent,
        None => Entry::Unknown,
    }
}

/// How the entries of a directory that the program opens come into memory.
pub enum Hinted {
    /// With those of a sibling.
    Before,
    /// By this hint, if the executor's queue had a place.
    Now(Option<hints::Ticket>),
}

/// The program opens a directory, whose entries are hinted. Where it is not the first one of its parent, so are those of its
/// siblings.
pub fn enter(state: &mut State, path: &[u8]) -> Hinted {
    let marks = state.listed.get(path).unwrap_or(0);
    let hinted = if marks & IS_HINTED != 0 {
        Hinted::Before
    } else {
        let ticket = hints::path(state, PathHint::Directory, path, 0, 0);
        state.listed.add(path, IS_DIRECTORY | IS_HINTED);
        Hinted::Now(ticket)
    };
    let Some(parent) = parent(path) else { return hinted };
    let is_first = state.listed.get(parent).is_none_or(|marks| marks & IS_ENTERED == 0);
    state.listed.add(parent, IS_ENTERED);
    if state.paths.on_remote {
        // Each pass through a listing is some requests.
        if is_first {
            let _ = scan(state, parent, &mut Pass::new(0..PATH_CELLS as u32));
        }
        return hinted;
    }
    state.listed.opened += 1;
    state.listed.descends |= !is_first;
    let hash = Listed::hash(path);
    let before = mem::replace(&mut state.listed.entered, hash);
    if state.listed.descends && (matches!(hinted, Hinted::Now(_)) || state.listed.opened >= OPENED_MAX) {
        state.listed.opened = 0;
        hint_siblings(state, parent, before, hash);
    }
    hinted
}

/// Hints directories next to the one that the program opens, on the side that it goes on to: after it as a rule, before it where
/// the one that it opened before comes later in the listing.
fn hint_siblings(state: &mut State, parent: &[u8], before: u64, opened: u64) {
    let mut pass = Pass { wanted: [before, opened], ..Pass::new(0..0) };
    let _ = scan(state, parent, &mut pass);
    let [before, Some(opened)] = pass.found else { return };
    let is_backward = before.is_some_and(|before| before > opened);
    let hinted = if is_backward {
        opened.saturating_sub(PATH_CELLS as u32)..opened
    } else {
        opened + 1..opened + 1 + PATH_CELLS as u32
    };
    let _ = scan(state, parent, &mut Pass::new(hinted));
}

/// The directory that a path is in, with its slash.
fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    let (parent, name) = path.split_at_checked(slash + 1)?;
    (parent.len() >= 2 && !matches!(name, b"" | b"." | b"..")).then_some(parent)
}

/// Reads a directory that is cached; whether it was read to its end.
fn scan(state: &mut State, parent: &[u8], pass: &mut Pass) -> bool {
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
            sure &= note(state, parent, buffer, length, pass);
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
        let hinted = if descends { 0..PATH_CELLS as u32 } else { 0..0 };
        // SAFETY: the caller's.
        let _ = unsafe { note(state, base.as_bytes(), buffer, length, &mut Pass::new(hinted)) };
        if descends {
            state.listed.add(base.as_bytes(), IS_WHOLE | IS_ENTERED);
        }
    }
}

/// One pass through a listing.
struct Pass {
    /// Directories seen.
    directories: u32,
    /// Hashes of directories that are looked for, and which ones in the listing they are.
    wanted: [u64; 2],
    found: [Option<u32>; 2],
    /// Which ones are hinted, while the executor's queue has room.
    hinted: Range<u32>,
}

impl Pass {
    const fn new(hinted: Range<u32>) -> Self {
        Self { directories: 0, wanted: [0; 2], found: [None; 2], hinted }
    }

    /// The next directory is at `path`.
    fn directory(&mut self, state: &mut State, path: &[u8]) {
        let number = self.directories;
        self.directories += 1;
        let hash = Listed::hash(path);
        for (wanted, found) in self.wanted.iter().zip(&mut self.found) {
            if *wanted == hash {
                *found = Some(number);
            }
        }
        if !self.hinted.contains(&number)
            || state.listed.get(path).is_some_and(|marks| marks & IS_HINTED != 0)
        {
            return;
        }
        match hints::path_if_room(state, PathHint::Directory, path) {
            Some(_) => state.listed.add(path, IS_HINTED),
            None => self.hinted = 0..0,
        }
    }
}

/// Whether the kind of every entry was told.
///
/// # Safety
/// As [`note_listed`].
unsafe fn note(state: &mut State, parent: &[u8], buffer: usize, length: usize, pass: &mut Pass) -> bool {
    let mut at = 0;
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
        let path = path.as_bytes();
        state.listed.add(path, if kind == TYPE_DIRECTORY { IS_DIRECTORY } else { 0 });
        if kind == TYPE_DIRECTORY {
            pass.directory(state, path);
        }
    }
    sure
}
