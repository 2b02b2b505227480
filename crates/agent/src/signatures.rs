//! Signatures of the calls that original and speculator compare.
//!
//! Reads of different files look alike (same descriptor, same count), so each descriptor has a tag: made by the path that
//! was opened, changed by every read at the file's own offset. Both sides keep theirs; the speculator starts with a
//! copy of the original's.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_sigsafe::general as n;
use forebay_sigsafe::text;
use forebay_speculation::signature::Signature;

use crate::entry::Call;

const TAGS: usize = 1024;

static DESCRIPTOR_TAGS: [AtomicU64; TAGS] = [const { AtomicU64::new(0) }; TAGS];

fn tag(descriptor: usize) -> &'static AtomicU64 {
    const { assert!(TAGS.is_power_of_two()) };
    DESCRIPTOR_TAGS.get(descriptor % TAGS).unwrap_or(&DESCRIPTOR_TAGS[0])
}

/// Signature of a read-like call, which changes the tag of its descriptor.
pub fn read(call: &Call) -> u64 {
    let [a, b, c, d, ..] = call.arguments;
    let signature = Signature::call(call.number as u64).word(a as u64).word(c as u64);
    match call.number as u32 {
        n::__NR_pread64 | n::__NR_preadv | n::__NR_preadv2 => {
            signature.word(d as u64).word(tag(a).load(Relaxed)).value()
        }
        n::__NR_sendfile | n::__NR_copy_file_range => signature.word(b as u64).value(),
        _ => {
            let value = signature.word(tag(a).load(Relaxed)).value();
            tag(a).store(value, Relaxed);
            value
        }
    }
}

/// Signature of a call that takes a path: number, directory and path.
///
/// # Safety
/// The path can be read.
pub unsafe fn path(call: &Call) -> u64 {
    let [a, b, ..] = call.arguments;
    let one = matches!(
        call.number as u32,
        n::__NR_open | n::__NR_creat | n::__NR_stat | n::__NR_lstat | n::__NR_access | n::__NR_readlink
    );
    let (directory, path) = if one { (n::AT_FDCWD as usize, a) } else { (a, b) };
    let signature = Signature::call(call.number as u64).word(directory as u32 as u64);
    if path == 0 {
        return signature.value();
    }
    // SAFETY: the caller's.
    signature.bytes(unsafe { text::bytes(path as *const u8) }).value()
}

/// Takes note that the call with this signature has opened a descriptor.
pub fn opened(descriptor: usize, signature: u64) {
    tag(descriptor).store(signature, Relaxed);
}
