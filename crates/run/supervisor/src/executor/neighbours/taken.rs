//! What the executor reads ahead because it lies beside what the program needed.

use std::sync::atomic::Ordering::Relaxed;

use forebay_policy::neighbours::Paid;
use forebay_profile::Identity;
use forebay_protocol::access_log::{AccessLog, Attributes, Outcome, Use, wanted};

use super::place::{BLOCK_BYTES, Member, Part};

/// What is read ahead. Times are those of the access log.
pub struct Taken {
    pub member: Member,
    pub place: usize,
    pub begun: u32,
    /// What was paid for it.
    pub paid: Paid,
    /// How often it was opened since, as the kernel tells. The first time by the job.
    pub opens: u32,
    /// How long a device was waited for, in ticks; `None` while the job is under way, and where none was asked.
    pub waited: Option<u64>,
    /// When the program needed it.
    pub needed: Option<u32>,
    /// The file that was read.
    pub identity: Option<Identity>,
}

impl Taken {
    /// What was paid for, and is not begun yet.
    pub const fn new(member: Member, place: usize, paid: Paid) -> Self {
        Self { member, place, begun: 0, paid, opens: 0, waited: None, needed: None, identity: None }
    }

    /// The program opened it, as the kernel told. No agent writes that down, and it was not seen to be waited for.
    pub fn write_down(&self, log: &AccessLog, at: u32) {
        let is_folder = self.is_folder();
        if log.wanted.load(Relaxed) & wanted::ACCESSES == 0 || !is_folder && self.identity.is_none() {
            return;
        }
        let Some(place) = log.append_path(Outcome::Named, at, 0, &self.member.path) else { return };
        if let Some(Identity { dev, ino, size, mtime_ns }) = self.identity {
            log.append_attributes(0, place, &Attributes { dev, ino, size, mtime_ns });
        }
        let (used, end) = if is_folder { (Use::Listed, 0) } else { (Use::Read, BLOCK_BYTES) };
        let _ = log.append_range(used, at, place, 0, end);
    }

    const fn is_folder(&self) -> bool {
        matches!(self.member.part, Part::Files | Part::Folders)
    }
}
