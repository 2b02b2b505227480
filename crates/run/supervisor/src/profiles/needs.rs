//! What a run needed: each path, kind and range once, by when it was needed first.

use std::{
    cmp::Reverse, collections::HashMap, ffi::OsStr, ops::Range, os::unix::ffi::OsStrExt, path::Path, rc::Rc,
};

use forebay_profile::{Kind, Need};
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat, accessat, statat};

/// What was recorded of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// What the run needed and this user can need again, in the order in which it was needed first.
    pub needs: Vec<Need>,
    /// Page faults and mappings that are not in it, because the kernel had no room for their records.
    pub lost: u64,
}

/// Needs that are kept, at most.
pub const NEEDS_MAX: usize = 100_000;
/// Where nothing lies on a device.
const VIRTUAL: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];

/// A need of a path that is known.
#[derive(Clone, Debug)]
struct Part {
    at_us: u32,
    kind: Kind,
    start: u64,
    end: u64,
}

/// Collects needs.
#[derive(Debug, Default)]
pub struct Needs(HashMap<Rc<[u8]>, Vec<Part>>);

impl Needs {
    /// Adds one. An end of `u64::MAX` is the file's.
    pub fn add(&mut self, at_us: u32, path: &Rc<[u8]>, kind: Kind, range: Range<u64>) {
        if is_recordable(path) {
            let part = Part { at_us, kind, start: range.start, end: range.end };
            self.0.entry(Rc::clone(path)).or_default().push(part);
        }
    }

    /// So many of them that were needed first.
    #[must_use]
    pub fn first(self, count: usize) -> Vec<Need> {
        let need = |path: &Rc<[u8]>, part: Part| Need {
            at_us: part.at_us,
            path: path.to_vec(),
            kind: part.kind,
            range: part.start..part.end,
        };
        let of_path = |(path, parts): (Rc<[u8]>, Vec<Part>)| {
            parts.into_iter().map(move |part| need(&path, part)).collect::<Vec<_>>()
        };
        let mut needs: Vec<Need> = self.0.into_iter().flat_map(of_path).collect();
        needs.sort_by_key(|need| need.at_us);
        needs.truncate(count);
        needs
    }

    /// Those that this user could need again, in the order in which they were needed.
    #[must_use]
    pub fn finish(self) -> Vec<Need> {
        let mut needs: Vec<Need> =
            self.0.into_iter().flat_map(|(path, parts)| checked(&path, parts)).collect();
        needs.sort_by(|a, b| {
            (a.at_us, &a.path, a.kind, a.range.start).cmp(&(b.at_us, &b.path, b.kind, b.range.start))
        });
        needs.truncate(NEEDS_MAX);
        needs
    }
}

fn is_recordable(path: &[u8]) -> bool {
    let is_below = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    path.starts_with(b"/") && !path.contains(&0) && !VIRTUAL.into_iter().any(is_below)
}

/// What of a path's needs can be met again.
fn checked(path: &[u8], parts: Vec<Part>) -> Vec<Need> {
    let file = File::at(Path::new(OsStr::from_bytes(path)));
    let mut kept: Vec<Part> = parts.into_iter().filter_map(|part| file.cut(part)).collect();
    // Of what begins at the same byte, the longest comes first, and of those the earliest.
    kept.sort_by_key(|part| (part.kind, part.start, Reverse(part.end), part.at_us));
    let mut needs: Vec<Need> = Vec::new();
    for Part { at_us, kind, start, end } in kept {
        match needs.last_mut() {
            Some(last) if last.kind == kind && end <= last.range.end => last.at_us = last.at_us.min(at_us),
            _ => needs.push(Need { at_us, path: path.to_vec(), kind, range: start..end }),
        }
    }
    needs
}

/// What a path leads to now.
struct File<'a> {
    path: &'a Path,
    found: Option<Stat>,
    itself: Option<Stat>,
}

impl<'a> File<'a> {
    fn at(path: &'a Path) -> Self {
        // Attributes that the kernel has are good enough, so that no other machine is asked.
        let flags = AtFlags::NO_AUTOMOUNT;
        let itself = statat(CWD, path, flags | AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_link = itself.is_some_and(|stat| kind_of(&stat) == FileType::Symlink);
        Self { path, found: if is_link { statat(CWD, path, flags).ok() } else { itself }, itself }
    }

    fn is(&self, kind: FileType) -> bool {
        self.found.as_ref().is_some_and(|stat| kind_of(stat) == kind)
    }

    fn can_be(&self, access: Access) -> bool {
        accessat(CWD, self.path, access, AtFlags::EACCESS).is_ok()
    }

    /// The part of a need that can be met again.
    fn cut(&self, part: Part) -> Option<Part> {
        let bare = |kind| Part { kind, start: 0, end: 0, ..part.clone() };
        match part.kind {
            Kind::Read | Kind::Mapped => {
                let size =
                    self.found.filter(|_| self.is(FileType::RegularFile) && self.can_be(Access::READ_OK))?;
                let end = part.end.min(u64::try_from(size.st_size).ok()?);
                (part.start < end).then_some(Part { end, ..part })
            }
            Kind::Directory => {
                (self.is(FileType::Directory) && self.can_be(Access::READ_OK)).then(|| bare(part.kind))
            }
            Kind::Executed if self.itself.is_none() => Some(bare(Kind::Missing)),
            Kind::Executed => {
                let is_plain = |stat: &Stat| stat.st_mode & (libc::S_ISUID | libc::S_ISGID) == 0;
                let may_be = self.is(FileType::RegularFile) && self.found.as_ref().is_some_and(is_plain);
                (may_be && self.can_be(Access::EXEC_OK)).then(|| bare(part.kind))
            }
            Kind::LookUp => {
                let is_file = |stat: &Stat| {
                    matches!(kind_of(stat), FileType::RegularFile | FileType::Directory | FileType::Symlink)
                };
                self.itself.as_ref().is_some_and(is_file).then(|| bare(part.kind))
            }
            Kind::Link => {
                let is_link = |stat: &Stat| kind_of(stat) == FileType::Symlink;
                self.itself.as_ref().is_some_and(is_link).then(|| bare(part.kind))
            }
            Kind::Missing => Some(bare(part.kind)),
        }
    }
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A file of 1,000 bytes and a link to it. What was needed of them, of `names`, is left of these needs.
    fn kept(parts: &[(&str, Kind, Range<u64>)]) -> Vec<(String, Kind, Range<u64>)> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), [7; 1000]).unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let mut needs = Needs::default();
        for (at_us, (name, kind, range)) in (0..).zip(parts) {
            let path = if name.starts_with('/') { name.into() } else { folder.path().join(name) };
            needs.add(at_us, &path.as_os_str().as_bytes().into(), *kind, range.clone());
        }
        let name = |need: &Need| {
            let path = Path::new(OsStr::from_bytes(&need.path));
            path.strip_prefix(folder.path()).unwrap_or(path).display().to_string()
        };
        needs.finish().into_iter().map(|need| (name(&need), need.kind, need.range.clone())).collect()
    }

    #[test]
    fn a_range_ends_with_its_file_and_counts_once() {
        let all = [
            ("file", Kind::Read, 100..200),
            ("file", Kind::Read, 0..u64::MAX),
            ("file", Kind::Read, 1000..2000),
            ("file", Kind::Mapped, 0..500),
            ("file", Kind::Mapped, 600..700),
        ];
        let expected = [
            ("file".to_owned(), Kind::Read, 0..1000),
            ("file".to_owned(), Kind::Mapped, 0..500),
            ("file".to_owned(), Kind::Mapped, 600..700),
        ];
        assert_eq!(kept(&all), expected);
    }

    #[test]
    fn what_cannot_be_needed_again_is_dropped() {
        let all = [
            ("gone", Kind::LookUp, 0..0),
            ("gone", Kind::Read, 0..9),
            ("file", Kind::Directory, 0..0),
            ("file", Kind::Link, 0..0),
            ("file", Kind::Executed, 0..0),
            ("/proc/self/status", Kind::LookUp, 0..0),
            ("/dev/null", Kind::LookUp, 0..0),
            ("relative", Kind::Missing, 0..0),
            ("/processes", Kind::Missing, 0..0),
            ("link", Kind::Link, 0..0),
            ("link", Kind::LookUp, 0..0),
            ("gone", Kind::Executed, 0..0),
        ];
        let names: Vec<(String, Kind)> = kept(&all).into_iter().map(|(name, kind, _)| (name, kind)).collect();
        let expected = [
            ("relative", Kind::Missing),
            ("/processes", Kind::Missing),
            ("link", Kind::Link),
            ("link", Kind::LookUp),
            ("gone", Kind::Missing),
        ];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
