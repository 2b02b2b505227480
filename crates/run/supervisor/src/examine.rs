//! Says from the first page of a program's file whether the agent can be loaded into it, before the program starts.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use forebay_linux::process::{Elf, ProgramFile, inherited_files};
use forebay_protocol::executable::{self, DYNAMIC_BYTES};
use forebay_protocol::layout::Unassisted;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

/// How many interpreters of interpreters the kernel follows (execve(2)).
const INTERPRETERS_MAX: usize = 5;
/// File name of glibc's loader on x86-64.
const GLIBC_LOADER: &[u8] = b"ld-linux-x86-64.so.2";

/// Examines the program at `path`, or the interpreter that its `#!` line leads to: the dynamic loader to expect, or why no library can be
/// preloaded.
pub fn examine(path: &Path) -> Result<PathBuf, Unassisted> {
    let (path, file) = program_file(path).ok_or(Unassisted::NotExamined)?;
    if is_privileged(file.file(), &path) { Err(Unassisted::Privileged) } else { loader(&file) }
}

/// Whether the first bytes look like text: a shell would run such a file as a script of its own even without `#!`.
pub fn is_text(path: &Path) -> bool {
    program_file(path).is_some_and(|(_, file)| file.is_text())
}

/// Whether this process holds POSIX locks that what it executes would keep, or that cannot be told. A lock on the program's file would go
/// with a descriptor of it, and the program would have kept it.
pub fn holds_record_locks() -> bool {
    // What a lock was taken by is open as long as it is held. (The list of the locks of all processes can take milliseconds.)
    if let Some(files) = inherited_files() {
        return files.iter().any(|file| may_hold_record_lock(OsStr::new(&file.to_string())));
    }
    fs::read_dir("/proc/self/fd").map_or(true, |mut descriptors| {
        descriptors.any(|descriptor| {
            descriptor.map_or(true, |descriptor| {
                is_file(&descriptor.file_name()) && may_hold_record_lock(&descriptor.file_name())
            })
        })
    })
}

/// Whether a descriptor of this process is of a regular file, or that cannot be told. No server is asked.
fn is_file(descriptor: &OsStr) -> bool {
    let path = Path::new("/proc/self/fd").join(descriptor);
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
        .map_or(true, |known| FileType::from_raw_mode(known.stx_mode.into()) == FileType::RegularFile)
}

/// Whether a descriptor of this process holds a POSIX lock, or that cannot be told.
fn may_hold_record_lock(descriptor: &OsStr) -> bool {
    let path = Path::new("/proc/self/fdinfo").join(descriptor);
    fs::read(path).map_or(true, |told| tells_of_record_lock(&told))
}

/// Whether what the kernel tells of a descriptor names a POSIX lock (proc_pid_fdinfo(5)).
fn tells_of_record_lock(told: &[u8]) -> bool {
    let mut lines = told.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"lock:"));
    lines.any(|line| line.split(|&byte| byte == b' ').any(|field| field == b"POSIX"))
}

/// The file that is executed for the one at `path`: that, or the interpreter that its `#!` line leads to.
pub fn program_file(path: &Path) -> Option<(PathBuf, ProgramFile)> {
    let mut path = path.to_path_buf();
    for _ in 0..=INTERPRETERS_MAX {
        let file = ProgramFile::open(&path).ok()?;
        match file.script_interpreter() {
            Some(next) => path = next,
            None => return Some((path, file)),
        }
    }
    None
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

/// The loader that loads the agent, or why none does.
fn loader(file: &ProgramFile) -> Result<PathBuf, Unassisted> {
    let (loader, headers) = match file.elf() {
        Some(Elf::Dynamic { loader, headers }) => (loader, headers),
        Some(Elf::Static) => return Err(Unassisted::Static),
        Some(Elf::OtherMachine) => return Err(Unassisted::OtherArchitecture),
        None => return Err(Unassisted::NotExamined),
    };
    if loader.file_name().is_none_or(|name| name.as_bytes() != GLIBC_LOADER) {
        return Err(Unassisted::OtherLibc);
    }
    let is_sanitized = executable::needs_to_be_first(&headers, &mut [0; DYNAMIC_BYTES], |offset, buffer| {
        file.file().read_at(buffer, offset).unwrap_or(0)
    });
    if is_sanitized { Err(Unassisted::Sanitized) } else { Ok(loader) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("forebay-examine-{}-{name}", std::process::id()));
            fs::write(&path, bytes).unwrap();
            Self(path)
        }

        fn loader(&self) -> Result<PathBuf, Unassisted> {
            examine(&self.0)
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
        let program = Path::new("/bin/true");
        assert!(examine(program).unwrap().ends_with("ld-linux-x86-64.so.2"));
        assert!(!is_text(program));
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
        assert!(Scratch::new("shell", b"#!/bin/sh\nexit 0\n").loader().is_ok());
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_ends_the_search() {
        let scratch = Scratch::new("loop", b"");
        fs::write(&scratch.0, format!("#!{}\n", scratch.0.display())).unwrap();
        assert_eq!(scratch.loader(), Err(Unassisted::NotExamined));
    }

    #[test]
    fn posix_locks_are_told_from_all_others() {
        let cases: [(&[u8], bool); 5] = [
            (b"pos:\t0\nflags:\t02\nlock:\t1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF\n", true),
            (b"pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fd:00:1 0 EOF\nlock:\t2: POSIX  ADVISORY  READ 7 fd:00:1 1 1\n", true),
            (b"pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fd:00:1 0 EOF\n", false),
            (b"pos:\t0\nlock:\t1: OFDLCK ADVISORY  READ -1 00:06:1 0 EOF\n", false),
            (b"", false),
        ];
        for (told, is_posix) in cases {
            assert_eq!(tells_of_record_lock(told), is_posix, "{}", told.escape_ascii());
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_not_examined() {
        assert_eq!(examine(Path::new("/nowhere/at/all")), Err(Unassisted::NotExamined));
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
