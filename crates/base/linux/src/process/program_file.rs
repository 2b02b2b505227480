//! The file of a program: what interprets it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, FileHeader32, FileHeader64, PT_INTERP, ProgramHeader64,
};
use object::pod;

/// Bytes of the file that are read at once; the kernel reads the interpreter line from the first 256.
const HEAD_BYTES: usize = 4096;
const SCRIPT_LINE_BYTES: usize = 256;
const HEADERS_BYTES_MAX: usize = 64 << 10;
const LOADER_BYTES: std::ops::RangeInclusive<usize> = 2..=4096;

/// A program's file, and its first page.
#[derive(Debug)]
pub struct ProgramFile {
    file: File,
    head: Vec<u8>,
}

/// What an ELF file says of its start (elf(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elf {
    /// It is not for x86-64.
    OtherMachine,
    /// It names no loader.
    Static,
    /// A loader starts it.
    Dynamic {
        /// The loader's path.
        loader: PathBuf,
        /// The program headers as they lie in the file; empty where they are longer than usual.
        headers: Vec<u8>,
    },
}

impl ProgramFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        // O_NONBLOCK: a FIFO in place of a program must not stop us.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        let mut head = vec![0; HEAD_BYTES];
        let length = file.read_at(&mut head, 0)?;
        head.truncate(length);
        Ok(Self { file, head })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The interpreter that a script names; `None` where the file is no script.
    #[must_use]
    pub fn script_interpreter(&self) -> Option<PathBuf> {
        let line = self.head.strip_prefix(b"#!")?;
        let line = &line[..line.len().min(SCRIPT_LINE_BYTES - 2)];
        let line = line.split(|byte| matches!(byte, b'\n' | 0)).next()?;
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        Some(PathBuf::from(OsStr::from_bytes(words.next()?)))
    }

    /// Whether a shell would run the file as a script of its own, even without `#!`. As bash decides: no zero byte in the
    /// first line of the first 80 bytes.
    #[must_use]
    pub fn is_text(&self) -> bool {
        let start = &self.head[..self.head.len().min(80)];
        !start.split(|byte| *byte == b'\n').next().unwrap_or_default().contains(&0)
            && !start.starts_with(&ELFMAG)
    }

    /// What an ELF file says; `None` where it is no such file, or a broken one.
    #[must_use]
    pub fn elf(&self) -> Option<Elf> {
        // The same in a file of either class.
        let ident = &pod::from_bytes::<FileHeader32<LE>>(&self.head).ok()?.0.e_ident;
        if ident.magic != ELFMAG {
            return None;
        }
        if ident.class != ELFCLASS64 || ident.data != ELFDATA2LSB {
            return Some(Elf::OtherMachine);
        }
        let (header, _) = pod::from_bytes::<FileHeader64<LE>>(&self.head).ok()?;
        if header.e_machine.get(LE) != EM_X86_64 {
            return Some(Elf::OtherMachine);
        }
        let entry_bytes = usize::from(header.e_phentsize.get(LE));
        let length = usize::from(header.e_phnum.get(LE)) * entry_bytes;
        if entry_bytes < size_of::<ProgramHeader64<LE>>() || length > HEADERS_BYTES_MAX {
            return None;
        }
        let headers = self.bytes_at(header.e_phoff.get(LE), length)?;
        let mut entries = headers
            .chunks_exact(entry_bytes)
            .filter_map(|entry| Some(pod::from_bytes::<ProgramHeader64<LE>>(entry).ok()?.0));
        let Some(interpreter) = entries.find(|entry| entry.p_type.get(LE) == PT_INTERP) else {
            return Some(Elf::Static);
        };
        let length = usize::try_from(interpreter.p_filesz.get(LE)).ok()?;
        let length = Some(length).filter(|length| LOADER_BYTES.contains(length))?;
        let loader = self.bytes_at(interpreter.p_offset.get(LE), length)?;
        let loader = PathBuf::from(OsStr::from_bytes(loader.split(|byte| *byte == 0).next()?));
        let usual = entry_bytes == size_of::<ProgramHeader64<LE>>();
        Some(Elf::Dynamic { loader, headers: if usual { headers } else { vec![] } })
    }

    /// `length` bytes of the file from `offset`, out of the head where it has them.
    fn bytes_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        if let Some(bytes) = start.checked_add(length).and_then(|end| self.head.get(start..end)) {
            return Some(bytes.to_vec());
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> ProgramFile {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scratch.path(), bytes).unwrap();
        ProgramFile::open(scratch.path()).unwrap()
    }

    #[test]
    fn only_text_is_a_script_for_the_shell() {
        for (bytes, is_text) in
            [(&b"echo hello\n\0"[..], true), (b"", true), (b"\x7fELF\n", false), (b"MZ\0\0\n", false)]
        {
            assert_eq!(file(bytes).is_text(), is_text, "{bytes:?}");
        }
    }

    #[test]
    fn a_script_names_its_interpreter_in_its_first_line() {
        let named = |text: &str| file(text.as_bytes()).script_interpreter();
        assert_eq!(named("#! /bin/sh -x\necho"), Some("/bin/sh".into()));
        assert_eq!(named("#!/a"), Some("/a".into()));
        for none in ["#!", "#! \n/bin/sh", "/bin/sh", ""] {
            assert_eq!(named(none), None, "{none}");
        }
    }

    #[test]
    fn a_program_of_this_system_names_its_loader() {
        let own = ProgramFile::open(Path::new("/bin/sh")).unwrap();
        let Some(Elf::Dynamic { loader, headers }) = own.elf() else { panic!("{:?}", own.elf()) };
        assert!(loader.is_absolute() && headers.len().is_multiple_of(56) && !headers.is_empty());
        assert_eq!(file(b"#!/bin/sh\n").elf(), None);
    }
}
