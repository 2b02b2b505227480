//! What an ELF file of a program or library says to the dynamic loader (elf(5)), and which parts of it are touched first.

use object::{
    LittleEndian as LE,
    elf::{
        DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, Dyn64, ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64,
        FileHeader64, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, ProgramHeader64,
    },
    pod,
};

use super::{super::fetch::CHUNK_BYTES, Library, search::Searched};

/// What holds the program headers of most files. Tools that change a linked file put them elsewhere.
const HEAD_BYTES: usize = 4096;
/// Longer program headers are not looked at.
const HEADERS_BYTES_MAX: usize = 1 << 16;
/// More of a dynamic section is not looked at.
const DYNAMIC_BYTES_MAX: u64 = 64 << 10;
/// More names of one file are not looked at.
const NEEDED_MAX: usize = 1024;
const PAGE_BYTES: u64 = 4096;
/// Longest name or search path.
const TEXT_BYTES: usize = 1024;

/// What of a file's code is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// What runs before the program begins, and at its end.
    Ends,
    Whole,
}

/// Reads what a file says. `read` fills a buffer from an offset and says how far. `None` of a file that the loader does not take.
pub fn read(code: Code, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<Library> {
    let mut head = vec![0; HEAD_BYTES];
    let length = read(0, &mut head);
    head.truncate(length);
    let segments = Segments::new(&program_headers(&head, &read)?);
    let (mapped, started) = (segments.written(), segments.run_first(code));
    let rest = segments.rest(code);
    let mut library = Library { mapped, started, rest, ..Library::default() };
    // A static program needs no library.
    let Some((offset, length)) = segments.dynamic else { return Some(library) };
    let mut dynamic = vec![0; usize::try_from(length.min(DYNAMIC_BYTES_MAX)).ok()?];
    let length = read(offset, &mut dynamic);
    dynamic.truncate(length - length % size_of::<Dyn64<LE>>());
    let entries = || {
        let entries = pod::slice_from_all_bytes::<Dyn64<LE>>(&dynamic).unwrap_or_default().iter();
        entries.map(|entry| (entry.d_tag.get(LE), entry.d_val.get(LE))).take_while(|(tag, _)| *tag != 0)
    };
    let of =
        |wanted: u32| entries().filter(move |(tag, _)| *tag == u64::from(wanted)).map(|(_, value)| value);
    let Some(strings) = of(DT_STRTAB).next().and_then(|address| segments.offset_of(address)) else {
        return Some(library);
    };
    let text = |at: u64| -> Option<Box<[u8]>> {
        let mut bytes = [0; TEXT_BYTES];
        let length = read(strings.checked_add(at)?, &mut bytes);
        let end = bytes.get(..length)?.iter().position(|byte| *byte == 0)?;
        Some(bytes.get(..end)?.into())
    };
    library.needed =
        of(DT_NEEDED).take(NEEDED_MAX).filter_map(text).filter(|name| !name.is_empty()).collect();
    library.searched =
        Searched::new(of(DT_RPATH).next().and_then(text), of(DT_RUNPATH).next().and_then(text));
    Some(library)
}

/// The segments of a file.
struct Segments {
    loads: Vec<Load>,
    /// Offset and length.
    dynamic: Option<(u64, u64)>,
}

struct Load {
    offset: u64,
    address: u64,
    bytes: u64,
    flags: u32,
}

/// The program headers of the file that begins so; `None` where it is none for this machine's loader.
fn program_headers(head: &[u8], read: impl Fn(u64, &mut [u8]) -> usize) -> Option<Vec<ProgramHeader64<LE>>> {
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(head).ok()?;
    let ident = &header.e_ident;
    let is_ours = ident.magic == ELFMAG
        && ident.class == ELFCLASS64
        && ident.data == ELFDATA2LSB
        && header.e_machine.get(LE) == EM_X86_64;
    let entry_bytes = usize::from(header.e_phentsize.get(LE));
    let length = usize::from(header.e_phnum.get(LE)) * entry_bytes;
    if !is_ours || entry_bytes < size_of::<ProgramHeader64<LE>>() || length > HEADERS_BYTES_MAX {
        return None;
    }
    let offset = header.e_phoff.get(LE);
    let in_head = |start: usize| head.get(start..start.checked_add(length)?);
    let headers = match usize::try_from(offset).ok().and_then(in_head) {
        Some(headers) => headers.to_vec(),
        None => {
            let mut headers = vec![0; length];
            let length = read(offset, &mut headers);
            headers.truncate(length);
            headers
        }
    };
    let header = |entry| pod::from_bytes::<ProgramHeader64<LE>>(entry).ok().map(|(header, _)| *header);
    headers.chunks_exact(entry_bytes).map(header).collect()
}

impl Segments {
    fn new(headers: &[ProgramHeader64<LE>]) -> Self {
        let mut segments = Self { loads: Vec::new(), dynamic: None };
        for header in headers {
            let (offset, bytes) = (header.p_offset.get(LE), header.p_filesz.get(LE));
            match header.p_type.get(LE) {
                PT_LOAD => segments.loads.push(Load {
                    offset,
                    address: header.p_vaddr.get(LE),
                    bytes,
                    flags: header.p_flags.get(LE),
                }),
                PT_DYNAMIC => segments.dynamic = Some((offset, bytes)),
                _ => {}
            }
        }
        segments
    }

    /// What is relocated. The loader clears the rest of its last page as soon as it is mapped.
    fn written(&self) -> Vec<(u64, u64)> {
        let written = self.loads.iter().filter(|load| load.flags & PF_W != 0 && load.bytes > 0);
        written.map(|load| (load.offset, load.bytes)).collect()
    }

    /// Symbols and relocations, which lie in the first segment, and code: linkers put what runs first at its beginning, and
    /// what runs at the end of the program there.
    fn run_first(&self, code: Code) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        for (index, load) in self.loads.iter().enumerate().filter(|(_, load)| load.flags & PF_W == 0) {
            let (is_code, end) = (load.flags & PF_X != 0, load.offset.saturating_add(load.bytes));
            if is_code && code == Code::Ends && load.bytes > CHUNK_BYTES {
                parts.push((load.offset, CHUNK_BYTES));
                parts.push((end.saturating_sub(1) & !(PAGE_BYTES - 1), PAGE_BYTES));
            } else if (is_code || index == 0) && load.bytes > 0 {
                parts.push((load.offset, load.bytes));
            }
        }
        parts
    }

    /// What is never written, and lies between the parts that run first.
    fn rest(&self, code: Code) -> Vec<(u64, u64)> {
        let first = self.run_first(code);
        let end = |(offset, length): &(u64, u64)| offset.saturating_add(*length);
        let mut parts = Vec::new();
        for load in self.loads.iter().filter(|load| load.flags & PF_W == 0) {
            let (mut at, load_end) = (load.offset, load.offset.saturating_add(load.bytes));
            for part in first.iter().filter(|(offset, _)| (load.offset..load_end).contains(offset)) {
                parts.push((at, part.0.saturating_sub(at)));
                at = at.max(end(part));
            }
            parts.push((at, load_end.saturating_sub(at)));
        }
        parts.retain(|(_, length)| *length > 0);
        parts
    }

    /// Where in the file the address is.
    fn offset_of(&self, address: u64) -> Option<u64> {
        self.loads.iter().find_map(|load| {
            let into = address.checked_sub(load.address).filter(|into| *into < load.bytes)?;
            load.offset.checked_add(into)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::FileExt};

    use forebay_testkit::elf::headers_last;

    use super::*;

    fn read_bytes(bytes: &[u8]) -> Option<Library> {
        read(Code::Ends, |offset, buffer| {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            let rest = rest.unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            length
        })
    }

    #[test]
    fn this_program_needs_the_c_library() {
        let file = File::open("/proc/self/exe").unwrap();
        let read = |code| read(code, |offset, buffer| file.read_at(buffer, offset).unwrap_or(0)).unwrap();
        let library = read(Code::Ends);
        let needed: Vec<_> = library.needed.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert!(needed.iter().any(|name| name == "libc.so.6"), "{needed:?}");
        assert_eq!(library.started[0].0, 0);
        assert!(!library.mapped.is_empty() && library.started.len() >= 3, "{library:?}");
        let bytes = |parts: &[(u64, u64)]| parts.iter().map(|(_, length)| length).sum::<u64>();
        let whole = read(Code::Whole);
        assert!(bytes(&whole.started) > bytes(&library.started) + (1 << 20));
        // The last page of the code is not always whole.
        let all = |library: &Library| bytes(&library.started) + bytes(&library.rest);
        assert!(all(&whole).abs_diff(all(&library)) < PAGE_BYTES, "{} {}", all(&whole), all(&library));
    }

    #[test]
    fn program_headers_may_lie_anywhere() {
        let bytes = std::fs::read("/bin/true").unwrap();
        let (library, mut bytes) = (read_bytes(&bytes).unwrap(), headers_last(&bytes));
        let moved = read_bytes(&bytes).unwrap();
        assert_eq!((moved.needed, moved.mapped), (library.needed, library.mapped));
        bytes[32..40].fill(0xff);
        assert_eq!(read_bytes(&bytes), Some(Library::default()), "of one without headers nothing is known");
    }

    #[test]
    fn a_file_that_is_cut_or_garbled_is_read_without_harm() {
        let whole = std::fs::read("/bin/true").unwrap();
        let expected = read_bytes(&whole).unwrap();
        assert!(!expected.needed.is_empty());
        for length in (0..whole.len()).step_by(61) {
            let _ = read_bytes(&whole[..length]);
        }
        for index in (0..whole.len().min(4096)).chain((4096..whole.len()).step_by(31)) {
            let mut bytes = whole.clone();
            bytes[index] ^= 0xff;
            let _ = read_bytes(&bytes);
        }
        assert_eq!(read_bytes(b"#!/bin/sh\n"), None);
    }
}
