//! A small shared object around code of choice, for tests of the decoder. Addresses equal positions in the file.
#![allow(dead_code, reason = "no test uses all of it")]

use std::ops::Range;

/// Where the code is.
pub const TEXT: u64 = 0x1000;
/// The build-id.
pub const BUILD_ID: [u8; 20] = *b"0123456789abcdefghij";

/// What the shared object consists of. All addresses count from the start of the code.
#[derive(Clone, Debug, Default)]
pub struct Library {
    code: Vec<u8>,
    functions: Vec<(Range<u64>, Option<Vec<u8>>)>,
    symbols: Vec<(&'static str, Range<u64>)>,
    pointers: Vec<u64>,
    addends: Vec<u64>,
}

impl Library {
    /// A library without anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// One with a single function.
    pub fn of(code: &[u8]) -> Self {
        Self::new().function(code)
    }

    /// Adds a function that the unwind table describes.
    pub fn function(self, code: &[u8]) -> Self {
        self.described(code, None)
    }

    /// Adds a function with landing pads.
    pub fn with_landing_pads(self, code: &[u8], lsda: &[u8]) -> Self {
        self.described(code, Some(lsda.to_vec()))
    }

    fn described(mut self, code: &[u8], lsda: Option<Vec<u8>>) -> Self {
        let start = self.code.len() as u64;
        self.functions.push((start..start + code.len() as u64, lsda));
        self.loose(code)
    }

    /// Adds code that nothing describes.
    pub fn loose(mut self, code: &[u8]) -> Self {
        self.code.extend(code);
        self
    }

    /// Adds a symbol for a function.
    pub fn symbol(mut self, name: &'static str, range: Range<u64>) -> Self {
        self.symbols.push((name, range));
        self
    }

    /// Adds a word of data that points into the code.
    pub fn pointer(mut self, to: u64) -> Self {
        self.pointers.push(to);
        self
    }

    /// Adds a relocation that points into the code.
    pub fn relocation(mut self, to: u64) -> Self {
        self.addends.push(to);
        self
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        let mut file = vec![0; TEXT as usize];
        file.extend(&self.code);
        align(&mut file, 0x1000);
        let rest = file.len() as u64;

        let lsdas: Vec<Option<u64>> =
            self.functions.iter().map(|(_, lsda)| Some(put(&mut file, lsda.as_ref()?))).collect();
        align(&mut file, 8);
        let eh_frame = file.len() as u64;
        let cie = eh_frame;
        // Length, id, version 1, augmentation zLR, code alignment 1, data alignment -8, return address 16, two bytes
        // of encodings (both relative to their place, signed 4 bytes), padding.
        file.extend(b"\x14\0\0\0\0\0\0\0\x01zLR\0\x01\x78\x10\x02\x1b\x1b\0\0\0\0\0");
        for ((range, _), lsda) in self.functions.iter().zip(lsdas) {
            let start = file.len() as u64;
            file.extend(20u32.to_le_bytes());
            file.extend(((start + 4 - cie) as u32).to_le_bytes());
            file.extend(((TEXT + range.start) as u32).wrapping_sub(start as u32 + 8).to_le_bytes());
            file.extend(((range.end - range.start) as u32).to_le_bytes());
            file.push(4);
            file.extend(lsda.map_or(0, |lsda| (lsda as u32).wrapping_sub(start as u32 + 17)).to_le_bytes());
            file.extend([0; 3]);
        }
        file.extend([0; 4]);
        let eh_frame = eh_frame..file.len() as u64;

        let mut names = vec![0];
        align(&mut file, 8);
        let dynsym = file.len() as u64;
        file.extend([0; 24]);
        for (name, range) in &self.symbols {
            file.extend((names.len() as u32).to_le_bytes());
            names.extend(name.as_bytes());
            names.push(0);
            // Global function, default visibility, in section 1.
            file.extend([0x12, 0, 1, 0]);
            file.extend((TEXT + range.start).to_le_bytes());
            file.extend((range.end - range.start).to_le_bytes());
        }
        let dynsym = dynsym..file.len() as u64;
        let dynstr = put(&mut file, &names);
        let dynstr = dynstr..file.len() as u64;
        align(&mut file, 8);
        let rela = file.len() as u64;
        for addend in &self.addends {
            file.extend([0; 8]);
            file.extend(8u64.to_le_bytes());
            file.extend((TEXT + addend).to_le_bytes());
        }
        let rela = rela..file.len() as u64;
        let section_names = b"\0.eh_frame\0";
        let shstrtab = put(&mut file, section_names);
        let shstrtab = shstrtab..file.len() as u64;
        let rest = rest..file.len() as u64;
        align(&mut file, 0x1000);
        let data = file.len() as u64;
        for pointer in &self.pointers {
            file.extend((TEXT + pointer).to_le_bytes());
        }
        let data = data..file.len() as u64;

        align(&mut file, 8);
        let sections = file.len() as u64;
        let code = TEXT..TEXT + self.code.len() as u64;
        for (name, kind, link, size, range) in [
            (0, 0, 0, 0, &(0..0)),
            (0, 1, 0, 0, &code),
            (1, 1, 0, 0, &eh_frame),
            (0, 11, 4, 24, &dynsym),
            (0, 3, 0, 0, &dynstr),
            (0, 4, 3, 24, &rela),
            (0, 3, 0, 0, &shstrtab),
        ] {
            for word in [name as u32, kind] {
                file.extend(word.to_le_bytes());
            }
            for word in [2, range.start, range.start, range.end - range.start] {
                file.extend(word.to_le_bytes());
            }
            for word in [link as u32, 0] {
                file.extend(word.to_le_bytes());
            }
            for word in [8u64, size] {
                file.extend(word.to_le_bytes());
            }
        }
        self.head(&mut file, sections, &[(4, 0..0x300), (5, code), (4, rest), (6, data)]);
        file
    }

    fn head(&self, file: &mut [u8], sections: u64, loaded: &[(u32, Range<u64>)]) {
        let mut head = Vec::new();
        head.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0");
        for word in [0, 64, sections] {
            head.extend(u64::to_le_bytes(word));
        }
        head.extend([0, 0, 0, 0, 64, 0, 56, 0, loaded.len() as u8 + 1, 0, 64, 0, 7, 0, 6, 0]);
        let note = 0x200..0x200 + 16 + BUILD_ID.len() as u64;
        for (kind, flags, range) in
            loaded.iter().map(|(flags, range)| (1u32, *flags, range)).chain([(4, 4, &note)])
        {
            head.extend(kind.to_le_bytes());
            head.extend(flags.to_le_bytes());
            let len = range.end - range.start;
            for word in [range.start, range.start, range.start, len, len, 4] {
                head.extend(word.to_le_bytes());
            }
        }
        file[..head.len()].copy_from_slice(&head);
        let mut note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0".to_vec();
        note.extend(BUILD_ID);
        file[0x200..0x200 + note.len()].copy_from_slice(&note);
    }
}

fn align(file: &mut Vec<u8>, to: usize) {
    file.resize(file.len().next_multiple_of(to), 0);
}

fn put(file: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    let start = file.len() as u64;
    file.extend(bytes);
    start
}
