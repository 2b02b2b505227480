//! Puts a jump to its stub over each system-call site of the process's libc.

use core::sync::atomic::Ordering;

use forebay_protocol::layout::{CLONE3, Displaced, PatchTable, SITE_BYTES_MAX};
use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::entry;
use crate::objects::{self, ProgramHeaders};

const PAGE: usize = 4096;
const JUMP: u8 = 0xe9;
const NOTE_BUILD_ID: u32 = 3;
const PT_NOTE: u32 = 4;

/// Calls by which a program would find out of signals of ours, or lose them.
const OF_SIGNALS: [u32; 3] = [n::__NR_rt_sigaction, n::__NR_rt_sigprocmask, n::__NR_sigaltstack];

/// Calls that map, move and unmap memory.
const OF_MAPPINGS: [u32; 3] = [n::__NR_mmap, n::__NR_mremap, n::__NR_munmap];

/// What came of patching libc.
#[derive(Clone, Copy)]
pub struct Patched {
    /// The number of sites: 0 where the table is not of this libc, or its text cannot be written.
    pub sites: usize,
    /// Whether the program's calls on its signals are among them.
    pub signals: bool,
    /// Whether its calls that map, move and unmap memory are.
    pub mappings: bool,
}

const NOTHING: Patched = Patched { sites: 0, signals: false, mappings: false };

/// Patches libc.
///
/// # Safety
/// The process has one thread, and the loader's list of objects is complete.
pub unsafe fn apply(table: &PatchTable, headers: ProgramHeaders) -> Patched {
    // SAFETY: the caller's.
    let libc = unsafe { objects::loaded(headers) }.find(|object| object.is_libc());
    let Some(base) = libc.map(|libc| libc.bias) else { return NOTHING };
    // SAFETY: an object in the loader's list starts with its ELF header.
    if !unsafe { build_id_matches(base, table) } {
        return NOTHING;
    }
    let len = (table.len.load(Ordering::Relaxed) as usize).min(table.sites.len());
    let sites = || {
        let words = table.sites.iter().take(len).map(|word| word.load(Ordering::Relaxed));
        words.enumerate().filter_map(move |(index, word)| Site::new(index, base, word))
    };
    let addresses = || sites().map(|site| site.address);
    let (Some(lowest), Some(highest)) = (addresses().min(), addresses().max()) else { return NOTHING };
    let start = lowest & !(PAGE - 1);
    let end = (highest + SITE_BYTES_MAX).next_multiple_of(PAGE);
    // It stays executable while it is written: what refuses that (systemd's `MemoryDenyWriteExecute`, `PR_SET_MDWE`, SELinux)
    // refuses it now, and not when there is no way back.
    // SAFETY: the range is of libc's text.
    if unsafe { sys!(n::__NR_mprotect, start, end - start, n::PROT_READ | n::PROT_WRITE | n::PROT_EXEC) } != 0
    {
        return NOTHING;
    }
    let mut count = 0;
    let (mut of_signals, mut of_mappings) = ([false; OF_SIGNALS.len()], [false; OF_MAPPINGS.len()]);
    for site in sites() {
        // SAFETY: the site lies in the range that was made writable.
        if unsafe { patch(&site) } {
            count += 1;
            note(&mut of_signals, OF_SIGNALS, site.number);
            note(&mut of_mappings, OF_MAPPINGS, site.number);
        }
    }
    // SAFETY: as above. Where this is refused the text stays writable, and all goes on.
    unsafe {
        let _ = sys!(n::__NR_mprotect, start, end - start, n::PROT_READ | n::PROT_EXEC);
        // Keeps the range a mapping of its own. As a part of libc's whole text it would make every fork copy the
        // page table of all of it.
        let _ = sys!(n::__NR_madvise, start, end - start, n::MADV_NOHUGEPAGE);
    }
    let all = |seen: [bool; 3]| seen.iter().all(|seen| *seen);
    Patched { sites: count, signals: all(of_signals), mappings: all(of_mappings) }
}

/// Notes which of the calls has this number.
fn note<const N: usize>(seen: &mut [bool; N], calls: [u32; N], number: u16) {
    let with_number = seen.iter_mut().zip(calls).filter(|(_, call)| *call == number.into());
    with_number.for_each(|(seen, _)| *seen = true);
}

/// A word of the table.
struct Site {
    index: usize,
    address: usize,
    displaced: Displaced,
    number: u16,
}

impl Site {
    fn new(index: usize, base: usize, word: u64) -> Option<Self> {
        let displaced = Displaced::from_u8((word >> 32) as u8)?;
        Some(Self { index, address: base + (word as u32) as usize, displaced, number: (word >> 40) as u16 })
    }
}

/// # Safety
/// The site is in writable memory, and no other thread runs.
unsafe fn patch(site: &Site) -> bool {
    let length = site.displaced.site_len();
    let origin = site.address + length;
    let stub = match site.number {
        CLONE3 => entry::clone3_stub(origin),
        _ => Some(entry::stub(site.index, site.displaced)),
    };
    let Some(stub) = stub else { return false };
    let Ok(distance) = i32::try_from((stub as isize).wrapping_sub(site.address as isize + 5)) else {
        return false;
    };
    // SAFETY: the caller's.
    unsafe {
        let bytes = core::slice::from_raw_parts(site.address as *const u8, length);
        if !bytes.iter().eq(site.displaced.site_code(site.number).iter().take(length)) {
            return false;
        }
        entry::connect(site.index, origin, site.displaced, site.number);
        let to = site.address as *mut u8;
        to.write(JUMP);
        to.add(1).cast::<i32>().write_unaligned(distance);
        for rest in 5..length {
            to.add(rest).write(0x90);
        }
    }
    true
}

/// # Safety
/// A loaded ELF object starts at `base`.
unsafe fn build_id_matches(base: usize, table: &PatchTable) -> bool {
    let len = table.build_id_len.load(Ordering::Relaxed) as usize;
    if len == 0 || len > table.build_id.len() {
        return false;
    }
    // SAFETY: program headers and notes of a loaded object are mapped.
    unsafe {
        let Some(program) = objects::headers_at(base) else { return false };
        for notes in program.iter().filter(|header| header.p_type == PT_NOTE) {
            let mut at = base + notes.p_vaddr;
            let end = at + notes.p_memsz;
            while at + 12 <= end {
                let [name, description, kind] = (at as *const [u32; 3]).read_unaligned();
                let contents = at + 12 + (name as usize).next_multiple_of(4);
                if kind == NOTE_BUILD_ID && name == 4 && description as usize == len {
                    let id = core::slice::from_raw_parts(contents as *const u8, len);
                    return id.iter().zip(&table.build_id).all(|(a, b)| *a == b.load(Ordering::Relaxed));
                }
                at = contents + (description as usize).next_multiple_of(4);
            }
        }
    }
    false
}
