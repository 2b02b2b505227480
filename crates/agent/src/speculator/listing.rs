//! Directories below a directory that is read: a program that descends will read them next.

use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::text;
use forebay_speculation::channel::PathHint;
use forebay_speculation::signature::Signature;

use super::{State, hints, paths};

const LISTED_MAX: usize = 4096;
const TYPE_DIRECTORY: u8 = 4;
/// Where the fields of a `linux_dirent64` are.
const LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;
/// A program that opened so many directories is taken to descend into those that it finds.
const DESCENT_OPENS: u32 = 2;

/// The paths of directories that were hinted with the one that they are in, by their hashes.
pub struct Listed([u64; LISTED_MAX]);

impl Listed {
    fn place(&mut self, path: &[u8]) -> Option<(&mut u64, u64)> {
        let hash = Signature::call(0).bytes(path).value();
        Some((self.0.get_mut((hash >> 20) as usize % LISTED_MAX)?, hash))
    }

    fn add(&mut self, path: &[u8]) {
        if let Some((place, hash)) = self.place(path) {
            *place = hash;
        }
    }

    /// Whether the directory was hinted so.
    pub fn contains(&mut self, path: &[u8]) -> bool {
        self.place(path).is_some_and(|(place, hash)| *place == hash)
    }
}

/// Hints the directories among the entries that `getdents64` has put into `[buffer, buffer + length)`.
///
/// # Safety
/// The kernel has just filled the buffer.
pub unsafe fn hint_below(state: &mut State, descriptor: usize, buffer: usize, length: usize) {
    if state.directories_opened < DESCENT_OPENS {
        return;
    }
    let mut base = PathBuffer::<{ paths::BYTES }>::new();
    if !paths::directory_path(state, descriptor, &mut base) || !base.push(b"/") {
        return;
    }
    let mut at = 0;
    while at + NAME_AT < length {
        // SAFETY: the kernel's entries are whole, their names terminated.
        let (step, kind, name) = unsafe {
            let entry = (buffer + at) as *const u8;
            let step = entry.add(LENGTH_AT).cast::<u16>().read_unaligned();
            (usize::from(step), entry.add(TYPE_AT).read(), text::bytes(entry.add(NAME_AT)))
        };
        if step == 0 {
            return;
        }
        at += step;
        if kind != TYPE_DIRECTORY || name == b"." || name == b".." {
            continue;
        }
        let mut path = PathBuffer::<{ paths::BYTES }>::new();
        if path.push(base.as_bytes())
            && path.push(name)
            && hints::path(state, PathHint::Directory, path.as_bytes(), 0, 0).is_some()
        {
            state.listed.add(path.as_bytes());
        }
    }
}
