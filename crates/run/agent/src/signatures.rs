//! Signatures of the calls that original and speculator compare.
//!
//! Reads of different files look alike, and descriptor numbers differ once a value was predicted. So each descriptor has a
//! tag. An open makes it from the path; each read at the file's own offset, and each seek, changes it. A seek to an absolute
//! offset makes the tag anew from that of the open. Both sides keep their tags; the speculator starts with a copy.
//!
//! A signature covers where a call reads, and not how much: programs size their buffers by contents and sizes of files, which
//! may be predicted values.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_protocol::signature::Signature;
use forebay_sigsafe::general as n;
use forebay_sigsafe::text;

use crate::call::Call;

const TAGS: usize = 1024;

static DESCRIPTOR_TAGS: [AtomicU64; TAGS] = [const { AtomicU64::new(0) }; TAGS];

/// As they were when the file was opened.
static FILE_TAGS: [AtomicU64; TAGS] = [const { AtomicU64::new(0) }; TAGS];

fn place(tags: &'static [AtomicU64; TAGS], descriptor: usize) -> &'static AtomicU64 {
    const { assert!(TAGS.is_power_of_two()) };
    tags.get(descriptor % TAGS).unwrap_or(&tags[0])
}

fn tag(descriptor: usize) -> &'static AtomicU64 {
    place(&DESCRIPTOR_TAGS, descriptor)
}

/// What tells the file of a descriptor, and what was done with it, apart: its tag, which does not depend on the number that
/// it got. One that was opened before anything was compared has only that.
fn identity(descriptor: usize) -> u64 {
    known(tag(descriptor), descriptor)
}

fn known(tag: &AtomicU64, descriptor: usize) -> u64 {
    match tag.load(Relaxed) {
        0 => descriptor as u64,
        tag => tag,
    }
}

/// Signature of a read-like call, which changes the tag of its descriptor.
pub fn read(call: &Call) -> u64 {
    let [a, b, _, d, ..] = call.arguments;
    let source = if call.number as u32 == n::__NR_sendfile { b } else { a };
    let signature = Signature::call(call.number as u64).word(identity(source));
    match call.number as u32 {
        n::__NR_pread64 | n::__NR_preadv | n::__NR_preadv2 => signature.word(d as u64).value(),
        _ => {
            tag(source).store(signature.value(), Relaxed);
            signature.value()
        }
    }
}

/// Takes note of a seek, which changes the tag of its descriptor; asking for the offset does not.
pub fn seek(call: &Call) {
    let [descriptor, offset, whence, ..] = call.arguments;
    let whence = whence as u32;
    let before = match whence {
        n::SEEK_CUR if offset == 0 => return,
        n::SEEK_SET => known(place(&FILE_TAGS, descriptor), descriptor),
        _ => identity(descriptor),
    };
    let signature = Signature::call(call.number as u64).word(before).word(offset as u64);
    tag(descriptor).store(signature.word(whence.into()).value(), Relaxed);
}

/// Signature of a call that maps a file. Its length may be a predicted value.
pub fn mapping(call: &Call) -> u64 {
    let [_, _, _, _, descriptor, offset] = call.arguments;
    Signature::call(call.number as u64).word(identity(descriptor)).word(offset as u64).value()
}

/// Signature of a call that takes a path: number, directory and path.
///
/// # Safety
/// The path can be read.
pub unsafe fn path(call: &Call) -> u64 {
    // SAFETY: the caller's.
    let (directory, path) = unsafe { path_of(call) };
    Signature::call(call.number as u64).word(directory as u32 as u64).bytes(path).value()
}

/// The directory of a call that takes a path, and where the path is.
pub fn place_of_path(call: &Call) -> (usize, *const u8) {
    let [a, b, ..] = call.arguments;
    let one = matches!(
        call.number as u32,
        n::__NR_open
            | n::__NR_creat
            | n::__NR_stat
            | n::__NR_lstat
            | n::__NR_access
            | n::__NR_readlink
            | n::__NR_chdir
            | n::__NR_chroot
    );
    if one { (n::AT_FDCWD as usize, a as *const u8) } else { (a, b as *const u8) }
}

/// The directory and the path of a call that takes one. Without a path it is empty.
///
/// # Safety
/// The path can be read, for as long as it is used.
pub unsafe fn path_of<'a>(call: &Call) -> (usize, &'a [u8]) {
    let (directory, path) = place_of_path(call);
    // SAFETY: the caller's.
    (directory, if path.is_null() { b"" } else { unsafe { text::bytes(path) } })
}

/// Takes note that the call with this signature has opened a descriptor.
pub fn opened(descriptor: usize, signature: u64) {
    tag(descriptor).store(signature, Relaxed);
    place(&FILE_TAGS, descriptor).store(signature, Relaxed);
}
