//! Reads the access log: which path each of its records means.

use std::{collections::HashMap, ops::Range, sync::Arc};

use forebay_profile::{Identity, Kind};
use forebay_protocol::access_log::{
    AccessLog, Attributes, Cursor, Outcome, PATH_BYTES_MAX, Record, TIME_SHIFT, Use,
};

/// What agents recorded, with times as the log has them.
pub enum Entry {
    /// A process needed this for the first time. An end of `u64::MAX` is the file's.
    Needed { at: u32, path: Arc<[u8]>, kind: Kind, range: Range<u64> },
    /// The run made this file.
    Made { at: u32, path: Arc<[u8]> },
    /// What a regular file was when it was used, and when it was opened, if it was.
    File { opened: Option<u32>, path: Arc<[u8]>, identity: Identity },
}

/// Goes through a log, once.
pub struct LogReader {
    cursor: Cursor,
    /// What records of paths mean, by their places.
    names: HashMap<u32, Name>,
    /// Where the last one was.
    last: u32,
    bytes: [u8; PATH_BYTES_MAX],
}

impl Default for LogReader {
    fn default() -> Self {
        Self { cursor: Cursor::default(), names: HashMap::new(), last: 0, bytes: [0; PATH_BYTES_MAX] }
    }
}

impl LogReader {
    /// The next entry, as long as there is one. A process may append another one later.
    pub fn next(&mut self, log: &AccessLog) -> Option<Entry> {
        while let Some((place, record)) = self.cursor.next(log, &mut self.bytes) {
            self.last = place;
            let entry = match record {
                Record::Path { outcome, at, base, path } => {
                    let root = Name { path: (*b"/").into(), resolved: 1 };
                    let base = if base == 0 { Some(&root) } else { self.names.get(&base) };
                    let Some(mut name) = base.and_then(|base| joined(base, path)) else { continue };
                    let path = Arc::clone(&name.path);
                    let needed =
                        |kind| Some(Entry::Needed { at, path: Arc::clone(&path), kind, range: 0..0 });
                    let entry = match outcome {
                        // The kernel's own.
                        Outcome::Named => {
                            name.resolved = name.path.len();
                            None
                        }
                        Outcome::Made => Some(Entry::Made { at, path }),
                        Outcome::Found => needed(Kind::LookUp),
                        Outcome::Missing => needed(Kind::Missing),
                        Outcome::Link => needed(Kind::Link),
                        Outcome::Executed => needed(Kind::Executed),
                    };
                    self.names.insert(place, name);
                    entry
                }
                Record::Range { used, at, file, start, end, is_unfinished } => {
                    let end = if is_unfinished { u64::MAX } else { end };
                    let (kind, range) = match used {
                        Use::Read => (Kind::Read, start..end),
                        Use::Mapped => (Kind::Mapped, start..end),
                        Use::Listed => (Kind::Directory, 0..0),
                    };
                    self.path(file).map(|path| Entry::Needed { at, path, kind, range })
                }
                Record::File { opened, file, attributes: Attributes { dev, ino, size, mtime_ns } } => {
                    let identity = Identity { dev, ino, size, mtime_ns };
                    let opened = Some(opened).filter(|opened| *opened != 0);
                    self.path(file).map(|path| Entry::File { opened, path, identity })
                }
            };
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    /// The place of the record that the last entry came from.
    pub const fn last(&self) -> u32 {
        self.last
    }

    fn path(&self, place: u32) -> Option<Arc<[u8]>> {
        self.names.get(&place).map(|name| Arc::clone(&name.path))
    }
}

/// A time of the log, in microseconds since the start of the run.
pub fn microseconds(at: u32, ticks_per_second: u64) -> u32 {
    let ticks = u128::from(at) << TIME_SHIFT;
    u32::try_from(ticks * 1_000_000 / u128::from(ticks_per_second.max(1))).unwrap_or(u32::MAX)
}

/// A path that begins in a folder that the kernel has named.
pub(super) fn joined_to(folder: &Arc<[u8]>, path: &[u8]) -> Option<Arc<[u8]>> {
    joined(&Name { path: Arc::clone(folder), resolved: folder.len() }, path).map(|name| name.path)
}

/// A path that other records begin at.
#[derive(Clone)]
struct Name {
    path: Arc<[u8]>,
    /// So many of its bytes lead through no symbolic link: `..` behind them is the folder above.
    resolved: usize,
}

/// A path that begins at another one, without `.`, and without `..` as far as that is safe. `None` where it is too long.
fn joined(base: &Name, path: &[u8]) -> Option<Name> {
    let is_absolute = path.starts_with(b"/");
    let mut joined = if is_absolute { b"/".to_vec() } else { base.path.to_vec() };
    let mut resolved = if is_absolute { 1 } else { base.resolved };
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if part == b".." && joined.len() <= resolved {
            let above = joined.iter().rposition(|byte| *byte == b'/').unwrap_or(0).max(1);
            joined.truncate(above);
            resolved = above;
            continue;
        }
        if joined.last() != Some(&b'/') {
            joined.push(b'/');
        }
        joined.extend_from_slice(part);
    }
    (joined.len() < LONGEST).then(|| Name { path: joined.into(), resolved })
}

/// The longest path that the kernel takes, with its terminator.
const LONGEST: usize = libc::PATH_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str, resolved: usize) -> Name {
        Name { path: path.as_bytes().into(), resolved }
    }

    #[test]
    fn dots_are_removed_where_no_link_can_be_in_the_way() {
        let folder = || name("/a/b", 4);
        let cases = [
            ("c/./d//e/", "/a/b/c/d/e"),
            ("../c", "/a/c"),
            ("../../../c", "/c"),
            ("..", "/a"),
            ("c/../d", "/a/b/c/../d"),
            ("/x/.", "/x"),
            ("/", "/"),
            ("/..", "/"),
            ("/x/../y", "/x/../y"),
            (".", "/a/b"),
        ];
        for (path, expected) in cases {
            let joined = joined(&folder(), path.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&joined.path), expected, "{path}");
        }
        let through_link = joined(&name("/a/link", 2), b"../c").unwrap();
        assert_eq!(&*through_link.path, b"/a/link/../c");
        assert!(joined(&folder(), &[b'x'; 5000]).is_none());
    }
}
