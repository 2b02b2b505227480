//! What a copy of the program would hold as well: locks of open files (flock(2), open file description locks), and System V
//! shared memory.
//!
//! Such a lock lasts as long as something refers to the open file. A program that locks is forked all the same: the intermediate
//! process opens the files anew, so the speculator has no descriptor of an open file of the program's. A mapping would be a
//! reference, too, so a program that maps a file that it has locked, or locks one that it has mapped, has no speculators.
//!
//! The kernel counts who has a System V segment attached, and a program may ask. So there is no fork meanwhile.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::process;
use crate::snapshot::DESCRIPTORS;

/// Highest descriptor seen.
static DESCRIPTOR_MAX: AtomicU32 = AtomicU32::new(15);
/// Whether the program has ever locked an open file.
static LOCKS: AtomicBool = AtomicBool::new(false);
/// Whether a mapping of the program's refers to an open file that is locked, or may.
static MAPS_LOCKED: AtomicBool = AtomicBool::new(false);
/// Whether mappings of files are not seen.
static IS_BLIND: AtomicBool = AtomicBool::new(false);
/// Descriptors of files that were locked by them, and of files that were mapped.
static LOCKED: Descriptors = Descriptors::new();
static MAPPED: Descriptors = Descriptors::new();
/// System V segments attached.
static ATTACHED: AtomicU32 = AtomicU32::new(0);

/// A set of descriptors.
struct Descriptors([AtomicU64; DESCRIPTORS / 64]);

impl Descriptors {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; DESCRIPTORS / 64])
    }

    fn word(&self, descriptor: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(descriptor / 64)?, 1 << (descriptor % 64)))
    }

    /// Whether it is in the set; one that no set can hold may be in any.
    fn has(&self, descriptor: usize) -> bool {
        self.word(descriptor).is_none_or(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Whether it can be in the set, and is.
    fn knows(&self, descriptor: usize) -> bool {
        self.word(descriptor).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    fn set(&self, descriptor: usize, is_in: bool) {
        if let Some((word, bit)) = self.word(descriptor) {
            if is_in {
                word.fetch_or(bit, Relaxed);
            } else if word.load(Relaxed) & bit != 0 {
                word.fetch_and(!bit, Relaxed);
            }
        }
    }
}

/// Mappings of the program's are not seen here.
pub fn see_no_mappings() {
    IS_BLIND.store(true, Relaxed);
}

/// The program is about to lock the open file of this descriptor. Whether speculators that there are must go, which may have one,
/// too.
pub fn lock(descriptor: usize) -> bool {
    let is_first = !LOCKS.swap(true, Relaxed);
    LOCKED.set(descriptor, true);
    let is_mapped = MAPPED.has(descriptor) || IS_BLIND.load(Relaxed);
    is_first | (is_mapped && !MAPS_LOCKED.swap(true, Relaxed))
}

/// The program is about to map the file of this descriptor. Whether speculators that there are must go.
pub fn map(descriptor: usize) -> bool {
    MAPPED.set(descriptor, true);
    LOCKS.load(Relaxed) && LOCKED.has(descriptor) && !MAPS_LOCKED.swap(true, Relaxed)
}

/// Takes note of a call's result that is a descriptor: it is of another file now.
#[inline(always)]
pub fn opened(result: isize) -> isize {
    if result >= 0 {
        forget(result as usize);
    }
    if result > DESCRIPTOR_MAX.load(Relaxed) as isize {
        DESCRIPTOR_MAX.store(result as u32, Relaxed);
    }
    result
}

/// What is known of a descriptor is so no more. A vfork child's descriptors are its own.
#[inline(always)]
fn forget(descriptor: usize) {
    let is_known = MAPPED.knows(descriptor) || LOCKS.load(Relaxed) && LOCKED.knows(descriptor);
    if is_known && !process::is_vfork_child() {
        MAPPED.set(descriptor, false);
        LOCKED.set(descriptor, false);
    }
}

/// The highest descriptor that the program is known to have had.
pub fn descriptor_max() -> usize {
    DESCRIPTOR_MAX.load(Relaxed) as usize
}

/// A descriptor is of the same open file as another one.
pub fn duplicated(from: usize, to: usize) {
    if !process::is_vfork_child() {
        MAPPED.set(to, MAPPED.has(from));
        LOCKED.set(to, LOCKED.has(from));
    }
}

/// A System V segment was attached.
pub fn attached() {
    ATTACHED.fetch_add(1, Relaxed);
}

/// One was detached.
pub fn detached() {
    ATTACHED.store(ATTACHED.load(Relaxed).saturating_sub(1), Relaxed);
}

/// Whether a speculator must not have the open files that the program has.
pub fn must_reopen() -> bool {
    LOCKS.load(Relaxed)
}

/// Whether a copy of the program would hold a lock by a mapping, for good.
pub fn maps_locked_file() -> bool {
    MAPS_LOCKED.load(Relaxed)
}

/// Whether a copy of the program would count at a System V segment, as long as that is attached.
pub fn has_segments() -> bool {
    ATTACHED.load(Relaxed) != 0
}
