//! What a directory tree holds, in a form that can be compared.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A file's modification time counts when the set-up or the program chose it; later ones are "now".
const CHOSEN_BEFORE_S: i64 = 1_600_000_000;

/// One name of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    device: u64,
    modified: Option<(i64, i64)>,
    /// Whether it has been read since the set-up.
    read: bool,
    content: Content,
    target: Option<PathBuf>,
}

/// What a file holds. Only the beginning is shown.
#[derive(Clone, Default, PartialEq, Eq)]
struct Content(Vec<u8>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 300;
        write!(f, "{:?}", String::from_utf8_lossy(&self.0[..self.0.len().min(SHOWN)]))
    }
}

/// Every name below a directory, by its path from there.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// Takes the tree below `root`, without following symbolic links.
///
/// # Panics
/// When a name cannot be examined.
#[must_use]
pub fn take(root: &Path) -> Tree {
    let mut tree = Tree::new();
    visit(root, root, &mut tree);
    tree
}

fn visit(root: &Path, directory: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = entry.expect("a directory entry").path();
        let meta = fs::symlink_metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let kind = meta.file_type();
        let mut found = Entry {
            kind: "file",
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            size: meta.size(),
            device: 0,
            modified: Some((meta.mtime(), meta.mtime_nsec())).filter(|&(s, _)| s < CHOSEN_BEFORE_S),
            read: kind.is_file() && (meta.atime(), meta.atime_nsec()) != (crate::scratch::MODIFIED_S, 0),
            content: Content::default(),
            target: None,
        };
        if kind.is_dir() {
            found.kind = "directory";
            found.size = 0;
            visit(root, &path, tree);
        } else if kind.is_symlink() {
            found.kind = "symbolic link";
            found.target = fs::read_link(&path).ok();
        } else if kind.is_file() {
            found.content = Content(fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        } else {
            found.kind = if kind.is_fifo() {
                "fifo"
            } else if kind.is_socket() {
                "socket"
            } else {
                "device"
            };
            found.device = meta.rdev();
        }
        let name = path.strip_prefix(root).expect("below the root").to_owned();
        tree.insert(name, found);
    }
}

/// Describes how `with` differs from `without`, one line a name.
#[must_use]
pub fn differences(without: &Tree, with: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, entry) in without {
        match with.get(name) {
            None => lines.push(format!("{} is missing with forebay", name.display())),
            Some(other) if other != entry => {
                let equal = entry.content.0.iter().zip(&other.content.0).take_while(|(a, b)| a == b).count();
                lines.push(format!(
                    "{}: (the first {equal} bytes are equal)\n    without {entry:?}\n    with    {other:?}",
                    name.display()
                ));
            }
            Some(_) => {}
        }
    }
    lines.extend(
        with.keys()
            .filter(|name| !without.contains_key(*name))
            .map(|name| format!("{} exists only with forebay", name.display())),
    );
    lines
}
