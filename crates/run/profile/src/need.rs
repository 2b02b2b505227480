//! What a run needed, as the recorder delivers it.

use std::ops::Range;

use crate::spans::PAGE_BYTES;

/// How the program used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Data were read by a call.
    Read,
    /// Data were touched through a mapping.
    Mapped,
    /// A directory was listed.
    Directory,
    /// A path was looked up, and was there.
    LookUp,
    /// A path was looked up, and was not there.
    Missing,
    /// The target of a symbolic link was read.
    Link,
    /// A file was executed, or loaded as the interpreter of one.
    Executed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Mapped, Self::Directory, Self::LookUp, Self::Missing, Self::Link, Self::Executed];
}

/// Something that a run needed: once for each path, kind and range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Microseconds since the start of the run.
    pub at_us: u32,
    /// Absolute, without `.` and `..` where that is safe, symbolic links not resolved.
    pub path: Vec<u8>,
    /// How the program used it.
    pub kind: Kind,
    /// Bytes; empty where there are no data.
    pub range: Range<u64>,
}

/// What tells a file from another one and from a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the data, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl Identity {
    /// Whether `now` has the data of this file: same size and same time of change. Device and inode number do not count.
    /// Devices are numbered anew at each boot, some file systems number inodes anew, and a faithful copy has other ones.
    #[must_use]
    pub fn is_unchanged(&self, now: &Self) -> bool {
        self.size == now.size && self.mtime_ns == now.mtime_ns
    }

    /// Pages that the file has.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.size.div_ceil(PAGE_BYTES)
    }
}

/// A set of [`Kind`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// The set with this one kind.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// Whether the set has no kind.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has this kind.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 & Self::of(kind).0 != 0
    }

    /// The set with one kind more.
    #[must_use]
    pub fn with(self, kind: Kind) -> Self {
        Self(self.0 | Self::of(kind).0)
    }

    /// The set with the kinds of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As a number, a bit for each kind in the order of [`Kind::ALL`].
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits. Nothing for an empty set, an unknown bit, or a path both missing and there.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        let set = Self(bits);
        let is_known = bits != 0 && bits >> Kind::ALL.len() == 0;
        (is_known && (!set.has(Kind::Missing) || set == Self::of(Kind::Missing))).then_some(set)
    }
}
