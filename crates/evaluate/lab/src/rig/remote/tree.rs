//! The files of a remote file system: folders, files and links in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};

/// Names of a folder before the first of its own: `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// All files by number; the root has number 1.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    /// The one that it was made with.
    name: OsString,
    attributes: FileAttr,
    content: Content,
    /// Answers that told the kernel of the file, less what the kernel has forgotten.
    known: u64,
}

#[derive(Debug)]
pub(super) enum Content {
    File(Vec<u8>),
    Link(PathBuf),
    Folder(Folder),
}

/// A place in a listing stays that of its name, whatever is added or removed.
#[derive(Debug, Default)]
pub(super) struct Folder {
    parent: u64,
    next: u64,
    names: HashMap<OsString, (u64, u64)>,
    order: BTreeMap<u64, OsString>,
}

/// What a new file belongs to, and may be used for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

/// One name of a listing.
pub(super) struct Listed {
    pub(super) inode: INodeNo,
    /// Where the listing goes on behind it.
    pub(super) next: u64,
    pub(super) kind: FileType,
    pub(super) name: OsString,
}

/// What to change of a file's attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<SystemTime>,
}

impl Tree {
    /// An empty folder.
    pub(super) fn new() -> Self {
        let mut tree = Self { nodes: HashMap::new(), next: INodeNo::ROOT.0 };
        let owner = Owner { uid: 0, gid: 0, mode: 0o755 };
        tree.insert(OsStr::new(""), owner, Content::Folder(Folder::new(INodeNo::ROOT.0)));
        tree
    }

    pub(super) fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let node = self.nodes.get(&inode.0).ok_or(Errno::ENOENT)?;
        let mut attributes = node.attributes;
        attributes.size = match &node.content {
            Content::File(data) => data.len() as u64,
            Content::Link(target) => target.as_os_str().len() as u64,
            Content::Folder(_) => 4096,
        };
        attributes.blocks = attributes.size.div_ceil(512);
        Ok(attributes)
    }

    /// The name that a file was made with.
    pub(super) fn first_name(&self, inode: INodeNo) -> &OsStr {
        self.nodes.get(&inode.0).map_or(OsStr::new(""), |node| &node.name)
    }

    /// The file of this name, which the kernel knows from now on.
    pub(super) fn look_up(&mut self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let number = self.folder(parent)?.names.get(name).ok_or(Errno::ENOENT)?.0;
        self.tell(number)
    }

    /// Makes a file that is not there yet, which the kernel knows from now on.
    pub(super) fn make(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        owner: Owner,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        if self.folder(parent)?.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let number = self.insert(name, owner, content);
        self.folder(parent)?.add(name, number);
        self.tell(number)
    }

    pub(super) fn make_folder(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        owner: Owner,
    ) -> Result<FileAttr, Errno> {
        self.make(parent, name, owner, Content::Folder(Folder::new(parent.0)))
    }

    /// Gives a file one more name.
    pub(super) fn link(&mut self, inode: INodeNo, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        if self.folder(parent)?.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.node(inode.0)?.attributes.nlink += 1;
        self.folder(parent)?.add(name, inode.0);
        self.tell(inode.0)
    }

    /// Takes a name away, and with its last one the file, once the kernel has forgotten it.
    pub(super) fn remove(&mut self, parent: INodeNo, name: &OsStr, is_folder: bool) -> Result<(), Errno> {
        let number = self.folder(parent)?.names.get(name).ok_or(Errno::ENOENT)?.0;
        match (&self.node(number)?.content, is_folder) {
            (Content::Folder(folder), true) if !folder.names.is_empty() => return Err(Errno::ENOTEMPTY),
            (Content::Folder(_), false) => return Err(Errno::EISDIR),
            (Content::File(_) | Content::Link(_), true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.folder(parent)?.remove(name);
        let node = self.node(number)?;
        node.attributes.nlink = if is_folder { 0 } else { node.attributes.nlink - 1 };
        self.forget(INodeNo(number), 0);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
    ) -> Result<(), Errno> {
        let number = self.folder(parent)?.names.get(name).ok_or(Errno::ENOENT)?.0;
        let replaced = self.folder(new_parent)?.names.get(new_name).map(|(replaced, _)| *replaced);
        if replaced == Some(number) {
            return Ok(());
        }
        let is_folder = matches!(self.node(number)?.content, Content::Folder(_));
        if replaced.is_some() {
            self.remove(new_parent, new_name, is_folder)?;
        }
        self.folder(parent)?.remove(name);
        self.folder(new_parent)?.add(new_name, number);
        if let Content::Folder(folder) = &mut self.node(number)?.content {
            folder.parent = new_parent.0;
        }
        Ok(())
    }

    pub(super) fn change(&mut self, inode: INodeNo, change: Change) -> Result<FileAttr, Errno> {
        let node = self.node(inode.0)?;
        let now = SystemTime::now();
        if let (Some(size), Content::File(data)) = (change.size, &mut node.content) {
            data.resize(usize::try_from(size).map_err(|_| Errno::EFBIG)?, 0);
            node.attributes.mtime = now;
        }
        let attributes = &mut node.attributes;
        attributes.perm = change.mode.map_or(attributes.perm, |mode| (mode & 0o7777) as u16);
        attributes.uid = change.uid.unwrap_or(attributes.uid);
        attributes.gid = change.gid.unwrap_or(attributes.gid);
        attributes.mtime = change.mtime.unwrap_or(attributes.mtime);
        attributes.ctime = now;
        self.attributes(inode)
    }

    /// Bytes of a file, fewer at its end.
    pub(super) fn read(&self, inode: INodeNo, offset: u64, size: usize) -> Result<Vec<u8>, Errno> {
        match &self.nodes.get(&inode.0).ok_or(Errno::ENOENT)?.content {
            Content::File(data) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
                Ok(data[start..start.saturating_add(size).min(data.len())].to_vec())
            }
            Content::Link(target) => Ok(target.as_os_str().as_encoded_bytes().to_vec()),
            Content::Folder(_) => Err(Errno::EISDIR),
        }
    }

    pub(super) fn write(&mut self, inode: INodeNo, offset: u64, new: &[u8]) -> Result<(), Errno> {
        let node = self.node(inode.0)?;
        let Content::File(data) = &mut node.content else { return Err(Errno::EISDIR) };
        let start = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        let end = start.checked_add(new.len()).ok_or(Errno::EFBIG)?;
        if data.len() < end {
            data.resize(end, 0);
        }
        data[start..end].copy_from_slice(new);
        node.attributes.mtime = SystemTime::now();
        Ok(())
    }

    /// The names of a folder from `place` on.
    pub(super) fn list(&mut self, inode: INodeNo, place: u64) -> Result<Vec<Listed>, Errno> {
        let folder = self.folder(inode)?;
        let dots = [(1, inode.0, "."), (2, folder.parent, "..")];
        let names = folder.order.range(place + 1..).filter_map(|(cookie, name)| {
            let (number, _) = folder.names.get(name)?;
            Some((*cookie, *number, name.clone()))
        });
        let dots = dots.into_iter().filter(|(cookie, ..)| *cookie > place);
        let all: Vec<_> =
            dots.map(|(cookie, number, name)| (cookie, number, name.into())).chain(names).collect();
        let kind = |number| self.nodes.get(&number).map_or(FileType::Directory, |node| node.attributes.kind);
        let listed = |(next, number, name)| Listed { inode: INodeNo(number), next, kind: kind(number), name };
        Ok(all.into_iter().map(listed).collect())
    }

    /// The kernel has forgotten `count` answers that told it of the file.
    pub(super) fn forget(&mut self, inode: INodeNo, count: u64) {
        let Ok(node) = self.node(inode.0) else { return };
        node.known = node.known.saturating_sub(count);
        if node.known == 0 && node.attributes.nlink == 0 {
            self.nodes.remove(&inode.0);
        }
    }

    fn node(&mut self, number: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).ok_or(Errno::ENOENT)
    }

    fn folder(&mut self, inode: INodeNo) -> Result<&mut Folder, Errno> {
        match &mut self.node(inode.0)?.content {
            Content::Folder(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn tell(&mut self, number: u64) -> Result<FileAttr, Errno> {
        self.node(number)?.known += 1;
        self.attributes(INodeNo(number))
    }

    fn insert(&mut self, name: &OsStr, owner: Owner, content: Content) -> u64 {
        let number = self.next;
        self.next += 1;
        let now = SystemTime::now();
        let kind = match content {
            Content::File(_) => FileType::RegularFile,
            Content::Link(_) => FileType::Symlink,
            Content::Folder(_) => FileType::Directory,
        };
        let attributes = FileAttr {
            ino: INodeNo(number),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: (owner.mode & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        self.nodes.insert(number, Node { name: name.to_owned(), attributes, content, known: 0 });
        number
    }
}

impl Folder {
    fn new(parent: u64) -> Self {
        Self { parent, next: FIRST_COOKIE, ..Self::default() }
    }

    fn add(&mut self, name: &OsStr, number: u64) {
        self.names.insert(name.to_owned(), (number, self.next));
        self.order.insert(self.next, name.to_owned());
        self.next += 1;
    }

    fn remove(&mut self, name: &OsStr) {
        if let Some((_, cookie)) = self.names.remove(name) {
            self.order.remove(&cookie);
        }
    }
}
