//! The folders that are served, and the files in them: none outside is opened.
//!
//! A folder has a name, the first part of the paths of URLs; a folder that is the only one may have none.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use forebay_rtsp::message::Status;
use forebay_rtsp::target::bytes_of;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::catalog::{Failure, unreadable};
use crate::error::{Error, Result};
use crate::settings::Folder;

/// All folders, as they were opened together.
pub(crate) struct Roots {
    pub all: Vec<Arc<Root>>,
}

/// A folder.
pub(crate) struct Root {
    /// The first part of paths; empty if paths have none.
    name: String,
    /// As the settings have it.
    path: PathBuf,
    /// Where it is, as far as that can be told.
    place: PathBuf,
    folder: OwnedFd,
    /// Whether links may lead out of it.
    follows_links: bool,
}

/// A path, and which folder it is in.
#[derive(Clone)]
pub(crate) struct Found {
    pub root: Arc<Root>,
    /// As in URLs.
    pub path: String,
    /// Within the folder.
    pub rest: String,
}

impl Roots {
    /// Opens them.
    pub fn open(folders: &[Folder], follows_links: bool) -> Result<Self> {
        let all = folders.iter().map(|folder| Root::open(folder, follows_links).map(Arc::new));
        Ok(Self { all: all.collect::<Result<_>>()? })
    }

    /// Where a path leads.
    pub fn find(&self, path: &str) -> Result<Found, Failure> {
        for root in &self.all {
            let rest = if root.name.is_empty() {
                Some(path)
            } else {
                path.strip_prefix(&root.name).and_then(|rest| rest.strip_prefix('/'))
            };
            if let Some(rest) = rest {
                return Ok(Found { root: root.clone(), path: path.to_owned(), rest: rest.to_owned() });
            }
        }
        Err(no_folder(path))
    }
}

/// Why nothing is found at a path.
pub(crate) fn no_folder(path: &str) -> Failure {
    let sentence = format!("{path}: no folder is served under that name");
    Failure { status: Status::NotFound, sentence }
}

impl Root {
    fn open(folder: &Folder, follows_links: bool) -> Result<Self> {
        let Folder { name, path, .. } = folder;
        let failed = |error: Errno| Error::Folder { path: path.clone(), source: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(path, flags, Mode::empty()).map_err(failed)?;
        // To list it and to go into it takes other rights than to know that it is there.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&opened, ".", flags, Mode::empty()).map_err(failed)?;
        Ok(Self {
            name: name.clone(),
            path: path.clone(),
            place: path.canonicalize().unwrap_or_else(|_| path.clone()),
            folder: opened,
            follows_links,
        })
    }

    /// Whether settings still have it.
    pub fn is_among(&self, folders: &[Folder]) -> bool {
        folders.iter().any(|folder| folder.name == self.name && folder.path == self.path)
    }

    /// The path in URLs of what lies at a path within it.
    pub fn path_of(&self, rest: &str) -> String {
        if self.name.is_empty() { rest.to_owned() } else { format!("{}/{rest}", self.name) }
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What lies at a path in it, for other uses than to play it.
    pub fn open_at(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let beneath = if self.follows_links { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
        let resolve = beneath | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }
}

impl Found {
    /// Another path in the same folder.
    pub fn beside(&self, rest: String) -> Self {
        Self { root: self.root.clone(), path: self.root.path_of(&rest), rest }
    }

    /// Where it is on this machine.
    pub fn place(&self) -> PathBuf {
        self.root.place().join(OsStr::from_bytes(&bytes_of(&self.rest)))
    }

    /// The file. Links may lead anywhere within the folder, and out of it where that is allowed.
    pub fn file(&self) -> Result<File, Failure> {
        let path = &self.path;
        let refuse = |status, why: &str| Failure { status, sentence: format!("{path}: {why}") };
        let name = bytes_of(&self.rest);
        let name = Path::new(OsStr::from_bytes(&name));
        let is_plain = |part: Component| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if self.rest.is_empty() || !name.components().all(is_plain) {
            return Err(refuse(Status::NotFound, "it is no name of a file in the folder"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.root.open_at(name, flags).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => {
                refuse(Status::NotFound, "there is no such file")
            }
            Errno::XDEV | Errno::LOOP => {
                refuse(Status::Forbidden, "it is a link out of the folder; --follow-links allows such links")
            }
            Errno::ACCESS | Errno::PERM => refuse(Status::Forbidden, "this user may not read it"),
            error => unreadable(path, &error.into()),
        })?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
        if !metadata.is_file() {
            return Err(refuse(Status::NotFound, "it is no file"));
        }
        Ok(file)
    }
}
