//! Hierarchies of control groups, by where they are mounted.

use std::path::Path;

/// A hierarchy by a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
pub(crate) struct Hierarchy<'a> {
    /// What of it is shown: in a container only a part.
    pub(crate) root: &'a Path,
    pub(crate) mount: &'a Path,
    pub(crate) unified: bool,
    /// Controllers among them.
    options: &'a str,
}

impl<'a> Hierarchy<'a> {
    /// All that are mounted.
    pub(crate) fn all(mountinfo: &'a str) -> impl Iterator<Item = Self> {
        mountinfo.lines().filter_map(Self::parse)
    }

    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (Path::new(place.next()?), Path::new(place.next()?));
        // KIND SOURCE OPTIONS; the options of version 1 name its controllers.
        let mut kind = kind.split(' ');
        let unified = match kind.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Self { root, mount, unified, options: kind.nth(1).unwrap_or_default() })
    }

    /// What version 1 says of it; its controllers among others.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'a str> {
        self.options.split(',')
    }
}
