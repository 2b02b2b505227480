//! What an executable file, and its environment, ask of the loader: by program headers (elf(5)) of 64-bit little-endian files.

/// Bytes of one program header.
pub const PROGRAM_HEADER_BYTES: usize = 56;
/// What is read of a dynamic section at most: what the linker puts in front of the relocations.
pub const DYNAMIC_BYTES: usize = 1024;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Address sanitizers as libraries: they end a program in which another library was loaded before them.
const SANITIZERS: [&[u8]; 3] = [b"libasan.so", b"libhwasan.so", b"libclang_rt.asan"];
const NAME_BYTES: usize = 32;

/// Whether the first library that the file needs refuses to be loaded after another. `headers` are its program headers, and
/// `read` fills a buffer from an offset of the file and says how far; `dynamic` is room to do so.
pub fn needs_to_be_first(
    headers: &[u8],
    dynamic: &mut [u8; DYNAMIC_BYTES],
    mut read: impl FnMut(u64, &mut [u8]) -> usize,
) -> bool {
    name_of_first(headers, dynamic, &mut read)
        .is_some_and(|name| SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer)))
}

/// Beginnings of variables by which the loader reports what it loads (ld.so(8)). No other variable of its begins so.
const REPORTS: [&[u8]; 2] = [b"LD_DEBUG=", b"LD_TRACE_LO"];

/// Whether the environment's entry that begins so asks the loader for a report, in which an agent would be listed.
pub fn asks_for_report(start: &[u8]) -> bool {
    REPORTS.iter().any(|report| start.starts_with(report))
}

fn name_of_first(
    headers: &[u8],
    dynamic: &mut [u8; DYNAMIC_BYTES],
    read: &mut impl FnMut(u64, &mut [u8]) -> usize,
) -> Option<[u8; NAME_BYTES]> {
    let headers = || headers.chunks_exact(PROGRAM_HEADER_BYTES);
    let of_kind = |kind| move |header: &&[u8]| word(header, 0).map(|word| word & 0xffff_ffff) == Some(kind);
    let section = headers().find(of_kind(PT_DYNAMIC))?;
    let length = usize::try_from(word(section, 32)?).ok()?.min(DYNAMIC_BYTES);
    let length = read(word(section, 8)?, dynamic.get_mut(..length)?).min(length);
    let entries = || dynamic.get(..length).unwrap_or_default().chunks_exact(16);
    let value = |tag| {
        let entry = entries().find(|entry| word(entry, 0) == Some(tag))?;
        word(entry, 8)
    };
    let (name, strings) = (value(DT_NEEDED)?, value(DT_STRTAB)?);
    let at = headers().filter(of_kind(PT_LOAD)).find_map(|header| {
        let (offset, address, bytes) = (word(header, 8)?, word(header, 16)?, word(header, 32)?);
        let into = strings.checked_sub(address).filter(|into| *into < bytes)?;
        offset.checked_add(into)?.checked_add(name)
    })?;
    let mut bytes = [0; NAME_BYTES];
    (read(at, &mut bytes) > 0).then_some(bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    /// A file of two segments, loaded at 0x400000, that needs this library first, and libc; and its program headers.
    fn file(first: &str) -> (Vec<u8>, Vec<u8>) {
        let (dynamic, strings) = (0x200usize, 0x400usize);
        let mut bytes = vec![0; 0x600];
        let mut put = |at: usize, words: &[u64]| {
            for (index, word) in words.iter().enumerate() {
                bytes[at + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
            }
        };
        put(dynamic, &[DT_NEEDED, 1, DT_NEEDED, 40, 12, 0, DT_STRTAB, 0x40_0000 + strings as u64, 0, 0]);
        bytes[strings + 1..][..first.len()].copy_from_slice(first.as_bytes());
        bytes[strings + 40..][..9].copy_from_slice(b"libc.so.6");
        let header = |kind: u64, offset: u64| {
            [kind, offset, 0x40_0000 + offset, 0, 0x600 - offset, 0, 0].map(u64::to_le_bytes).concat()
        };
        (bytes, [header(PT_DYNAMIC, dynamic as u64), header(PT_LOAD, 0)].concat())
    }

    fn check(bytes: &[u8], headers: &[u8]) -> bool {
        needs_to_be_first(headers, &mut [0; DYNAMIC_BYTES], |offset, buffer| {
            let rest =
                usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            length
        })
    }

    #[test]
    fn a_report_is_asked_for_by_its_variables_alone() {
        for entry in ["LD_DEBUG=", "LD_DEBUG=libs", "LD_TRACE_LOADED_OBJECTS=1"] {
            assert!(asks_for_report(entry.as_bytes()), "{entry}");
        }
        for entry in ["LD_DEBUG_OUTPUT=a", "LD_PRELOAD=a", "PATH=LD_DEBUG=", ""] {
            assert!(!asks_for_report(entry.as_bytes()), "{entry}");
        }
    }

    #[test]
    fn a_sanitizer_wants_to_be_first_and_others_do_not_care() {
        for (first, wants) in
            [("libasan.so.8", true), ("libclang_rt.asan-x86_64.so", true), ("libm.so.6", false)]
        {
            let (bytes, headers) = file(first);
            assert_eq!(check(&bytes, &headers), wants, "{first}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_garbled_is_none_of_them() {
        let (bytes, headers) = file("libasan.so.8");
        for length in 0..bytes.len().min(0x401) {
            assert!(!check(&bytes[..length], &headers));
        }
        for length in 0..headers.len() {
            assert!(!check(&bytes, &headers[..length]));
        }
        let (mut bytes, headers) = (bytes, headers);
        bytes[0x200..0x240].fill(0xff);
        assert!(!check(&bytes, &headers));
        assert!(!check(&bytes, &[0xff; 2 * PROGRAM_HEADER_BYTES]));
    }
}
