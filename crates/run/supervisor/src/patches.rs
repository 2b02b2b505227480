//! Finds the system calls of one build of libc that can be redirected: `syscall` instructions that a jump may replace.
//!
//! A jump takes five bytes and `syscall` has two, so the jump also displaces the instruction beside it. That is the comparison
//! of the result behind it or, as in `brk`, the load of the call's number before it. Two conditions make this safe:
//!
//! - The agent's stubs can repeat the displaced instruction ([`Displaced`]).
//! - No jump can arrive between the first and the last byte of the two instructions.
//!
//! `syscall` keeps the flags and a stub does not. Where no comparison sets them anew, other code must do so before it uses
//! any. [`find`] proves all this as far as code without source allows, and leaves a site out when in doubt. A site left out
//! hides some calls from the agent; a wrong site would break the program.
//!
//! The call that starts a thread or a process on a stack of its own ([`layout::CLONE3`]) is made behind the end of its function's
//! description. That site is taken where the function ends with the load of the number.
//!
//! Control may arrive at these places, in all executable memory of the file:
//!
//! - targets of branches and calls, and addresses that an instruction takes relative to itself,
//! - relocated pointers, symbols, starts of functions, landing pads of exceptions.
//!
//! That covers every indirect jump except those to a computed address (jump tables of offsets). Functions that make such a jump
//! keep their `syscall` instructions, and so do functions that run into those.

mod arrivals;
mod cache;
mod calls;
mod find;
mod flow;
mod image;
mod locate;
mod registers;

pub use cache::{CACHE_VERSION, cached_for, cached_in};
pub use calls::{Tier, call_name, select};
pub use find::{Census, examine, find};
pub use locate::libc_path;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::{fmt, io};

use forebay_protocol::layout::{self, Displaced, NUMBER_UNKNOWN, PATCH_SITES};

/// Longest build-id that the channel has room for, in bytes.
pub const BUILD_ID_BYTES_MAX: usize = 32;

/// The patch sites of one build of libc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchTable {
    /// GNU build-id of the library, 1 to [`BUILD_ID_BYTES_MAX`] bytes.
    pub build_id: Vec<u8>,
    /// Sites in ascending order of offset; no two overlap.
    pub sites: Vec<Site>,
}

/// A `syscall` instruction that can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Offset in bytes of the first instruction from the address that the library is loaded at.
    pub offset: u32,
    /// The instruction beside it.
    pub displaced: Displaced,
    /// The system call's number, where every way to the site sets the same, or the site itself does.
    pub number: Option<u16>,
    /// The function that it is in.
    pub within: Within,
}

/// Functions of libc in which a site has a meaning of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Within {
    /// Any other.
    #[default]
    Other = 0,
    /// `syscall`, whose callers name the call.
    Syscall = 1,
    /// `mq_close`, which calls `close` on message queues only.
    MqClose = 2,
    /// `pthread_sigmask`, by which programs block signals.
    SignalMask = 3,
    /// `fork`, where the child goes on on the same stack.
    Fork = 4,
}

impl Within {
    /// The function with this name.
    fn from_name(name: &[u8]) -> Self {
        match name {
            b"syscall" => Self::Syscall,
            b"mq_close" => Self::MqClose,
            b"pthread_sigmask" => Self::SignalMask,
            b"fork" | b"_Fork" => Self::Fork,
            _ => Self::Other,
        }
    }

    /// The variant with this number.
    const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Other),
            1 => Some(Self::Syscall),
            2 => Some(Self::MqClose),
            3 => Some(Self::SignalMask),
            4 => Some(Self::Fork),
            _ => None,
        }
    }
}

impl Site {
    /// Length in bytes of what the jump may overwrite: the `syscall` and the instruction beside it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.displaced.site_len() as u32
    }

    /// Never: a site has at least 7 bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Offset of the first byte behind the site.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset as u64 + self.len() as u64
    }

    /// The 4 KiB pages that it lies on.
    pub fn pages(&self) -> RangeInclusive<u32> {
        self.offset >> 12..=((self.end() - 1) >> 12) as u32
    }

    /// The word that stands for the site in [`layout::PatchTable::sites`], which has no place for
    /// [`Site::within`].
    #[must_use]
    pub fn to_word(&self) -> u64 {
        let number = self.number.map_or(NUMBER_UNKNOWN, u64::from).min(NUMBER_UNKNOWN);
        u64::from(self.offset) | (self.displaced as u64) << 32 | number << 40
    }

    /// The site that a word of [`layout::PatchTable::sites`] stands for; `None` where it stands for none.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let number = word >> 40;
        let displaced = Displaced::from_u8((word >> 32) as u8)?;
        let unnumbered = number == NUMBER_UNKNOWN;
        if number > NUMBER_UNKNOWN || (unnumbered && displaced == Displaced::MovEaxNumber) {
            return None;
        }
        let number = (!unnumbered).then_some(number as u16);
        Some(Self { offset: word as u32, displaced, number, within: Within::Other })
    }
}

/// The 4 KiB pages of the library that patching these sites writes to. Each costs every process a copy at start.
#[must_use]
pub fn pages(sites: &[Site]) -> BTreeSet<u32> {
    sites.iter().flat_map(Site::pages).collect()
}

/// Whether the sites are in order and apart from each other.
fn well_ordered(sites: &[Site]) -> bool {
    sites.windows(2).all(|pair| pair[0].end() <= u64::from(pair[1].offset))
        && sites.last().is_none_or(|last| last.end() <= u64::from(u32::MAX))
}

impl PatchTable {
    /// The same library with `sites` (see [`select`]) only.
    #[must_use]
    pub fn with_sites(&self, sites: Vec<Site>) -> Self {
        Self { build_id: self.build_id.clone(), sites }
    }

    /// Writes the table to the memory that agents read, the length of the build-id last. A table that does not
    /// fit ([`PATCH_SITES`], [`BUILD_ID_BYTES_MAX`]) is stored as far as it fits; the return value is the number
    /// of sites stored.
    pub fn store(&self, into: &layout::PatchTable) -> usize {
        into.build_id_len.store(0, Release);
        if self.build_id.len() > into.build_id.len() {
            into.len.store(0, Release);
            return 0;
        }
        let stored = self.sites.len().min(PATCH_SITES);
        for (word, site) in into.sites.iter().zip(&self.sites) {
            word.store(site.to_word(), Relaxed);
        }
        for (place, byte) in into.build_id.iter().zip(&self.build_id) {
            place.store(*byte, Relaxed);
        }
        into.len.store(stored as u32, Release);
        into.build_id_len.store(self.build_id.len() as u32, Release);
        stored
    }

    /// Reads a table back from memory that others can write. `None` where it holds no table, or one that no
    /// [`PatchTable::store`] could have written.
    #[must_use]
    pub fn load(from: &layout::PatchTable) -> Option<Self> {
        let id_len = from.build_id_len.load(std::sync::atomic::Ordering::Acquire) as usize;
        let len = from.len.load(Relaxed) as usize;
        if id_len == 0 || id_len > from.build_id.len() || len > from.sites.len() {
            return None;
        }
        let build_id = from.build_id[..id_len].iter().map(|byte| byte.load(Relaxed)).collect();
        let sites: Vec<Site> = from.sites[..len]
            .iter()
            .map(|word| Site::from_word(word.load(Relaxed)))
            .collect::<Option<_>>()?;
        well_ordered(&sites).then_some(Self { build_id, sites })
    }
}

/// Why there is no patch table.
#[derive(Debug)]
pub enum PatchError {
    /// The file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is well-formed but not a library that this module understands.
    Unsupported {
        /// What was looked at, e.g. `machine`.
        what: &'static str,
        /// What it has to be.
        needs: &'static str,
        /// What it is.
        found: String,
    },
    /// A structure in the file is damaged or cut off.
    Malformed {
        /// The structure, e.g. `program headers`.
        what: &'static str,
        /// What is wrong with it.
        found: String,
    },
    /// Something that the decoder depends on is absent, e.g. a build-id.
    Missing {
        /// What is absent.
        what: &'static str,
    },
    /// The file asks for more work than any libc does.
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
        /// How many there are, at least.
        found: u64,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Unsupported { what, needs, found } => {
                write!(f, "not a library that can be patched: its {what} is {found}, not {needs}")
            }
            Self::Malformed { what, found } => write!(f, "damaged ELF file: {what}: {found}"),
            Self::Missing { what } => write!(f, "the library has no {what}"),
            Self::TooLarge { what, limit, found } => {
                write!(f, "the library has too many {what}: {found}, where {limit} are allowed")
            }
        }
    }
}

impl std::error::Error for PatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
