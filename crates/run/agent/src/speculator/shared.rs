//! Shared mappings of the original, made private in its speculator before any of the program's code runs there.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::price::SHARED_BYTES_MAX;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{general as n, memory, sys, text};

use super::jail::Refused;
use super::memory::{PAGE, in_core, private_pages};
use super::{State, kernel};
use crate::{attributes, session};

/// Longest list of mappings that is read.
const LIST_BYTES: usize = 256 << 10;
/// Pages looked at together.
const BATCH: usize = 64;

static LIST: Turn<[u8; LIST_BYTES]> = Turn::new([0; LIST_BYTES]);
/// All readers of the list are alike.
const READER: usize = 1;

/// The list of this process's mappings, as it was when it was read; the only one while it lives.
pub struct List {
    bytes: Held<'static, [u8; LIST_BYTES]>,
    len: usize,
}

impl List {
    /// Reads it; an error where it is too long.
    pub fn read() -> Result<Self, Refused> {
        let mut bytes = LIST.enter(READER).ok_or(Refused)?;
        let buffer = bytes.as_mut_ptr();
        let mut len = 0;
        // SAFETY: a terminated path, and a buffer as large as the calls are told, which is this reader's.
        let complete = unsafe {
            let flags = n::O_RDONLY | n::O_CLOEXEC;
            let fd = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/maps".as_ptr(), flags);
            let complete = loop {
                let read = sys!(n::__NR_pread64, fd, buffer.add(len), LIST_BYTES - len, len);
                if read <= 0 {
                    break read == 0 && len < LIST_BYTES;
                }
                len += read as usize;
            };
            kernel::close(fd);
            complete
        };
        if complete { Ok(Self { bytes, len }) } else { Err(Refused) }
    }

    /// The mappings; a line that is none is an error.
    pub fn mappings(&self) -> impl Iterator<Item = Result<Mapping<'_>, Refused>> {
        let lines = self.bytes.get(..self.len).unwrap_or_default().split(|&byte| byte == b'\n');
        lines.filter(|line| !line.is_empty()).map(|line| Mapping::parse(line).ok_or(Refused))
    }
}

/// A line of `/proc/self/maps`.
pub struct Mapping<'a> {
    pub start: usize,
    pub end: usize,
    permissions: &'a [u8],
    pub offset: usize,
    /// As the list of mounts has it.
    pub device: u64,
    pub inode: u64,
    pub path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Reads a line.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (start, rest) = text::parse_hexadecimal(line)?;
        let (end, rest) = text::parse_hexadecimal(rest.strip_prefix(b"-")?)?;
        let rest = rest.strip_prefix(b" ")?;
        let (permissions, rest) = rest.split_at_checked(4)?;
        let (offset, rest) = text::parse_hexadecimal(rest.strip_prefix(b" ")?)?;
        let mut words = rest.strip_prefix(b" ")?.splitn(2, |&byte| byte == b' ');
        let (major, minor) = text::parse_hexadecimal(words.next()?)?;
        let (minor, _) = text::parse_hexadecimal(minor.strip_prefix(b":")?)?;
        let (inode, path) = text::parse_decimal(words.next()?)?;
        let spaces = path.iter().take_while(|&&byte| byte == b' ').count();
        let path = path.get(spaces..).unwrap_or_default();
        Some(Self {
            start: start as usize,
            end: end as usize,
            permissions,
            offset: offset as usize,
            device: attributes::device(major as u32, minor as u32),
            inode,
            path,
        })
    }

    /// Whether the permission's letter is in its place.
    pub fn has(&self, index: usize, permission: u8) -> bool {
        self.permissions.get(index) == Some(&permission)
    }

    /// The permissions as mmap(2) takes them.
    pub fn protection(&self) -> u32 {
        let bit = |index, permission, bit| if self.has(index, permission) { bit } else { 0 };
        bit(0, b'r', n::PROT_READ) | bit(1, b'w', n::PROT_WRITE) | bit(2, b'x', n::PROT_EXEC)
    }
}

/// Replaces every shared mapping but the session's by a private one with the same contents, as far as they are in memory.
pub fn make_private(state: &mut State) -> Result<(), Refused> {
    let list = List::read()?;
    let mut copied = 0;
    for mapping in list.mappings() {
        let mapping = mapping?;
        if mapping.has(3, b's') && !session::owns(mapping.start) {
            // SAFETY: the mapping is replaced in place.
            unsafe { replace(state, &mapping, &mut copied)? };
        }
    }
    Ok(())
}

/// # Safety
/// The mapping is of this process, and shared.
unsafe fn replace(state: &mut State, mapping: &Mapping<'_>, copied: &mut usize) -> Result<(), Refused> {
    let length = mapping.end - mapping.start;
    let anonymous = n::MAP_PRIVATE | n::MAP_ANONYMOUS | n::MAP_NORESERVE;
    // SAFETY: the caller's; fixed mappings replace just this range.
    unsafe {
        if !mapping.has(0, b'r') {
            // What cannot be read holds nothing for the program.
            let flags = anonymous | n::MAP_FIXED;
            let result = sys!(n::__NR_mmap, mapping.start, length, n::PROT_NONE, flags, usize::MAX, 0);
            return if result < 0 { Err(Refused) } else { Ok(()) };
        }
        if map_file(mapping, length) {
            return Ok(());
        }
        *copied += length;
        if *copied > SHARED_BYTES_MAX {
            state.slot.shares_too_much.store(1, Relaxed);
            return Err(Refused);
        }
        let copy = memory::map_private(length);
        if copy < 0 {
            return Err(Refused);
        }
        copy_resident(state, mapping.start, copy as usize, length);
        let _ = sys!(n::__NR_mprotect, copy, length, mapping.protection());
        let flags = n::MREMAP_MAYMOVE | n::MREMAP_FIXED;
        let moved = sys!(n::__NR_mremap, copy, length, length, flags, mapping.start);
        if moved < 0 { Err(Refused) } else { Ok(()) }
    }
}

/// Copies the pages that are in memory. The others stay blank: to wait for them all would take longer than what comes of it.
///
/// # Safety
/// Both ranges are this process's own, and so long.
unsafe fn copy_resident(state: &mut State, from: usize, to: usize, length: usize) {
    for at in (0..length).step_by(BATCH * PAGE) {
        let part = (length - at).min(BATCH * PAGE);
        let resident = in_core::<BATCH>(from + at, part / PAGE);
        for (index, _) in resident.iter().enumerate().take(part / PAGE).filter(|(_, byte)| **byte & 1 != 0) {
            private_pages::account(state, PAGE);
            let page = at + index * PAGE;
            // SAFETY: the caller's.
            unsafe { memory::copy((to + page) as *mut u8, (from + page) as *const u8, PAGE) };
        }
    }
}

/// Maps the same file privately, where its path still leads to it.
///
/// # Safety
/// As [`replace`].
unsafe fn map_file(mapping: &Mapping<'_>, length: usize) -> bool {
    let Some(file) = open_mapped(mapping) else { return false };
    let flags = n::MAP_PRIVATE | n::MAP_FIXED | n::MAP_NORESERVE;
    // SAFETY: the caller's.
    let result = unsafe {
        sys!(n::__NR_mmap, mapping.start, length, mapping.protection(), flags, file, mapping.offset)
    };
    kernel::close(file);
    result >= 0
}

/// Opens the file of a mapping for reading, if it is a regular one and its path still leads to it.
pub fn open_mapped(mapping: &Mapping<'_>) -> Option<isize> {
    let mut path = PathBuffer::<1024>::new();
    if mapping.path.first() != Some(&b'/') || !path.push(mapping.path) {
        return None;
    }
    // SAFETY: the path is terminated. O_PATH first: it could be a device by now.
    unsafe {
        let found = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_PATH | n::O_CLOEXEC);
        if found < 0 {
            return None;
        }
        let stat = attributes::of(found);
        kernel::close(found);
        let same =
            stat.is_some_and(|stat| stat.st_mode & n::S_IFMT == n::S_IFREG && stat.st_ino == mapping.inode);
        if !same {
            return None;
        }
        let flags = n::O_RDONLY | n::O_CLOEXEC | n::O_NONBLOCK;
        let file = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), flags);
        (file >= 0).then_some(file)
    }
}
