//! Limits the memory that this program's own code takes of a control group that it shares with the program it watches.
//!
//! # Safety
//! The function here is safe to call: its advice does not change the contents of memory.
#![allow(unsafe_code, reason = "advice on the mappings of our own code, whose bounds the linker defines")]

use std::{fs::File, ptr};

/// What of this program's own code and constants will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCode {
    /// Any of it.
    Any,
    /// The same few pages again and again.
    Few,
}

/// The most of its own code that this program reads for one page of it where few are used, in bytes.
const OWN_PIECE: usize = 16 << 10;

/// Tells the kernel what will be used of this program's own file.
///
/// What is in memory of it is charged to a group of the program that we watch: all that was needed to start, and what the
/// kernel read around that. Where only few pages are used all of that goes, unless another process has it mapped, and what is
/// needed comes back in pieces.
pub fn expect(own: OwnCode) {
    unsafe extern "C" {
        /// The first byte of the executable, and the one after its code; the linker defines both.
        static __executable_start: u8;
        static etext: u8;
    }
    let page = rustix::param::page_size();
    let from = (&raw const __executable_start).addr() / page * page;
    let to = (&raw const etext).addr() / page * page;
    let advise = |from: usize, length, advice| {
        // SAFETY: the range is of mappings of the executable that are never written to, so no advice changes what it
        // holds. An older kernel refuses some, which is no harm.
        let _ = unsafe { libc::madvise(ptr::without_provenance_mut(from), length, advice) };
    };
    if own == OwnCode::Any {
        [libc::MADV_DODUMP, libc::MADV_NORMAL].into_iter().for_each(|advice| advise(from, to - from, advice));
        return;
    }
    // Whatever order is expected, code is read up to the end of its mapping (Linux 6.16): so there are many, told apart by
    // whether a core dump would hold them.
    for piece in (from..to).step_by(2 * OWN_PIECE) {
        advise(piece, OWN_PIECE.min(to - piece), libc::MADV_DONTDUMP);
    }
    // The second breaks up what the kernel read in large folios, of which each would stay whole.
    for advice in [libc::MADV_RANDOM, libc::MADV_COLD, libc::MADV_DONTNEED] {
        advise(from, to - from, advice);
    }
    if let Ok(file) = File::open("/proc/self/exe") {
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The length in bytes of the mapping that `address` is in, and whether the kernel expects no order in what is used of it.
    fn mapping_of(address: usize) -> (usize, bool) {
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut length = None;
        for line in text.lines() {
            let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds =
                bounds.map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
            if let Some((Ok(from), Ok(to))) = bounds {
                length = (from..to).contains(&address).then(|| to - from);
            }
            if let (Some(flags), Some(length)) = (line.strip_prefix("VmFlags:"), length) {
                return (length, flags.split(' ').any(|flag| flag == "rr"));
            }
        }
        panic!("{address:x} is nowhere in\n{text}");
    }

    #[test]
    fn own_code_goes_and_comes_back() {
        let own = expect as fn(OwnCode) as usize;
        let (length, in_no_order) = mapping_of(own);
        assert!(length > OWN_PIECE && !in_no_order);
        expect(OwnCode::Few);
        let (piece, in_no_order) = mapping_of(own);
        assert!(piece <= OWN_PIECE && in_no_order, "{piece}");
        expect(OwnCode::Any);
        assert_eq!(mapping_of(own), (length, false));
    }
}
