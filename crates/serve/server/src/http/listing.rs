//! The list of what can be played: files of the folders and their subfolders that are called as media files are.
//!
//! A walk through the folders takes a thread of its own, and all who ask meanwhile get the same list.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use forebay_rtsp::target::{bytes_of, text_of};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, FileType, OFlags, fstat};
use serde_json::json;

use crate::folders::{Root, Roots};

/// Files of a folder in a list, and what is looked at to find them.
const FILES_MAX: usize = 10_000;
const ENTRIES_MAX: usize = 200_000;
/// How deep subfolders are.
const DEPTH_MAX: usize = 32;
/// How media files are called, in small letters.
const ENDINGS: &[&str] = &[
    "mp4", "m4v", "m4a", "mov", "3gp", "mkv", "mka", "webm", "ts", "m2ts", "mts", "m2t", "h264", "264",
    "h265", "265", "hevc", "aac", "mp3", "mp2", "avi", "wav", "ogg", "oga", "opus", "flv", "m3u", "m3u8",
];
/// What a path in a URL is escaped of.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What there is to play.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the order of their paths.
    pub files: Vec<Listed>,
    /// Whether there are more of them.
    pub is_cut: bool,
}

/// A file of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// As URLs have it, but not escaped.
    pub path: String,
    pub bytes: u64,
    /// In seconds since 1 January 1970.
    pub modified_s: i64,
}

impl Listing {
    /// Walks through the folders. What cannot be read is left out.
    pub fn of(roots: &Roots) -> Self {
        let mut listing = Self::default();
        for root in &roots.all {
            let mut walk = Walk { root, seen: HashSet::new(), entries: 0, listing: Self::default() };
            walk.folder(Path::new(""), 0);
            listing.files.append(&mut walk.listing.files);
            listing.is_cut |= walk.listing.is_cut;
        }
        listing.files.sort_by(|one, other| one.path.cmp(&other.path));
        listing
    }

    /// The files in a folder and its subfolders.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Listed> {
        let begin = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.files.iter().filter(move |file| file.path.starts_with(&begin))
    }
}

struct Walk<'a> {
    root: &'a Root,
    /// Folders, by device and number: links may lead back.
    seen: HashSet<(u64, u64)>,
    entries: usize,
    listing: Listing,
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, depth: usize) {
        let name = if depth == 0 { Path::new(".") } else { path };
        let Ok(folder) = self.root.open_at(name, OFlags::RDONLY | OFlags::DIRECTORY) else { return };
        let is_new = fstat(&folder).is_ok_and(|about| self.seen.insert((about.st_dev, about.st_ino)));
        let Some(entries) = is_new.then(|| Dir::read_from(&folder).ok()).flatten() else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name.starts_with(b".") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX || self.listing.files.len() >= FILES_MAX {
                self.listing.is_cut = true;
                return;
            }
            let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name);
            self.entry(path.join(name), entry.file_type(), depth);
        }
    }

    fn entry(&mut self, path: PathBuf, kind: FileType, depth: usize) {
        if kind == FileType::Directory && depth < DEPTH_MAX {
            return self.folder(&path, depth + 1);
        }
        let may_lead_on = matches!(kind, FileType::Symlink | FileType::Unknown);
        let is_media = kind == FileType::RegularFile && is_called_media(&path);
        if !may_lead_on && !is_media {
            return;
        }
        let Ok(found) = self.root.open_at(&path, OFlags::PATH) else { return };
        let Ok(about) = fstat(&found) else { return };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory if depth < DEPTH_MAX => self.folder(&path, depth + 1),
            FileType::RegularFile if is_called_media(&path) => self.listing.files.push(Listed {
                path: self.root.path_of(&text_of(path.as_os_str().as_encoded_bytes())),
                bytes: about.st_size as u64,
                modified_s: about.st_mtime,
            }),
            _ => {}
        }
    }
}

fn is_called_media(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}

/// A path as it stands in a URL.
pub(super) fn escaped(path: &str) -> String {
    percent_encode(&bytes_of(path), ESCAPED).to_string()
}

/// A path for people.
pub(super) fn shown(path: &str) -> String {
    String::from_utf8_lossy(&bytes_of(path)).replace(char::is_control, " ")
}

/// Where a server is, as its client knows it: `host:port`, and whether connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub host: String,
    pub is_encrypted: bool,
}

impl Place {
    pub fn rtsp(&self, path: &str) -> String {
        format!("{}://{}/{}", if self.is_encrypted { "rtsps" } else { "rtsp" }, self.host, escaped(path))
    }

    pub fn http(&self, path: &str) -> String {
        format!("{}://{}/{}", if self.is_encrypted { "https" } else { "http" }, self.host, escaped(path))
    }
}

/// The list for programs.
pub(super) fn json<'a>(files: impl Iterator<Item = &'a Listed>, is_cut: bool, place: &Place) -> String {
    let all: Vec<_> = files
        .map(|file| {
            let page = place.http(&file.path);
            json!({
                "path": shown(&file.path),
                "bytes": file.bytes,
                "modified": file.modified_s,
                "rtsp": place.rtsp(&file.path),
                "hls": format!("{page}/master.m3u8"),
                "page": page,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "files": all, "complete": !is_cut }))
}

/// The list for players.
pub(super) fn m3u<'a>(files: impl Iterator<Item = &'a Listed>, place: &Place) -> String {
    let entry = |file: &Listed| {
        let name = shown(&file.path);
        format!("#EXTINF:-1,{}\n{}\n", name.rsplit('/').next().unwrap_or_default(), place.rtsp(&file.path))
    };
    "#EXTM3U\n".to_owned() + &files.map(entry).collect::<String>()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::settings::Folder;

    #[test]
    fn files_called_as_media_are_listed_and_none_from_outside() {
        let (folder, elsewhere) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("old/deep")).expect("folders");
        for name in ["a b.mp4", "old/deep/c.MKV", "notes.txt", ".hidden.mp4", "old/d.ts"] {
            std::fs::write(at(name), name).expect("a file");
        }
        std::fs::write(elsewhere.path().join("out.mp4"), "x").expect("a file");
        symlink(elsewhere.path().join("out.mp4"), at("out.mp4")).expect("a link");
        symlink(".", at("old/round")).expect("a link");
        symlink("a b.mp4", at("same.mp4")).expect("a link");
        let paths = |follows| {
            let folders = [Folder::sole(folder.path().to_owned())];
            let listing = Listing::of(&Roots::open(&folders, follows).expect("a folder"));
            assert!(!listing.is_cut);
            listing.files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(false), ["a b.mp4", "old/d.ts", "old/deep/c.MKV", "same.mp4"]);
        assert_eq!(paths(true), ["a b.mp4", "old/d.ts", "old/deep/c.MKV", "out.mp4", "same.mp4"]);
    }

    #[test]
    fn lists_have_urls_that_lead_to_their_files() {
        let place = Place { host: "h:8554".to_owned(), is_encrypted: false };
        let file = Listed { path: "old/a b\u{F7FF}.mp4".to_owned(), bytes: 7, modified_s: 9 };
        assert_eq!(
            m3u([&file].into_iter(), &place),
            "#EXTM3U\n#EXTINF:-1,a b\u{FFFD}.mp4\nrtsp://h:8554/old/a%20b%FF.mp4\n"
        );
        let list: serde_json::Value =
            serde_json::from_str(&json([&file].into_iter(), true, &place)).expect("JSON");
        assert_eq!(list["complete"], false);
        assert_eq!(list["files"][0]["hls"], "http://h:8554/old/a%20b%FF.mp4/master.m3u8");
        assert_eq!(list["files"][0]["bytes"], 7);
    }
}
