//! The parts of an ELF library that say where code is and where control may arrive in it.

use std::collections::BTreeMap;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use object::{Endianness, ReadRef};

use super::{BUILD_ID_BYTES_MAX, PatchError, Within};

type Header = elf::FileHeader64<Endianness>;

/// Executable bytes that a library may have.
const CODE_BYTES_MAX: u64 = 64 << 20;
/// Segments that a library may have.
const SEGMENTS_MAX: u64 = 64;
/// Symbols of [`Image::special`] functions that are taken note of: each has a few versions.
const SPECIAL_MAX: usize = 32;
/// Sections that a library may have.
const SECTIONS_MAX: u64 = 1024;
/// Symbols, relocations, unwind entries and landing pads that a library may have, all together.
const RECORDS_MAX: u64 = 4 << 20;
/// Common information entries of the unwind table that a library may have.
const CIES_MAX: u64 = 4096;

/// A stretch of memory that the file fills.
pub struct Segment<'data> {
    pub address: u64,
    pub data: &'data [u8],
    pub executable: bool,
    pub writable: bool,
}

impl Segment<'_> {
    pub fn range(&self) -> Range<u64> {
        self.address..self.address + self.data.len() as u64
    }
}

/// A function that the unwind table or a symbol describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub range: Range<u64>,
    /// Its landing pads could not be read.
    pub unclear: bool,
}

/// A library, taken apart.
pub struct Image<'data> {
    /// Link-time address of what becomes the load address.
    pub base: u64,
    pub build_id: Vec<u8>,
    /// In ascending order of address, none overlaps another.
    pub segments: Vec<Segment<'data>>,
    /// In ascending order of address, none overlaps another.
    pub functions: Vec<Function>,
    /// Addresses of code that tables of the file mention.
    pub arrivals: Vec<u64>,
    /// Functions with a meaning of their own.
    pub special: Vec<(Range<u64>, Within)>,
}

fn malformed(what: &'static str) -> impl Fn(object::Error) -> PatchError {
    move |error| PatchError::Malformed { what, found: error.to_string() }
}

/// Counts records, so that tables that overlap cannot make the work longer than the file.
struct Budget(u64);

impl Budget {
    fn spend(&mut self, records: u64) -> Result<(), PatchError> {
        self.0 = self.0.saturating_add(records);
        at_most("symbols, relocations and unwind entries", RECORDS_MAX, self.0)
    }
}

fn at_most(what: &'static str, limit: u64, found: u64) -> Result<(), PatchError> {
    if found > limit { Err(PatchError::TooLarge { what, limit, found }) } else { Ok(()) }
}

/// Reads and checks the file header.
fn header<'data, R: ReadRef<'data>>(data: R) -> Result<(&'data Header, Endianness), PatchError> {
    let header = Header::parse(data).map_err(malformed("file header"))?;
    let endian = header.endian().map_err(malformed("file header"))?;
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 || endian != Endianness::Little {
        let found = format!("{machine}");
        return Err(PatchError::Unsupported { what: "machine", needs: "62 (x86-64)", found });
    }
    let kind = header.e_type(endian);
    if kind != elf::ET_DYN {
        let found = format!("{kind}");
        return Err(PatchError::Unsupported { what: "type", needs: "3 (shared object)", found });
    }
    Ok((header, endian))
}

/// Finds the build-id in as much of the file as `data` gives access to.
pub fn build_id<'data, R: ReadRef<'data>>(data: R) -> Result<Vec<u8>, PatchError> {
    let (header, endian) = header(data)?;
    let segments = header.program_headers(endian, data).map_err(malformed("program headers"))?;
    at_most("segments", SEGMENTS_MAX, segments.len() as u64)?;
    for segment in segments {
        // Notes that cannot be read may be other notes than the one that is looked for.
        let Ok(Some(mut notes)) = segment.notes(endian, data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                let id = note.desc();
                if id.is_empty() {
                    break;
                }
                at_most("bytes in its build-id", BUILD_ID_BYTES_MAX as u64, id.len() as u64)?;
                return Ok(id.to_vec());
            }
        }
    }
    Err(PatchError::Missing { what: "build-id" })
}

impl<'data> Image<'data> {
    /// Takes a whole file apart.
    pub fn parse(data: &'data [u8]) -> Result<Self, PatchError> {
        let (header, endian) = header(data)?;
        let build_id = build_id(data)?;
        let (base, segments) = segments(header, endian, data)?;
        let mut image = Self {
            base,
            build_id,
            segments,
            functions: Vec::new(),
            arrivals: Vec::new(),
            special: Vec::new(),
        };
        let mut budget = Budget(0);
        image.add_pointers(&mut budget)?;
        let mut named = image.read_sections(header, endian, data, &mut budget)?;
        image.add_functions(&mut named);
        Ok(image)
    }

    /// The addresses from the first to the last executable byte.
    pub fn code_span(&self) -> Range<u64> {
        let mut code = self.segments.iter().filter(|segment| segment.executable);
        let Some(first) = code.next() else { return 0..0 };
        first.address..code.next_back().unwrap_or(first).range().end
    }

    /// The kind of function that the address is in.
    pub fn within(&self, address: u64) -> Within {
        let special = self.special.iter().find(|(range, _)| range.contains(&address));
        special.map_or(Within::Other, |(_, within)| *within)
    }

    fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.range().contains(&address))
    }

    fn bytes_from(&self, address: u64) -> Option<&'data [u8]> {
        let segment = self.segments.iter().find(|segment| segment.range().contains(&address))?;
        segment.data.get((address - segment.address) as usize..)
    }

    /// Every aligned word in writable data whose value is the address of code may be a relocated pointer. This
    /// covers relocations that keep their addend in place, in whichever encoding they are listed.
    fn add_pointers(&mut self, budget: &mut Budget) -> Result<(), PatchError> {
        let span = self.code_span();
        for segment in self.segments.iter().filter(|segment| segment.writable) {
            budget.spend(segment.data.len() as u64 / 8)?;
            let skip = (segment.address.wrapping_neg() & 7) as usize;
            let words = segment.data.get(skip..).unwrap_or_default().chunks_exact(8);
            let values = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            self.arrivals.extend(values.filter(|value| span.contains(value)));
        }
        Ok(())
    }

    /// Reads symbols, relocations and the unwind table. Gives the functions that symbols describe; those of the
    /// unwind table go to `self.functions`.
    fn read_sections(
        &mut self,
        header: &Header,
        endian: Endianness,
        data: &'data [u8],
        budget: &mut Budget,
    ) -> Result<Vec<Function>, PatchError> {
        let sections = header.sections(endian, data).map_err(malformed("section headers"))?;
        let mut named = Vec::new();
        let mut unwind = false;
        at_most("sections", SECTIONS_MAX, sections.len() as u64)?;
        for (index, section) in sections.enumerate() {
            match section.sh_type(endian) {
                elf::SHT_DYNSYM | elf::SHT_SYMTAB => {
                    let table =
                        object::read::elf::SymbolTable::parse(endian, data, &sections, index, section)
                            .map_err(malformed("symbol table"))?;
                    budget.spend(table.len() as u64)?;
                    let names = sections
                        .section(table.string_section())
                        .and_then(|section| section.data(endian, data))
                        .map_err(malformed("symbol names"))?;
                    for symbol in table.iter() {
                        self.add_symbol(symbol, names, endian, &mut named);
                    }
                }
                elf::SHT_RELA => {
                    let Some((entries, _)) = section.rela(endian, data).map_err(malformed("relocations"))?
                    else {
                        continue;
                    };
                    budget.spend(entries.len() as u64)?;
                    for entry in entries {
                        // An addend that counts from a symbol is a small number and harms nothing here.
                        self.arrivals.push(entry.r_addend(endian) as u64);
                    }
                }
                _ if sections.section_name(endian, section) == Ok(b".eh_frame") => {
                    let table = section.data(endian, data).map_err(malformed("unwind table"))?;
                    self.read_unwind_table(section.sh_addr(endian), table, budget)?;
                    unwind = true;
                }
                _ => {}
            }
        }
        if unwind { Ok(named) } else { Err(PatchError::Missing { what: "unwind table (.eh_frame)" }) }
    }

    fn add_symbol(
        &mut self,
        symbol: &elf::Sym64<Endianness>,
        names: &[u8],
        endian: Endianness,
        named: &mut Vec<Function>,
    ) {
        let address = symbol.st_value(endian);
        if symbol.st_shndx(endian) == elf::SHN_UNDEF || !self.is_code(address) {
            return;
        }
        self.arrivals.push(address);
        if !matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) {
            return;
        }
        let range = address..address.saturating_add(symbol.st_size(endian));
        let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
        // Longer names are of no interest, and a damaged table may have one that never ends.
        let name = name.iter().take(16).position(|byte| *byte == 0).map_or(&[][..], |len| &name[..len]);
        let within = Within::from_name(name);
        if within != Within::Other && self.special.len() < SPECIAL_MAX {
            self.special.push((range.clone(), within));
        }
        named.push(Function { range, unclear: false });
    }

    fn read_unwind_table(
        &mut self,
        address: u64,
        table: &[u8],
        budget: &mut Budget,
    ) -> Result<(), PatchError> {
        let damaged =
            |error: gimli::Error| PatchError::Malformed { what: "unwind table", found: error.to_string() };
        let frames = EhFrame::new(table, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut cies = BTreeMap::new();
        let own = address..address.saturating_add(table.len() as u64);
        let mut entries = frames.entries(&bases);
        while let Some(entry) = entries.next().map_err(damaged)? {
            budget.spend(1)?;
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|frames, bases, offset| {
                if let Some(cie) = cies.get(&offset.0) {
                    return Ok(Clone::clone(cie));
                }
                let cie = frames.cie_from_offset(bases, offset)?;
                cies.insert(offset.0, cie.clone());
                Ok(cie)
            });
            let fde = parsed.map_err(damaged)?;
            at_most("common entries in its unwind table", CIES_MAX, cies.len() as u64)?;
            let start = fde.initial_address();
            let range = start..start.saturating_add(fde.len());
            let unclear = match fde.lsda() {
                None => false,
                // Zero stands for none whatever the encoding, but one relative to its own place moves it there.
                Some(gimli::Pointer::Direct(lsda)) if lsda == 0 || own.contains(&lsda) => false,
                Some(gimli::Pointer::Direct(lsda)) => self.add_landing_pads(start, lsda, budget)?.is_none(),
                Some(gimli::Pointer::Indirect(_)) => true,
            };
            self.functions.push(Function { range, unclear });
        }
        Ok(())
    }

    /// Adds the landing pads that the language-specific data at `lsda` lists for the function at `start`. `None`
    /// where it cannot be read. Layout: Itanium C++ ABI, exception handling tables.
    fn add_landing_pads(
        &mut self,
        start: u64,
        lsda: u64,
        budget: &mut Budget,
    ) -> Result<Option<()>, PatchError> {
        let Some(bytes) = self.bytes_from(lsda) else { return Ok(None) };
        let mut pads = Vec::new();
        let complete = landing_pads(bytes, start, &mut |pad| {
            pads.push(pad);
            budget.spend(1)
        });
        self.arrivals.append(&mut pads);
        match complete {
            Ok(()) => Ok(Some(())),
            Err(Damage::Unreadable) => Ok(None),
            Err(Damage::Endless(error)) => Err(error),
        }
    }

    /// Puts all functions in order, those of the unwind table before those of symbols, cut so that none overlaps.
    fn add_functions(&mut self, named: &mut Vec<Function>) {
        let code: Vec<Range<u64>> =
            self.segments.iter().filter(|segment| segment.executable).map(Segment::range).collect();
        let inside = |function: &Function| {
            code.iter().any(|code| code.contains(&function.range.start) && function.range.end <= code.end)
        };
        self.functions.retain(|function| !function.range.is_empty() && inside(function));
        self.functions.sort_by_key(|function| (function.range.start, function.range.end));
        self.arrivals.extend(self.functions.iter().map(|function| function.range.start));

        named.retain(|function| !function.range.is_empty() && inside(function));
        named.retain(|function| {
            let after = self.functions.partition_point(|other| other.range.start < function.range.end);
            self.functions[..after].last().is_none_or(|other| other.range.end <= function.range.start)
        });
        self.functions.append(named);
        self.functions.sort_by_key(|function| (function.range.start, function.range.end));
        self.functions.dedup_by(|later, kept| {
            let same = later.range.start == kept.range.start;
            if same {
                kept.range.end = kept.range.end.max(later.range.end);
                kept.unclear |= later.unclear;
            }
            same
        });
        for index in 1..self.functions.len() {
            let next = self.functions[index].range.start;
            let earlier = &mut self.functions[index - 1].range;
            earlier.end = earlier.end.min(next);
        }
    }
}

/// The loaded segments and the address that the load address stands for.
fn segments<'data>(
    header: &Header,
    endian: Endianness,
    data: &'data [u8],
) -> Result<(u64, Vec<Segment<'data>>), PatchError> {
    let headers = header.program_headers(endian, data).map_err(malformed("program headers"))?;
    let loaded = headers.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    at_most("segments", SEGMENTS_MAX, headers.len() as u64)?;
    let mut segments = Vec::new();
    let mut bytes = 0;
    for segment in loaded {
        let content = segment.data(endian, data).map_err(|()| PatchError::Malformed {
            what: "segment",
            found: "beyond the end of the file".into(),
        })?;
        bytes += content.len() as u64;
        let flags = segment.p_flags(endian);
        segments.push(Segment {
            address: segment.p_vaddr(endian),
            data: content,
            executable: flags & elf::PF_X != 0,
            writable: flags & elf::PF_W != 0,
        });
    }
    let Some(first) = segments.first() else { return Err(PatchError::Missing { what: "loaded segment" }) };
    let base = first.address & !0xfff;
    // The loader wants segments in ascending order too. Apart from each other in memory, and no more bytes than
    // the file has: this bounds all work on their content.
    let mut end = base;
    for segment in &segments {
        let next = segment.address.checked_add(segment.data.len() as u64);
        let Some(next) = next.filter(|_| segment.address >= end) else {
            let found = format!("at {:#x}, before the end of another", segment.address);
            return Err(PatchError::Malformed { what: "segment", found });
        };
        end = next;
    }
    if bytes > data.len() as u64 {
        let found = format!("{bytes} bytes in segments of a file of {}", data.len());
        return Err(PatchError::Malformed { what: "segments", found });
    }
    at_most("bytes to map", u64::from(u32::MAX), end - base)?;
    let mut code = segments.iter().filter(|segment| segment.executable).map(Segment::range);
    if let Some(first) = code.next() {
        let last = code.next_back().map_or(first.end, |last| last.end);
        at_most("bytes of code", CODE_BYTES_MAX, last - first.start)?;
    }
    Ok((base, segments))
}

enum Damage {
    Unreadable,
    Endless(PatchError),
}

impl From<gimli::Error> for Damage {
    fn from(_: gimli::Error) -> Self {
        Self::Unreadable
    }
}

/// Calls `found` with the address of each landing pad of the function at `start`.
fn landing_pads(
    lsda: &[u8],
    start: u64,
    found: &mut dyn FnMut(u64) -> Result<(), PatchError>,
) -> Result<(), Damage> {
    use gimli::Reader;
    let mut reader = EndianSlice::new(lsda, LittleEndian);
    if reader.read_u8()? != gimli::DW_EH_PE_omit.0 {
        // Pads counted from elsewhere than the function's start: no compiler of C makes them.
        return Err(Damage::Unreadable);
    }
    if reader.read_u8()? != gimli::DW_EH_PE_omit.0 {
        reader.read_uleb128()?;
    }
    let encoding = gimli::DwEhPe(reader.read_u8()?);
    let len = reader.read_uleb128()?;
    let mut table = EndianSlice::new(reader.slice(), LittleEndian);
    table.truncate(usize::try_from(len).map_err(|_| Damage::Unreadable)?)?;
    let field = |table: &mut EndianSlice<'_, LittleEndian>| -> Result<u64, Damage> {
        Ok(match encoding {
            gimli::DW_EH_PE_uleb128 => table.read_uleb128()?,
            gimli::DW_EH_PE_udata2 => u64::from(table.read_u16()?),
            gimli::DW_EH_PE_udata4 => u64::from(table.read_u32()?),
            gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_absptr => table.read_u64()?,
            _ => return Err(Damage::Unreadable),
        })
    };
    while !table.is_empty() {
        let (_from, _len, pad) = (field(&mut table)?, field(&mut table)?, field(&mut table)?);
        table.read_uleb128()?;
        if pad != 0 {
            found(start.wrapping_add(pad)).map_err(Damage::Endless)?;
        }
    }
    Ok(())
}
