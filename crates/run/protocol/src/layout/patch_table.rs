//! Where libc's `syscall` instructions are.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Patch sites that fit the header.
pub const PATCH_SITES: usize = 512;

/// Where the `syscall` instructions of one libc are that a jump can take the place of.
#[repr(C)]
pub struct PatchTable {
    /// Length in bytes of [`PatchTable::build_id`]; 0 where no table could be made.
    pub build_id_len: AtomicU32,
    /// GNU build-id of the library that the offsets are of.
    pub build_id: [AtomicU8; 32],
    /// Entries of [`PatchTable::sites`] in use.
    pub len: AtomicU32,
    /// One word a site: low 32 bits the offset of its first byte from the library's load address,
    /// bits 32..40 a [`Displaced`], bits 40..52 the system call number where it is known, else
    /// [`NUMBER_UNKNOWN`].
    pub sites: [AtomicU64; PATCH_SITES],
}

/// Stands for a system call number that only shows at run time.
pub const NUMBER_UNKNOWN: u64 = 0xfff;
/// The call that starts a child on a stack of its own: what is on the stack at its site is not there behind it, in the child.
pub const CLONE3: u16 = 435;
/// Bytes of the longest patch site.
pub const SITE_BYTES_MAX: usize = 8;

/// The instruction beside `syscall` at a patch site, which the jump displaces and the stub repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Displaced {
    /// `cmp rax, -4096` behind it (48 3d 00 f0 ff ff).
    CmpRaxFffff000 = 0,
    /// `cmp rax, -4095` behind it (48 3d 01 f0 ff ff).
    CmpRaxFffff001 = 1,
    /// `cmp eax, -4096` behind it (3d 00 f0 ff ff).
    CmpEaxFffff000 = 2,
    /// `mov eax, NUMBER` before it (b8 and four bytes). What follows needs none of the flags.
    MovEaxNumber = 3,
}

impl Displaced {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] =
        [Self::CmpRaxFffff000, Self::CmpRaxFffff001, Self::CmpEaxFffff000, Self::MovEaxNumber];

    /// The variant with this number.
    #[must_use]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::CmpRaxFffff000),
            1 => Some(Self::CmpRaxFffff001),
            2 => Some(Self::CmpEaxFffff000),
            3 => Some(Self::MovEaxNumber),
            _ => None,
        }
    }

    /// Length in bytes of a site.
    #[must_use]
    pub const fn site_len(self) -> usize {
        match self {
            Self::CmpRaxFffff000 | Self::CmpRaxFffff001 => 8,
            Self::CmpEaxFffff000 | Self::MovEaxNumber => 7,
        }
    }

    /// The code of a site that makes the call `number`: the first [`Displaced::site_len`] bytes.
    #[must_use]
    pub const fn site_code(self, number: u16) -> [u8; SITE_BYTES_MAX] {
        let [low, high] = number.to_le_bytes();
        match self {
            Self::CmpRaxFffff000 => [0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff],
            Self::CmpRaxFffff001 => [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
            Self::CmpEaxFffff000 => [0x0f, 0x05, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0],
            Self::MovEaxNumber => [0xb8, low, high, 0, 0, 0x0f, 0x05, 0],
        }
    }
}
