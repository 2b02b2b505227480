//! Which files a program needs: those that it named while `strace` watched it; and their copies in another root.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::{Component, Path, PathBuf};

/// Folders whose files are not copied: the kernel's, those in memory, and the data, which is in the other root already.
const NOT_COPIED: [&str; 7] = ["/proc", "/dev", "/sys", "/tmp", "/mnt", "/run", "/forebay"];

/// What the kernel opens for a program that never names it, and what many programs need.
const ALWAYS: [&str; 7] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
    "/etc/ld.so.cache",
    "/etc/passwd",
    "/etc/group",
];

/// Links that may be met on the way to one file (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// A program's arguments to watch `command` with, which writes to the file `trace`.
pub(super) fn watching(trace: &str) -> [&str; 8] {
    ["strace", "-f", "-y", "-qq", "--signal=none", "--trace=%file", "-o", trace]
}

/// The paths in a trace, with those that are always needed. Relative ones begin at the folder that the trace tells, or else at
/// `folder`.
pub(super) fn named(trace: &Path, folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut paths: BTreeSet<PathBuf> = ALWAYS.iter().map(PathBuf::from).collect();
    for line in BufReader::new(File::open(trace)?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let Some(path) = path_in(&line, folder) else { continue };
        if line.contains(" execve(") {
            paths.extend(interpreter(&path));
        }
        paths.insert(path);
    }
    Ok(paths.into_iter().filter(|path| is_copied(path)).collect())
}

/// The path that a call names: `PID openat(AT_FDCWD</usr>, "lib", ...`, `PID execve("/bin/ls", ...`.
fn path_in(line: &str, folder: &Path) -> Option<PathBuf> {
    let arguments = &line[line.find('(')? + 1..];
    let start = arguments.find('"')?;
    let named = &arguments[start + 1..];
    let named = &named[..named.find('"')?];
    if named.is_empty() || named.contains('\\') {
        return None;
    }
    let before = &arguments[..start];
    let at = before.find('<').and_then(|from| before.rfind('>').map(|to| &before[from + 1..to]));
    Some(at.map_or(folder, Path::new).join(named))
}

/// The interpreter that the first line of a script names.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let length = File::open(program).and_then(|mut file| file.read(&mut head)).ok()?;
    let text = std::str::from_utf8(&head[..length]).ok().or_else(|| {
        let line = head.iter().position(|&byte| byte == b'\n')?;
        std::str::from_utf8(&head[..line]).ok()
    })?;
    let line = text.strip_prefix("#!")?.lines().next()?;
    line.split_whitespace().next().map(PathBuf::from)
}

fn is_copied(path: &Path) -> bool {
    !NOT_COPIED.iter().any(|folder| path.starts_with(folder))
}

/// Files of this machine copied to another root, each to the same path, with the links and folders on the way.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    root: &'a Path,
    /// What is there.
    made: BTreeSet<PathBuf>,
    /// Folders, whose times are set at the end.
    folders: Vec<PathBuf>,
}

impl<'a> Copies<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, made: BTreeSet::new(), folders: Vec::new() }
    }

    /// Copies all that exist, in the order of their names.
    pub(super) fn add(&mut self, paths: &BTreeSet<PathBuf>) -> io::Result<()> {
        paths.iter().try_for_each(|path| self.copy(path))
    }

    /// Gives folders the times of their originals.
    pub(super) fn finish(self) -> io::Result<()> {
        for folder in self.folders.iter().rev() {
            set_times(folder, &inside(self.root, folder))?;
        }
        Ok(())
    }

    /// Copies what `path` leads to, as far as that exists.
    fn copy(&mut self, path: &Path) -> io::Result<()> {
        let mut steps = backwards(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(step) = steps.pop() {
            if step == ".." {
                at.pop();
                continue;
            }
            at.push(&step);
            let Ok(found) = fs::symlink_metadata(&at) else { return Ok(()) };
            if !is_copied(&at) {
                return Ok(());
            }
            if found.is_symlink() {
                let target = fs::read_link(&at)?;
                self.make(&at, |copy| {
                    symlink(&target, copy)?;
                    lchown(copy, Some(found.uid()), Some(found.gid()))
                })?;
                links += 1;
                if links > LINKS_MAX {
                    return Ok(());
                }
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                steps.extend(backwards(&target));
            } else if found.is_dir() {
                let is_new = self.make(&at, |copy| fs::create_dir(copy))?;
                if is_new {
                    own_as(&found, &inside(self.root, &at))?;
                    self.folders.push(at.clone());
                }
            } else if found.is_file() {
                let from = at.clone();
                self.make(&at, |copy| {
                    fs::copy(&from, copy)?;
                    own_as(&found, copy)?;
                    set_times(&from, copy)
                })?;
                return Ok(());
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the copy of `path` if it is not there; tells whether it was made.
    fn make(&mut self, path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<bool> {
        if !self.made.insert(path.to_owned()) {
            return Ok(false);
        }
        match make(&inside(self.root, path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true),
        }
    }
}

/// The steps of a path, the last first.
fn backwards(path: &Path) -> Vec<std::ffi::OsString> {
    let steps = path.components().rev().filter_map(|step| match step {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    steps.collect()
}

fn own_as(original: &fs::Metadata, copy: &Path) -> io::Result<()> {
    chown(copy, Some(original.uid()), Some(original.gid()))?;
    fs::set_permissions(copy, original.permissions())
}

fn set_times(original: &Path, copy: &Path) -> io::Result<()> {
    let found = fs::metadata(original)?;
    let times = FileTimes::new().set_accessed(found.accessed()?).set_modified(found.modified()?);
    File::open(copy)?.set_times(times)
}

/// `path`, which is absolute, in `root`.
pub(super) fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_calls_of_every_form() {
        let folder = Path::new("/mnt");
        for (line, expected) in [
            (r#"7 openat(AT_FDCWD</usr>, "lib/a", O_RDONLY) = 3</usr/lib/a>"#, Some("/usr/lib/a")),
            (r#"7 openat(AT_FDCWD</usr>, "/etc/b", O_RDONLY <unfinished ...>"#, Some("/etc/b")),
            (r#"7 newfstatat(3</usr/lib>, "c", {st_mode=0}, 0) = 0"#, Some("/usr/lib/c")),
            (r#"7 newfstatat(3</usr/lib>, "", {st_mode=0}, AT_EMPTY_PATH) = 0"#, None),
            (r#"7 execve("/bin/ls", ["ls", "-l"], 0x7 /* 3 vars */) = 0"#, Some("/bin/ls")),
            (r#"7 access("d", R_OK) = -1 ENOENT (No such file or directory)"#, Some("/mnt/d")),
            (r#"7 <... openat resumed>) = 3</etc/b>"#, None),
            ("7 exit_group(0)", None),
        ] {
            assert_eq!(path_in(line, folder), expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn copies_keep_links_contents_and_times() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let (from, root) = (base.path().join("from"), base.path().join("root"));
        fs::create_dir_all(from.join("real/deep")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(from.join("real/deep/file"), "contents").unwrap();
        symlink("real", from.join("relative")).unwrap();
        symlink(from.join("relative/deep"), from.join("absolute")).unwrap();
        let mut copies = Copies::new(&root);
        let asked =
            [from.join("absolute/../deep/file"), from.join("real/absent"), from.join("absolute/file")];
        copies.add(&asked.into()).unwrap();
        copies.finish().unwrap();
        let copy = inside(&root, &from);
        assert_eq!(fs::read_to_string(copy.join("real/deep/file")).unwrap(), "contents");
        assert_eq!(fs::read_link(copy.join("relative")).unwrap(), Path::new("real"));
        for name in ["real/deep/file", "real/deep", "real"] {
            let modified = |folder: &Path| fs::metadata(folder.join(name)).unwrap().modified().unwrap();
            assert_eq!(modified(&from), modified(&copy), "{name}");
        }
    }

    #[test]
    fn a_script_leads_to_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#! /usr/bin/perl -w\n").unwrap();
        assert_eq!(interpreter(&script), Some("/usr/bin/perl".into()));
        assert_eq!(interpreter(Path::new("/bin/sh")), None);
    }
}
