//! Puts a jump to its stub over each system-call site of the process's libc.

use core::sync::atomic::Ordering;

use forebay_sigsafe::elf::{Elf_Ehdr, Elf_Phdr};
use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;
use forebay_speculation::channel::{Displaced, PatchTable};

use crate::entry;
use crate::objects::{self, ProgramHeaders};

const PAGE: usize = 4096;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const JUMP: u8 = 0xe9;
const NOTE_BUILD_ID: u32 = 3;
const PT_NOTE: u32 = 4;

/// Patches libc; the number of sites, 0 where the table is not of this libc or its text cannot be written.
///
/// # Safety
/// The process has one thread, and the loader's list of objects is complete.
pub unsafe fn apply(table: &PatchTable, headers: ProgramHeaders) -> usize {
    // SAFETY: the caller's.
    let libc = unsafe { objects::loaded(headers) }.find(|object| object.is_libc());
    let Some(base) = libc.map(|libc| libc.bias) else { return 0 };
    // SAFETY: an object in the loader's list starts with its ELF header.
    if !unsafe { build_id_matches(base, table) } {
        return 0;
    }
    let len = (table.len.load(Ordering::Relaxed) as usize).min(table.sites.len());
    let sites = || {
        table.sites.iter().take(len).enumerate().filter_map(move |(index, word)| {
            let word = word.load(Ordering::Relaxed);
            Some((index, base + (word as u32) as usize, Displaced::from_u8((word >> 32) as u8)?))
        })
    };
    let (Some(lowest), Some(highest)) = (sites().map(|site| site.1).min(), sites().map(|site| site.1).max())
    else {
        return 0;
    };
    let start = lowest & !(PAGE - 1);
    let end = (highest + SYSCALL.len() + 6 + PAGE - 1) & !(PAGE - 1);
    // SAFETY: the range is of libc's text; no other thread runs in it while it is not executable.
    unsafe {
        if sys!(n::__NR_mprotect, start, end - start, n::PROT_READ | n::PROT_WRITE) != 0 {
            let _ = sys!(n::__NR_mprotect, start, end - start, n::PROT_READ | n::PROT_EXEC);
            return 0;
        }
    }
    let mut patched = 0;
    for (index, site, displaced) in sites() {
        // SAFETY: the site lies in the range that was made writable.
        patched += usize::from(unsafe { patch(index, site, displaced) });
    }
    // SAFETY: as above. A refusal leaves text that cannot be executed: nothing could go on, so try again.
    unsafe {
        while sys!(n::__NR_mprotect, start, end - start, n::PROT_READ | n::PROT_EXEC) != 0 {}
        // Keeps the range a mapping of its own. As a part of libc's whole text it would make every fork copy the
        // page table of all of it.
        let _ = sys!(n::__NR_madvise, start, end - start, n::MADV_NOHUGEPAGE);
    }
    patched
}

/// # Safety
/// `site` is in writable memory that nobody executes now.
unsafe fn patch(index: usize, site: usize, displaced: Displaced) -> bool {
    let length = SYSCALL.len() + displaced.bytes().len();
    let distance = (entry::stub(index) as isize).wrapping_sub(site as isize + 5);
    let Ok(distance) = i32::try_from(distance) else { return false };
    // SAFETY: the caller's.
    unsafe {
        let bytes = core::slice::from_raw_parts(site as *const u8, length);
        let expected = SYSCALL.iter().chain(displaced.bytes());
        if !bytes.iter().eq(expected) {
            return false;
        }
        entry::connect(index, site + length, displaced as u8);
        let to = site as *mut u8;
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
        let header = &*(base as *const Elf_Ehdr);
        let program =
            core::slice::from_raw_parts((base + header.e_phoff) as *const Elf_Phdr, header.e_phnum as usize);
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
