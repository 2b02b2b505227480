//! What a run needed: each path, kind and range once, by when it was needed first.
//!
//! What a file is, is known from the time of its use. Nothing is asked of a file system here.

use std::{cmp::Reverse, collections::HashMap, ops::Range, sync::Arc};

use forebay_profile::{Identity, Kind, Need};

use super::files::Files;

/// What was recorded of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// What the run needed and a later one may need again, in the order in which it was needed first.
    pub needs: Vec<Need>,
    /// The files with data among it, as they were when they were used.
    pub identities: HashMap<Vec<u8>, Identity>,
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

/// What is known of a path.
#[derive(Debug, Default)]
struct Known {
    parts: Vec<Part>,
    /// The file as it was used first, if it is a regular one.
    identity: Option<Identity>,
    /// When the run made it.
    made_us: Option<u32>,
}

/// Collects needs.
#[derive(Debug, Default)]
pub struct Needs {
    paths: HashMap<Arc<[u8]>, Known>,
    added: usize,
}

impl Needs {
    /// Adds one. An end of `u64::MAX` is the file's.
    pub fn add(&mut self, at_us: u32, path: &Arc<[u8]>, kind: Kind, range: Range<u64>) {
        if let Some(known) = self.of(path) {
            known.parts.push(Part { at_us, kind, start: range.start, end: range.end });
            self.added += 1;
        }
    }

    /// How many were added.
    pub const fn added(&self) -> usize {
        self.added
    }

    /// Adds what a regular file was when it was used.
    pub fn add_identity(&mut self, path: &Arc<[u8]>, identity: Identity) {
        if let Some(known) = self.of(path) {
            known.identity.get_or_insert(identity);
        }
    }

    /// The run itself has made a file, so its later needs of that are none.
    pub fn add_made(&mut self, at_us: u32, path: &Arc<[u8]>) {
        if let Some(known) = self.of(path) {
            known.made_us = Some(known.made_us.map_or(at_us, |before| before.min(at_us)));
        }
    }

    fn of(&mut self, path: &Arc<[u8]>) -> Option<&mut Known> {
        is_recordable(path).then(|| self.paths.entry(Arc::clone(path)).or_default())
    }

    /// So many of them that were needed first.
    #[must_use]
    pub fn first(self, count: usize) -> Vec<Need> {
        let need = |path: &Arc<[u8]>, part: Part| Need {
            at_us: part.at_us,
            path: path.to_vec(),
            kind: part.kind,
            range: part.start..part.end,
        };
        let of_path = |(path, known): (Arc<[u8]>, Known)| {
            known.parts.into_iter().map(move |part| need(&path, part)).collect::<Vec<_>>()
        };
        let mut needs: Vec<Need> = self.paths.into_iter().flat_map(of_path).collect();
        needs.sort_by_key(|need| need.at_us);
        needs.truncate(count);
        needs
    }

    /// Those that a later run may have again, in the order in which they were needed. `files` are known besides.
    #[must_use]
    pub fn finish(self, files: &Files, lost: u64) -> Recorded {
        let mut needs = Vec::new();
        let mut identities = HashMap::new();
        for (path, known) in self.paths {
            let known = Known { identity: known.identity.or_else(|| files.get(&path)), ..known };
            identities.extend(known.identity.map(|identity| (path.to_vec(), identity)));
            needs.extend(known.needs(&path));
        }
        needs.sort_unstable_by(|a: &Need, b: &Need| {
            (a.at_us, &a.path, a.kind, a.range.start).cmp(&(b.at_us, &b.path, b.kind, b.range.start))
        });
        needs.truncate(NEEDS_MAX);
        Recorded { needs, identities, lost }
    }
}

fn is_recordable(path: &[u8]) -> bool {
    let is_below = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    path.starts_with(b"/") && !path.contains(&0) && !VIRTUAL.into_iter().any(is_below)
}

impl Known {
    /// Each kind and range once.
    fn needs(self, path: &[u8]) -> Vec<Need> {
        let Self { parts, identity, made_us } = self;
        let is_own =
            |part: &Part| part.kind != Kind::Missing && made_us.is_some_and(|made| part.at_us >= made);
        let kept = parts.into_iter().filter(|part| !is_own(part)).filter_map(|part| part.cut(identity));
        let mut kept: Vec<Part> = kept.collect();
        // Of what begins at the same byte, the longest comes first, and of those the earliest.
        kept.sort_unstable_by_key(|part| (part.kind, part.start, Reverse(part.end), part.at_us));
        let mut needs: Vec<Need> = Vec::new();
        for Part { at_us, kind, start, end } in kept {
            match needs.last_mut() {
                Some(last) if last.kind == kind && end <= last.range.end => {
                    last.at_us = last.at_us.min(at_us);
                }
                _ => needs.push(Need { at_us, path: path.to_vec(), kind, range: start..end }),
            }
        }
        needs
    }
}

impl Part {
    /// The part of it that the file has. Data is of regular files alone.
    fn cut(self, identity: Option<Identity>) -> Option<Self> {
        match self.kind {
            Kind::Read | Kind::Mapped => {
                let end = self.end.min(identity?.size);
                (self.start < end).then_some(Self { end, ..self })
            }
            Kind::Executed => identity.map(|_| self),
            Kind::Directory | Kind::LookUp | Kind::Missing | Kind::Link => Some(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = Identity { dev: 1, ino: 2, size: 1000, mtime_ns: 3 };

    /// What is left of these needs, in the order of time. `/file` is a regular file.
    fn kept(parts: &[(&str, Kind, Range<u64>)]) -> Vec<(String, Kind, Range<u64>)> {
        let mut needs = Needs::default();
        needs.add_identity(&b"/file"[..].into(), FILE);
        for (at_us, (path, kind, range)) in (0..).zip(parts) {
            needs.add(at_us, &path.as_bytes().into(), *kind, range.clone());
        }
        needs.add_made(4, &b"/made"[..].into());
        let recorded = needs.finish(&Files::default(), 0);
        assert!(recorded.identities.get(&b"/file"[..]).is_none_or(|identity| *identity == FILE));
        let path = |need: &Need| String::from_utf8(need.path.clone()).unwrap();
        recorded.needs.iter().map(|need| (path(need), need.kind, need.range.clone())).collect()
    }

    #[test]
    fn a_range_ends_with_its_file_and_counts_once() {
        let all = [
            ("/file", Kind::Read, 100..200),
            ("/file", Kind::Read, 0..u64::MAX),
            ("/file", Kind::Read, 1000..2000),
            ("/file", Kind::Mapped, 0..500),
            ("/file", Kind::Mapped, 600..700),
        ];
        let expected = [
            ("/file".to_owned(), Kind::Read, 0..1000),
            ("/file".to_owned(), Kind::Mapped, 0..500),
            ("/file".to_owned(), Kind::Mapped, 600..700),
        ];
        assert_eq!(kept(&all), expected);
    }

    #[test]
    fn data_is_of_regular_files_and_nothing_is_of_virtual_ones() {
        let all = [
            ("/fifo", Kind::LookUp, 0..0),
            ("/fifo", Kind::Read, 0..9),
            ("/fifo", Kind::Executed, 0..0),
            ("/file", Kind::Executed, 0..0),
            ("/proc/self/status", Kind::LookUp, 0..0),
            ("/dev/null", Kind::LookUp, 0..0),
            ("relative", Kind::Missing, 0..0),
            ("/processes", Kind::Missing, 0..0),
        ];
        let names: Vec<(String, Kind)> = kept(&all).into_iter().map(|(name, kind, _)| (name, kind)).collect();
        let expected = [("/fifo", Kind::LookUp), ("/file", Kind::Executed), ("/processes", Kind::Missing)];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn what_the_run_makes_is_needed_no_more_from_then_on() {
        let all = [
            ("/made", Kind::Missing, 0..0),
            ("/made", Kind::LookUp, 0..0),
            ("/other", Kind::LookUp, 0..0),
            ("/other", Kind::Link, 0..0),
            ("/made", Kind::LookUp, 0..0),
            ("/made", Kind::Read, 0..9),
            ("/made", Kind::Directory, 0..0),
        ];
        let names: Vec<(String, Kind)> = kept(&all).into_iter().map(|(name, kind, _)| (name, kind)).collect();
        let expected = [
            ("/made", Kind::Missing),
            ("/made", Kind::LookUp),
            ("/other", Kind::LookUp),
            ("/other", Kind::Link),
        ];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
