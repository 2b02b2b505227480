//! The objects that the dynamic loader has loaded into this process.

use core::ffi::CStr;

use forebay_sigsafe::elf::{
    Elf_Dyn, Elf_Ehdr, Elf_Phdr, Elf_Rela, Elf_Sym, PT_DYNAMIC, PT_GNU_RELRO, PT_LOAD, PT_PHDR,
};
use forebay_sigsafe::text;

const DT_DEBUG: isize = 21;
const PAGE: usize = 4096;

/// Where the program's headers are, from the kernel's auxiliary vector.
#[derive(Clone, Copy)]
pub struct ProgramHeaders {
    pub address: usize,
    pub count: usize,
    /// The path that was executed, terminated; null where the kernel does not tell.
    pub program: *const u8,
}

impl ProgramHeaders {
    /// Memory that the program's file asks for.
    pub fn memory_bytes(self) -> usize {
        // SAFETY: the kernel's, of the program that runs.
        let headers = unsafe { core::slice::from_raw_parts(self.address as *const Elf_Phdr, self.count) };
        headers.iter().filter(|header| header.p_type == PT_LOAD).map(|header| header.p_memsz).sum()
    }
}

/// What the dynamic loader says of a loaded object (link.h).
#[repr(C)]
pub struct Object {
    /// Difference between its addresses and those in its file.
    pub bias: usize,
    name: *const u8,
    dynamic: *const Elf_Dyn,
    next: *const Object,
    previous: *const Object,
}

#[repr(C)]
struct LoaderDebug {
    version: i32,
    map: *const Object,
}

/// The loaded objects, the program first.
///
/// # Safety
/// `headers` are the program's, and the loader changes its list no more while it is walked.
pub unsafe fn loaded(headers: ProgramHeaders) -> impl Iterator<Item = &'static Object> {
    // SAFETY: the structures are the loader's and stay while the process lives.
    let mut next = unsafe { first(headers) };
    core::iter::from_fn(move || {
        let object = next?;
        // SAFETY: above.
        next = unsafe { object.next.as_ref() };
        Some(object)
    })
}

/// # Safety
/// As [`loaded`].
unsafe fn first(headers: ProgramHeaders) -> Option<&'static Object> {
    // SAFETY: the caller's.
    unsafe {
        let program = core::slice::from_raw_parts(headers.address as *const Elf_Phdr, headers.count);
        let own = program.iter().find(|header| header.p_type == PT_PHDR)?;
        let bias = headers.address.wrapping_sub(own.p_vaddr);
        let dynamic = program.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let entries = bias.wrapping_add(dynamic.p_vaddr) as *const Elf_Dyn;
        let debug = find(entries, DT_DEBUG)? as *const LoaderDebug;
        debug.as_ref()?.map.as_ref()
    }
}

/// # Safety
/// `entries` is a dynamic section.
unsafe fn find(entries: *const Elf_Dyn, tag: isize) -> Option<usize> {
    let mut entry = entries;
    // SAFETY: the section ends with a null entry.
    unsafe {
        while (*entry).d_tag != 0 {
            if (*entry).d_tag as isize == tag {
                return Some((*entry).d_un.d_val as usize);
            }
            entry = entry.add(1);
        }
    }
    None
}

impl Object {
    /// File name, empty for the program itself.
    pub fn name(&self) -> &'static [u8] {
        // SAFETY: the loader's string, which lives as long as the object.
        if self.name.is_null() { &[] } else { unsafe { text::bytes(self.name) } }
    }

    /// Whether it is glibc.
    pub fn is_libc(&self) -> bool {
        self.name().ends_with(b"/libc.so.6") || self.name() == b"libc.so.6"
    }

    /// A value of its dynamic section.
    pub fn value(&self, tag: isize) -> Option<usize> {
        // SAFETY: the loader keeps the section mapped.
        if self.dynamic.is_null() { None } else { unsafe { find(self.dynamic, tag) } }
    }

    /// An address of its dynamic section, which the loader has relocated in all but the vDSO.
    pub fn address(&self, tag: isize) -> Option<usize> {
        self.value(tag).filter(|address| *address > self.bias)
    }

    /// Whether it is glibc's dynamic loader.
    pub fn is_loader(&self) -> bool {
        self.name().ends_with(b"/ld-linux-x86-64.so.2")
    }

    /// The address of a function or variable that it defines.
    pub fn symbol(&self, name: &CStr) -> Option<usize> {
        const DT_STRTAB: isize = 5;
        const DT_SYMTAB: isize = 6;
        const DT_GNU_HASH: isize = 0x6fff_fef5;
        let (strings, symbols) = (self.address(DT_STRTAB)?, self.address(DT_SYMTAB)? as *const Elf_Sym);
        let table = self.address(DT_GNU_HASH)? as *const u32;
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        // SAFETY: the loader found symbols by these tables; a chain ends with an odd hash.
        unsafe {
            let [buckets, offset, filters, _shift] = table.cast::<[u32; 4]>().read();
            let bucket_words = table.add(4 + filters as usize * 2);
            let chains = bucket_words.add(buckets as usize);
            let mut index = bucket_words.add((hash % buckets.max(1)) as usize).read();
            if index < offset {
                return None;
            }
            loop {
                let chained = chains.add((index - offset) as usize).read();
                let symbol = symbols.add(index as usize).read();
                let defined = symbol.st_shndx != 0 && symbol.st_value != 0;
                let named = text::bytes((strings + symbol.st_name as usize) as *const u8) == name.to_bytes();
                if chained | 1 == hash | 1 && defined && named {
                    return Some(self.bias.wrapping_add(symbol.st_value));
                }
                if chained & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// The name of each symbol that it takes from others by a slot that holds its address, and the slot.
    pub fn imports(&self) -> impl Iterator<Item = (&'static [u8], *mut usize)> {
        const DT_STRTAB: isize = 5;
        const DT_SYMTAB: isize = 6;
        const RELOCATIONS: [(isize, isize); 2] = [(23, 2), (7, 8)];
        const SLOT: u32 = 7;
        const ADDRESS: u32 = 6;
        let bias = self.bias;
        let tables = self.address(DT_STRTAB).zip(self.address(DT_SYMTAB));
        RELOCATIONS
            .into_iter()
            .filter_map(|(table, bytes)| self.address(table).zip(self.value(bytes)))
            .flat_map(|(table, bytes)| {
                (0..bytes / size_of::<Elf_Rela>()).map(move |index| table + index * size_of::<Elf_Rela>())
            })
            .filter_map(move |at| {
                let (strings, symbols) = tables?;
                // SAFETY: the loader resolved symbols by these tables.
                unsafe {
                    let relocation = (at as *const Elf_Rela).read();
                    if !matches!(relocation.type_(), SLOT | ADDRESS) {
                        return None;
                    }
                    let symbol = (symbols as *const Elf_Sym).add((relocation.r_info >> 32) as usize).read();
                    let name = text::bytes((strings + symbol.st_name as usize) as *const u8);
                    Some((name, bias.wrapping_add(relocation.r_offset) as *mut usize))
                }
            })
    }

    /// Whether the loader made the address read-only after it had relocated the object, if that is known. `program` are the
    /// program's headers.
    pub fn is_read_only(&self, address: usize, program: ProgramHeaders) -> Option<bool> {
        let is_relro = |header: &&Elf_Phdr| header.p_type == PT_GNU_RELRO;
        Some(self.headers(program)?.iter().filter(is_relro).any(|relro| {
            let begin = self.bias.wrapping_add(relro.p_vaddr);
            // Of its last page the loader leaves a part that is shared with other data alone.
            (begin & !(PAGE - 1)..(begin + relro.p_memsz) & !(PAGE - 1)).contains(&address)
        }))
    }

    /// Its program headers. The first page of a program may lie at an address that only the kernel tells.
    fn headers(&self, program: ProgramHeaders) -> Option<&'static [Elf_Phdr]> {
        if self.name().is_empty() {
            // SAFETY: the kernel found the headers there.
            return Some(unsafe {
                core::slice::from_raw_parts(program.address as *const Elf_Phdr, program.count)
            });
        }
        // SAFETY: the loader's.
        unsafe { headers_at(self.bias) }
    }
}

/// The program headers of the library at `base`. `None` where they lie behind its first page, as tools put them that change a linked
/// library: only its file tells where they are mapped, if at all.
///
/// # Safety
/// A loaded library starts there with its ELF header.
pub unsafe fn headers_at(base: usize) -> Option<&'static [Elf_Phdr]> {
    // SAFETY: the caller's.
    let header = unsafe { &*(base as *const Elf_Ehdr) };
    let count = usize::from(header.e_phnum);
    let end = header.e_phoff.checked_add(count * size_of::<Elf_Phdr>())?;
    if end > PAGE {
        return None;
    }
    // SAFETY: in the page of the ELF header.
    Some(unsafe { core::slice::from_raw_parts((base + header.e_phoff) as *const Elf_Phdr, count) })
}
