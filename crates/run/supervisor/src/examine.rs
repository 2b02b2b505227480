//! Can the agent be loaded into a program? Answered from the first page of its file, before it starts.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use forebay_protocol::executable::{self, DYNAMIC_BYTES, PROGRAM_HEADER_BYTES};
use forebay_protocol::layout::Unassisted;

/// How many interpreters of interpreters the kernel follows (execve(2)).
const INTERPRETERS_MAX: usize = 5;
/// Bytes of the file that are looked at; the kernel reads the interpreter line from the first 256.
const HEAD_BYTES: usize = 4096;
const SCRIPT_LINE_BYTES: usize = 256;
/// File name of glibc's loader on x86-64.
const GLIBC_LOADER: &[u8] = b"ld-linux-x86-64.so.2";

/// What the file of a program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// The dynamic loader to expect, or why no library can be preloaded.
    pub loader: Result<PathBuf, Unassisted>,
    /// The first bytes look like text: a shell would run such a file as a script of its own even without `#!`.
    pub is_text: bool,
}

impl Examined {
    fn refused(reason: Unassisted) -> Self {
        Self { loader: Err(reason), is_text: false }
    }
}

/// Examines the program at `path`, or the interpreter that its `#!` line leads to.
#[must_use]
pub fn examine(path: &Path) -> Examined {
    let mut path = path.to_path_buf();
    for _ in 0..=INTERPRETERS_MAX {
        let Ok((file, head)) = open(&path) else { return Examined::refused(Unassisted::NotExamined) };
        match interpreter(&head) {
            Some(next) => path = next,
            None => {
                let loader = if is_privileged(&file, &path) {
                    Err(Unassisted::Privileged)
                } else {
                    elf_loader(&file, &head).unwrap_or(Err(Unassisted::NotExamined))
                };
                return Examined { loader, is_text: is_text(&head) };
            }
        }
    }
    Examined::refused(Unassisted::NotExamined)
}

/// The interpreter that a script names; `None` where `path` is no script.
#[must_use]
pub fn script_interpreter(path: &Path) -> Option<PathBuf> {
    interpreter(&open(path).ok()?.1)
}

fn open(path: &Path) -> io::Result<(File, Vec<u8>)> {
    // O_NONBLOCK: a FIFO in place of a program must not stop us.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let mut head = vec![0; HEAD_BYTES];
    let length = file.read_at(&mut head, 0)?;
    head.truncate(length);
    Ok((file, head))
}

fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(SCRIPT_LINE_BYTES - 2)];
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    Some(PathBuf::from(OsStr::from_bytes(words.next()?)))
}

/// As bash decides: no zero byte in the first line of the first 80 bytes.
fn is_text(head: &[u8]) -> bool {
    let start = &head[..head.len().min(80)];
    !start.split(|byte| *byte == b'\n').next().unwrap_or_default().contains(&0)
        && !start.starts_with(b"\x7fELF")
}

/// Whether the loader will run in secure-execution mode (ld.so(8)), in which it ignores our preload.
fn is_privileged(file: &File, path: &Path) -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    let (user, group) = (getuid(), getgid());
    if user != geteuid() || group != getegid() {
        return true;
    }
    let Ok(metadata) = file.metadata() else { return false };
    let mode = metadata.mode();
    let takes_user = mode & libc::S_ISUID != 0 && metadata.uid() != user.as_raw();
    let set_group = libc::S_ISGID | libc::S_IXGRP;
    let takes_group = mode & set_group == set_group && metadata.gid() != group.as_raw();
    // Capabilities of a file add nothing to root's own.
    let capable = !user.is_root()
        && rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64][..]).is_ok_and(|bytes| bytes > 0);
    takes_user || takes_group || capable
}

/// The loader named by PT_INTERP (elf(5)); `None` where the file is no ELF file or a broken one.
fn elf_loader(file: &File, head: &[u8]) -> Option<Result<PathBuf, Unassisted>> {
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const MACHINE_X86_64: u16 = 62;
    const PT_INTERP: u32 = 3;

    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    if head.get(4) != Some(&CLASS_64)
        || head.get(5) != Some(&LITTLE_ENDIAN)
        || u16_at(head, 18)? != MACHINE_X86_64
    {
        return Some(Err(Unassisted::OtherArchitecture));
    }
    let table = u64_at(head, 32)?;
    let entry_bytes = usize::from(u16_at(head, 54)?);
    let entries = usize::from(u16_at(head, 56)?);
    if entry_bytes < PROGRAM_HEADER_BYTES || entries * entry_bytes > 64 << 10 {
        return None;
    }
    let table = bytes_at(file, head, table, entries * entry_bytes)?;
    let Some(header) = table.chunks_exact(entry_bytes).find(|header| u32_at(header, 0) == Some(PT_INTERP))
    else {
        return Some(Err(Unassisted::Static));
    };
    let length = usize::try_from(u64_at(header, 32)?).ok().filter(|length| (2..=4096).contains(length))?;
    let loader = bytes_at(file, head, u64_at(header, 8)?, length)?;
    let loader = loader.split(|byte| *byte == 0).next()?;
    let path = PathBuf::from(OsStr::from_bytes(loader));
    if path.file_name().is_none_or(|name| name.as_bytes() != GLIBC_LOADER) {
        return Some(Err(Unassisted::OtherLibc));
    }
    let is_sanitized = entry_bytes == PROGRAM_HEADER_BYTES
        && executable::needs_to_be_first(&table, &mut [0; DYNAMIC_BYTES], |offset, buffer| {
            file.read_at(buffer, offset).unwrap_or(0)
        });
    Some(if is_sanitized { Err(Unassisted::Sanitized) } else { Ok(path) })
}

/// `length` bytes of the file from `offset`, out of `head` where it has them.
fn bytes_at(file: &File, head: &[u8], offset: u64, length: usize) -> Option<Vec<u8>> {
    let start = usize::try_from(offset).ok()?;
    if let Some(bytes) = start.checked_add(length).and_then(|end| head.get(start..end)) {
        return Some(bytes.to_vec());
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("forebay-examine-{}-{name}", std::process::id()));
            fs::write(&path, bytes).unwrap();
            Self(path)
        }

        fn loader(&self) -> Result<PathBuf, Unassisted> {
            examine(&self.0).loader
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// An ELF file of one program header, PT_INTERP of `loader` (PT_LOAD without one).
    fn elf(class: u8, machine: u16, loader: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
        bytes[64] = if loader.is_some() { 3 } else { 1 };
        if let Some(loader) = loader {
            let offset = bytes.len() as u64;
            bytes[72..80].copy_from_slice(&offset.to_le_bytes());
            bytes[96..104].copy_from_slice(&(loader.len() as u64 + 1).to_le_bytes());
            bytes.extend_from_slice(loader.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn a_program_of_this_system_takes_a_preload() {
        let examined = examine(Path::new("/bin/true"));
        assert!(examined.loader.unwrap().ends_with("ld-linux-x86-64.so.2"));
        assert!(!examined.is_text);
    }

    #[test]
    fn each_reason_against_a_preload_is_told_apart() {
        let cases = [
            ("static", elf(2, 62, None), Unassisted::Static),
            ("arm", elf(2, 183, Some("/lib/ld-linux-aarch64.so.1")), Unassisted::OtherArchitecture),
            ("i386", elf(1, 3, Some("/lib/ld-linux.so.2")), Unassisted::OtherArchitecture),
            ("musl", elf(2, 62, Some("/lib/ld-musl-x86_64.so.1")), Unassisted::OtherLibc),
            ("cut", elf(2, 62, Some("/lib64/ld-linux-x86-64.so.2"))[..100].to_vec(), Unassisted::NotExamined),
            ("text", b"echo hello\n".to_vec(), Unassisted::NotExamined),
            ("empty", vec![], Unassisted::NotExamined),
        ];
        for (name, bytes, reason) in cases {
            assert_eq!(Scratch::new(name, &bytes).loader(), Err(reason), "{name}");
        }
    }

    #[test]
    fn scripts_are_judged_by_their_interpreter() {
        let elf = Scratch::new("interpreter", &elf(2, 62, None));
        let inner = Scratch::new("inner", format!("#! {} -x\n", elf.0.display()).as_bytes());
        let outer = Scratch::new("outer", format!("#!{}", inner.0.display()).as_bytes());
        assert_eq!(outer.loader(), Err(Unassisted::Static));
        assert_eq!(script_interpreter(&outer.0).as_ref(), Some(&inner.0));
        assert!(Scratch::new("shell", b"#!/bin/sh\nexit 0\n").loader().is_ok());
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_ends_the_search() {
        let scratch = Scratch::new("loop", b"");
        fs::write(&scratch.0, format!("#!{}\n", scratch.0.display())).unwrap();
        assert_eq!(scratch.loader(), Err(Unassisted::NotExamined));
    }

    #[test]
    fn a_file_that_is_not_there_is_not_examined() {
        assert_eq!(examine(Path::new("/nowhere/at/all")).loader, Err(Unassisted::NotExamined));
    }

    #[test]
    fn only_text_is_a_script_for_the_shell() {
        assert!(is_text(b"echo hello\n\0"));
        assert!(is_text(b""));
        assert!(!is_text(b"\x7fELF\n"));
        assert!(!is_text(b"MZ\0\0\n"));
    }

    #[test]
    fn nothing_in_a_head_makes_the_examination_fail() {
        let whole = elf(2, 62, Some("/lib64/ld-linux-x86-64.so.2"));
        for index in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[index] = value;
                let scratch = Scratch::new("mutant", &bytes);
                let _ = scratch.loader();
            }
        }
    }
}
