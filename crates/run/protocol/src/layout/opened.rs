//! Files that the executor has opened ahead of the program, which takes them in place of opens of its own.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::signature::Signature;

/// Files that are open ahead of programs at once.
pub const OPENED: usize = 256;
/// While so many are, no more opens are begun: the rest is for those that have.
pub const OPENED_ENOUGH: u32 = OPENED as u32 / 2;

/// One file.
#[repr(C)]
pub struct OpenedFile {
    /// [`OPENED_FREE`], [`OPENED_RESERVED`], [`OPENED_READY`] or [`OPENED_TAKEN`].
    pub state: AtomicU32,
    /// Descriptor of the executor's: a socket with one message, which has the file.
    pub socket: AtomicU32,
    /// Tells the open: [`open_key`].
    pub key: AtomicU64,
    /// When the file was opened.
    pub opened_at: AtomicU64,
    /// What told the file from others, and from what it may become: [`Figures::value`].
    pub figures: AtomicU64,
}

/// There is none.
pub const OPENED_FREE: u32 = 0;
/// The executor is opening one, or closing it.
pub const OPENED_RESERVED: u32 = 1;
/// The program may take it.
pub const OPENED_READY: u32 = 2;
/// The program is taking it.
pub const OPENED_TAKEN: u32 = 3;

/// Flags of open(2) that a file may be opened ahead with, on x86-64: O_NONBLOCK and O_NOFOLLOW. Of others there are left out
/// those that an open descriptor does not show: O_CLOEXEC, O_NOCTTY, and O_LARGEFILE, which all have.
const OPENED_FLAGS: u32 = 0o40_4000;
/// The flags that are left out.
const OPENED_FLAGS_UNSEEN: u32 = 0o210_0400;

/// What the kernel knows of a file without asking for it.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// `st_dev`
    pub device: u64,
    /// `st_ino`
    pub inode: u64,
    /// Kind and permissions.
    pub mode: u32,
    /// Whose it is.
    pub owner: (u32, u32),
    /// In bytes.
    pub size: u64,
    /// When it was last written to, and when anything of it was last changed: seconds and nanoseconds.
    pub times: [(i64, u32); 2],
}

impl Figures {
    /// One number for all of them; see [`Signature`] for collisions.
    #[must_use]
    pub fn value(&self) -> u64 {
        let [(written, written_ns), (changed, changed_ns)] = self.times;
        [
            self.device,
            self.inode,
            self.mode.into(),
            self.owner.0.into(),
            self.owner.1.into(),
            self.size,
            written.cast_unsigned(),
            written_ns.into(),
            changed.cast_unsigned(),
            changed_ns.into(),
        ]
        .into_iter()
        .fold(Signature::call(0), Signature::word)
        .value()
    }
}

/// One less is there of what both sides count: how many there were. `None` where there was none, as the supervisor clears the counts
/// of an executor that has ended.
#[must_use]
pub fn one_less(count: &AtomicU32) -> Option<u32> {
    count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_sub(1)).ok()
}

/// The flags of an open that may be made ahead, as an open descriptor shows them; `None` where it may not.
#[must_use]
pub const fn shown_flags(flags: u32) -> Option<u32> {
    if flags & !(OPENED_FLAGS | OPENED_FLAGS_UNSEEN) == 0 { Some(flags & OPENED_FLAGS) } else { None }
}

/// Tells an open of a process, which its speculator of this generation foretold: by [`crate::signature`] and [`shown_flags`]. Never 0.
#[must_use]
pub const fn open_key(signature: u64, flags: u32, process: u32, generation: u32) -> u64 {
    let who = (process as u64) << 32 | generation as u64;
    Signature::call(signature).word(flags as u64).word(who).value()
}

/// Tells an open of a process by an absolute path, without any of [`shown_flags`], which a replay foretold. Never 0.
#[must_use]
pub fn replayed_open_key(path: &[u8], process: u32) -> u64 {
    // No speculator is of this generation.
    open_key(Signature::call(0).bytes(path).value(), 0, process, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opens_that_read_are_made_ahead() {
        // O_RDONLY | O_CLOEXEC; O_NOCTTY; O_NOFOLLOW | O_NONBLOCK; O_LARGEFILE.
        assert_eq!(shown_flags(0o200_0000), Some(0));
        assert_eq!(shown_flags(0o400), Some(0));
        assert_eq!(shown_flags(0o240_4000), Some(0o40_4000));
        assert_eq!(shown_flags(0o100_000), Some(0));
        // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_DIRECT, O_DIRECTORY, O_NOATIME, O_PATH, O_ASYNC.
        for refused in [0o1, 0o2, 0o100, 0o1000, 0o2000, 0o40000, 0o20_0000, 0o100_0000, 0o1000_0000, 0o20000]
        {
            assert_eq!(shown_flags(refused), None, "{refused:o}");
        }
    }

    #[test]
    fn a_count_that_was_cleared_stays_so() {
        let count = AtomicU32::new(2);
        assert_eq!([one_less(&count), one_less(&count), one_less(&count)], [Some(2), Some(1), None]);
        assert_eq!(count.into_inner(), 0);
    }

    #[test]
    fn each_figure_tells() {
        let figures =
            Figures { device: 1, inode: 2, mode: 3, owner: (4, 5), size: 6, times: [(7, 8), (9, 10)] };
        let others = [
            Figures { device: 0, ..figures },
            Figures { inode: 0, ..figures },
            Figures { mode: 0, ..figures },
            Figures { owner: (0, 5), ..figures },
            Figures { owner: (4, 0), ..figures },
            Figures { size: 0, ..figures },
            Figures { times: [(0, 8), (9, 10)], ..figures },
            Figures { times: [(7, 0), (9, 10)], ..figures },
            Figures { times: [(7, 8), (0, 10)], ..figures },
            Figures { times: [(7, 8), (9, 0)], ..figures },
        ];
        assert!(others.iter().all(|other| other.value() != figures.value()));
    }
}
