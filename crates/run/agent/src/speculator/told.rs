//! Paths of which the program was told what is not in any file system: figures that were predicted, and files that it has made.
//!
//! A program compares the file that it opens with what it was told of the path, and leaves out a file that was replaced
//! meanwhile. So the speculator goes on to tell the number that it has made up of a path, also when the file is known. A
//! program goes on with a file or directory that it has made, so a speculator finds these too.

use forebay_protocol::signature::Signature;

const PATHS_MAX: usize = 4096;
/// The last bits of a place say what was told of its path.
const CLAIM: u64 = 3;

/// What the program was told of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It was looked up, and the figures were predicted.
    Predicted,
    /// The program has made it: a file.
    File,
    /// The program has made it: a directory.
    Directory,
}

/// The paths, by their hashes. Where two share a place the later one is kept.
pub struct Told {
    paths: [u64; PATHS_MAX],
    any: bool,
    any_made: bool,
}

impl Told {
    /// The number that stands for the file of a path.
    pub fn number(path: &[u8]) -> u64 {
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let path = path.get(..end).unwrap_or_default();
        (Signature::call(0).bytes(path).value() & !CLAIM).max(CLAIM + 1)
    }

    fn place(&mut self, number: u64) -> Option<&mut u64> {
        self.paths.get_mut((number >> 20) as usize % PATHS_MAX)
    }

    /// Whether anything was told of any path.
    pub const fn has_any(&self) -> bool {
        self.any
    }

    /// Whether the program has made any file.
    pub const fn has_made(&self) -> bool {
        self.any_made
    }

    /// The program is told so of a path.
    pub fn tell(&mut self, path: &[u8], claim: Claim) -> u64 {
        let number = Self::number(path);
        if let Some(place) = self.place(number) {
            *place = number | claim as u64;
        }
        self.any = true;
        self.any_made |= claim != Claim::Predicted;
        number
    }

    /// What the program was told of a path.
    pub fn of(&mut self, path: &[u8]) -> Option<Claim> {
        let number = Self::number(path);
        let found = *self.place(number)?;
        match found & CLAIM {
            _ if found & !CLAIM != number => None,
            0 => Some(Claim::Predicted),
            1 => Some(Claim::File),
            2 => Some(Claim::Directory),
            _ => None,
        }
    }

    /// The program has removed what is at the path, or moved it.
    pub fn forget(&mut self, path: &[u8]) -> Option<Claim> {
        let claim = self.of(path)?;
        let number = Self::number(path);
        if let Some(place) = self.place(number) {
            *place = 0;
        }
        Some(claim)
    }
}
