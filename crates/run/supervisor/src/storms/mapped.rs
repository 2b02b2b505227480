//! Which files a process has mapped, and which of their pages are in its page table.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
};

use forebay_policy::storm::{AREAS, BLOCK_PAGES, PAGE_BYTES, Seen, Storm};

/// A page is in the page table (in the kernel's documentation: pagemap).
const PRESENT: u64 = 1 << 63;
const ENTRY_BYTES: usize = 8;
/// Pages of a mapping whose entries are read: those of a GiB.
const TOUCHED_MAX: u64 = 1 << 18;

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// As the process's kernel calls it.
    pub path: Vec<u8>,
    /// Its inode.
    pub inode: u64,
    /// Where.
    pub parts: Vec<Part>,
}

/// Addresses, and the offset in the file of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    addresses: Range<u64>,
    offset: u64,
}

impl Mapped {
    /// The files of a process; `None` where it is gone or may not be looked at.
    pub fn of(process: u32) -> Option<Vec<Self>> {
        Some(Self::parse(&fs::read(format!("/proc/{process}/maps")).ok()?))
    }

    /// By the text of `/proc/PID/maps`.
    fn parse(maps: &[u8]) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        for Line { part, inode, path } in maps.split(|byte| *byte == b'\n').filter_map(line) {
            match files.iter_mut().find(|file| file.inode == inode && file.path == path) {
                Some(file) => file.parts.push(part),
                None => files.push(Self { path: path.to_vec(), inode, parts: vec![part] }),
            }
        }
        files
    }

    /// Bytes that are mapped.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Up to where it is mapped.
    pub fn end(&self) -> u64 {
        let end = |part: &Part| part.offset.saturating_add(part.bytes());
        self.parts.iter().map(end).max().unwrap_or(0)
    }

    /// What of a sample is in the page table of the process; `None` where that cannot be seen.
    pub fn see(&self, process: u32, storm: &Storm) -> Option<[Seen; AREAS]> {
        let page_map = File::open(format!("/proc/{process}/pagemap")).ok()?;
        let mut all = [Seen::default(); AREAS];
        for (area, seen) in all.iter_mut().enumerate() {
            for (block, offset) in storm.sample(area).enumerate() {
                let pages = self.address(offset).map_or(0, |address| present(&page_map, address));
                seen.pages += pages;
                seen.blocks |= u16::from(pages > 0) << block;
            }
        }
        Some(all)
    }

    fn address(&self, offset: u64) -> Option<u64> {
        self.parts.iter().find_map(|part| {
            let address = part.addresses.start.checked_add(offset.checked_sub(part.offset)?)?;
            part.addresses.contains(&address).then_some(address)
        })
    }
}

/// The page table of a process.
pub struct Touched(File);

impl Touched {
    /// `None` where the process is gone or may not be looked at.
    pub fn of(process: u32) -> Option<Self> {
        File::open(format!("/proc/{process}/pagemap")).ok().map(Self)
    }

    /// The numbers of the pages between these addresses that are in it, up to [`TOUCHED_MAX`] pages from the first.
    pub fn within(&self, addresses: Range<u64>) -> Vec<u64> {
        let (first, end) = (addresses.start / PAGE_BYTES, addresses.end.div_ceil(PAGE_BYTES));
        let mut entries = vec![0; end.saturating_sub(first).min(TOUCHED_MAX) as usize * ENTRY_BYTES];
        let length = self.0.read_at(&mut entries, first * ENTRY_BYTES as u64).unwrap_or(0);
        let entries = entries[..length].chunks_exact(ENTRY_BYTES);
        (first..).zip(entries).filter(|(_, entry)| is_present(entry)).map(|(page, _)| page).collect()
    }
}

fn is_present(entry: &[u8]) -> bool {
    entry.try_into().is_ok_and(|entry| u64::from_ne_bytes(entry) & PRESENT != 0)
}

/// Pages of the block at this address that are present.
fn present(page_map: &File, address: u64) -> u16 {
    let mut entries = [0; BLOCK_PAGES * ENTRY_BYTES];
    let Ok(length) = page_map.read_at(&mut entries, address / PAGE_BYTES * ENTRY_BYTES as u64) else {
        return 0;
    };
    entries[..length].chunks_exact(ENTRY_BYTES).filter(|entry| is_present(entry)).count() as u16
}

/// A line of `/proc/PID/maps`.
struct Line<'a> {
    part: Part,
    inode: u64,
    path: &'a [u8],
}

/// A line that is of a file which is still there.
fn line(line: &[u8]) -> Option<Line<'_>> {
    let (head, path) = line.split_at_checked(line.iter().position(|byte| *byte == b'/')?)?;
    let mut words = str::from_utf8(head).ok()?.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let addresses = number(start)?..number(end)?;
    let is_readable = words.next()?.starts_with('r');
    let offset = number(words.next()?)?;
    let inode = words.nth(1)?.parse().ok()?;
    let is_there = !path.starts_with(b"//") && !path.ends_with(b" (deleted)");
    let is_kept = is_readable && is_there && addresses.start < addresses.end;
    is_kept.then_some(Line { part: Part { addresses, offset }, inode, path })
}

impl Part {
    const fn bytes(&self) -> u64 {
        self.addresses.end - self.addresses.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_touched_are_told_from_others() {
        let mut memory = vec![0u8; 64 * PAGE_BYTES as usize];
        let start = memory.as_ptr().addr() as u64;
        let middle = start.next_multiple_of(PAGE_BYTES) + 32 * PAGE_BYTES;
        memory[(middle - start) as usize] = 1;
        let touched = Touched::of(std::process::id()).unwrap();
        assert_eq!(touched.within(middle..middle + 1), [middle / PAGE_BYTES]);
        assert!(touched.within(0..PAGE_BYTES).is_empty(), "nothing is mapped there");
        assert!(touched.within(middle..middle).is_empty());
    }

    #[test]
    fn parts_of_a_file_are_one_and_what_cannot_be_read_is_none() {
        let maps = b"\
            7f00000000-7f00200000 r--p 00000000 08:01 77 /data/a file\n\
            7f00200000-7f00300000 r-xs 00400000 08:01 77 /data/a file\n\
            7f00300000-7f00400000 ---p 00000000 08:01 78 /data/guard\n\
            7f00400000-7f00500000 r--p 00000000 08:01 79 /data/gone (deleted)\n\
            7f00500000-7f00600000 rw-p 00000000 00:00 0 \n\
            7f00600000-7f00700000 rw-p 00000000 00:00 0 [heap]\n\
            nonsense /data/x\n";
        let files = Mapped::parse(maps);
        let [file] = &files[..] else { panic!("{files:?}") };
        assert_eq!((&file.path[..], file.inode), (&b"/data/a file"[..], 77));
        assert_eq!((file.bytes(), file.end()), (3 << 20, 5 << 20));
        let address = |offset| file.address(offset);
        assert_eq!(address(0x1000), Some(0x7f_0000_1000));
        assert_eq!(address(0x40_0000), Some(0x7f_0020_0000));
        assert_eq!((address(0x20_0000), address(0x50_0000)), (None, None), "they are not mapped");
    }

    #[test]
    fn pages_of_this_program_are_seen() {
        let own = std::process::id();
        let program = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        let files = Mapped::of(own).unwrap();
        let file = files.iter().find(|file| file.path == program).unwrap();
        let seen = file.see(own, &Storm::new(file.end())).unwrap();
        let pages: u32 = seen.iter().map(|seen| u32::from(seen.pages)).sum();
        assert!(pages > 0 && u64::from(pages) * PAGE_BYTES <= file.bytes(), "{pages}");
    }

    #[test]
    fn a_process_that_is_gone_has_no_files() {
        assert_eq!(Mapped::of(u32::MAX), None);
    }
}
