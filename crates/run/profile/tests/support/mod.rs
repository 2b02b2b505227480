//! Short ways to write needs, files and profiles.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::ops::Range;

use forebay_profile::{Command, Identity, Kind, Need, Origin, PAGE_BYTES, Profile, Scope};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

pub fn need(at_us: u32, path: &str, kind: Kind, range: Range<u64>) -> Need {
    Need { at_us, path: path.as_bytes().to_vec(), kind, range }
}

pub fn read(at_us: u32, path: &str, range: Range<u64>) -> Need {
    need(at_us, path, Kind::Read, range)
}

pub fn look_up(at_us: u32, path: &str) -> Need {
    need(at_us, path, Kind::LookUp, 0..0)
}

pub fn missing(at_us: u32, path: &str) -> Need {
    need(at_us, path, Kind::Missing, 0..0)
}

/// A file of this size, unchanged as long as the time is the same.
pub fn file(size: u64, mtime_ns: i64) -> Identity {
    Identity { dev: 2050, ino: 1_234_567, size, mtime_ns }
}

/// All files have this size, and were last changed at the same time.
pub fn all_of(size: u64) -> impl Fn(&[u8]) -> Option<Identity> {
    move |_| Some(file(size, 1))
}

/// The profile that all commands of a level share here: the whole one, the subject's, the program's.
pub fn empty(level: usize) -> Profile {
    let command = Command { program: b"/usr/bin/tool", arguments: &[b"sub", b"-x"], directory: b"/work" };
    let scope = Scope::of(&command, |_| false).remove(level);
    Profile::new(scope.key, Origin::new(&[b"tool", b"sub", b"-x"], b"/work"))
}

pub const WHOLE: usize = 0;
pub const SUBJECT: usize = 1;
pub const PROGRAM: usize = 2;

/// Each path with the bytes of its ranges and when they are needed.
pub fn ranges(profile: &Profile) -> HashMap<String, Vec<(Range<u64>, u32)>> {
    let of = |entry: &forebay_profile::Entry| {
        let spans = entry.spans.iter();
        let bytes = spans
            .map(|span| (span.pages.start * PAGE_BYTES..span.pages.end * PAGE_BYTES, span.first_us))
            .collect();
        (String::from_utf8_lossy(&entry.path).into_owned(), bytes)
    };
    profile.entries().iter().map(of).collect()
}

pub fn paths(profile: &Profile) -> Vec<String> {
    profile.entries().iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}
