//! What hosts allocate alone, as one machine knows it. Its pages lie behind those that all hosts allocate together. A machine *claims*
//! pages, which it alone gives parts of from then on. A page has equal parts, each used in the view of its number; a *span* is several
//! pages in one part. So a part is a minipage whose number, place and size follow from its address.
//!
//! All of it is words on the board. A host takes and frees parts by single atomic operations, so it waits for no other one.
//! Pages of one kind that may have free parts are a list. A page that turns out to be full leaves the list, and comes back with the next
//! part that is freed.

use std::{
    ops::Range,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use forebay_coherence::{Minipage, Neighbours};
use forebay_vm::{
    PAGE_BYTES,
    layout::{ALIGNMENT, Place, VIEWS_MAX},
};

use crate::{
    extent::{Extent, PAGE_BITS},
    parts::{Parts, Words},
};

/// Pages with parts that are claimed at once, at most.
const CLAIMED_MAX: usize = 16;
/// Lists: of pages by how many parts they have, and of spans by their size, of which there are four to each doubling.
const LISTS: usize = VIEWS_MAX + 1 + 4 * 29;

/// What a page is: 0 where no machine has claimed it. Below the kind is the number of parts, of pages, or of pages before it.
const KIND_SHIFT: u32 = PAGE_BITS;
const KIND: u32 = 3 << KIND_SHIFT;
const IN_PARTS: u32 = 1 << KIND_SHIFT;
const SPAN: u32 = 2 << KIND_SHIFT;
const BEHIND: u32 = 3 << KIND_SHIFT;
/// This machine has claimed it.
const OWN: u32 = 1 << 30;
/// Of what is said of claimed pages with parts: where the number of pages begins.
const PAGES_SHIFT: u32 = 9;

/// The heap of a machine.
pub struct Heap {
    extent: Extent,
    common: &'static Common,
    pages: &'static [Page],
    /// Of each page, words with a bit for each part: whether it is taken.
    taken: &'static [Bits],
    /// And whether it ever was.
    used: &'static [Bits],
    lists: &'static [List],
}

#[repr(C, align(64))]
struct Common {
    /// Pages that machines have claimed, from the first on.
    claimed: AtomicU32,
    /// Bytes in free parts of this machine.
    free: AtomicU64,
}

#[repr(C)]
struct Page {
    what: AtomicU32,
    /// The next page of its list, and one more; 0 for none.
    next: AtomicU32,
    /// 1 where it is in its list.
    is_listed: AtomicU32,
}

#[repr(transparent)]
struct Bits(AtomicU64);

/// One more than the first page, and above how often that has changed.
#[repr(transparent)]
struct List(AtomicU64);

// SAFETY: atomic words, and space between them.
unsafe impl Words for Common {}
// SAFETY: as above.
unsafe impl Words for Page {}
// SAFETY: as above.
unsafe impl Words for Bits {}
// SAFETY: as above.
unsafe impl Words for List {}

/// How much one host wants, in pages of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In so many parts.
    Parts(usize),
    /// So many together.
    Span(usize),
}

/// Pages that a machine is to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    page: usize,
    kind: Kind,
    /// How many with parts.
    count: usize,
    /// By number of the first, how many numbers they take, and what is said of them.
    pub first: Minipage,
    pub numbers: u32,
    pub what: u32,
}

/// A part that was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub place: Place,
    /// It is not full of zeros.
    pub was_used: bool,
}

impl Heap {
    /// What the words take.
    pub const fn bytes(extent: &Extent) -> usize {
        Parts::bytes::<Common>(1)
            + Parts::bytes::<Page>(extent.alone)
            + 2 * Parts::bytes::<Bits>(extent.alone * words(extent))
            + Parts::bytes::<List>(LISTS)
    }

    /// The heap that this memory, zeros at first, is for.
    pub fn new(memory: &mut Parts, extent: Extent) -> Self {
        Self {
            extent,
            common: &memory.take(1)[0],
            pages: memory.take(extent.alone),
            taken: memory.take(extent.alone * words(&extent)),
            used: memory.take(extent.alone * words(&extent)),
            lists: memory.take(LISTS),
        }
    }

    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// Bytes that no machine has claimed, and those with free parts of this machine.
    pub fn left(&self) -> (usize, usize) {
        let unclaimed = self.unclaimed() * PAGE_BYTES;
        (unclaimed, unclaimed + self.common.free.load(SeqCst) as usize)
    }

    fn unclaimed(&self) -> usize {
        self.extent.alone - self.common.claimed.load(SeqCst) as usize
    }

    /// What a part of so many bytes is of.
    pub fn kind(&self, bytes: usize) -> Kind {
        if bytes > PAGE_BYTES {
            return Kind::Span(bytes.div_ceil(PAGE_BYTES));
        }
        Kind::Parts((PAGE_BYTES / bytes.next_multiple_of(ALIGNMENT)).min(self.extent.few))
    }

    /// A free part of this kind.
    pub fn take(&self, kind: Kind) -> Option<Taken> {
        match kind {
            Kind::Parts(parts) => self.take_listed(parts, 1),
            Kind::Span(pages) => self.take_listed(span_list(rounded(pages)), 1),
        }
    }

    /// A free part of a kind with larger ones.
    pub fn take_larger(&self, kind: Kind) -> Option<Taken> {
        let (parts, pages) = match kind {
            Kind::Parts(parts) => (1..parts, 1),
            Kind::Span(pages) => (0..0, pages),
        };
        // The first list has some that are smaller.
        let spans = span_list(pages)..LISTS;
        parts.rev().chain(spans).find_map(|list| self.take_listed(list, pages))
    }

    /// What is to be claimed for one more of a kind, if there is room. While this machine alone claims.
    pub fn next_claim(&self, kind: Kind) -> Option<Claim> {
        let (page, left) = (self.common.claimed.load(SeqCst) as usize, self.unclaimed());
        let first = Minipage(self.extent.first_on(page) as u32);
        let claim = |kind, count, numbers, what| Claim { page, kind, count, first, numbers, what };
        match kind {
            // The more the more have been, so that a program with few objects leaves room.
            Kind::Parts(parts) => {
                let count = (page / 4).clamp(1, CLAIMED_MAX).min(left);
                let what = IN_PARTS | (count as u32) << PAGES_SHIFT | parts as u32;
                (count > 0).then(|| claim(kind, count, (count * self.extent.few) as u32, what))
            }
            Kind::Span(pages) => {
                let pages = if rounded(pages) <= left { rounded(pages) } else { pages };
                (pages <= left).then(|| claim(Kind::Span(pages), 1, 1, SPAN | pages as u32))
            }
        }
    }

    /// A machine has claimed pages, and says this of them: where they are in the memory object.
    pub fn learn(&self, first: Minipage, what: u32) -> Option<Range<usize>> {
        let page = self.extent.page_with(first)?;
        let value = what & !(KIND | OWN);
        let in_parts = value & ((1 << PAGES_SHIFT) - 1);
        let count = if what & KIND == SPAN { value } else { value >> PAGES_SHIFT } as usize;
        let pages = self.pages.get(page..page.checked_add(count)?)?;
        for (index, page) in pages.iter().enumerate() {
            let what = match (what & KIND, index) {
                (SPAN, 0) => what,
                (SPAN, index) => BEHIND | index as u32,
                _ => IN_PARTS | in_parts,
            };
            page.what.store(what, SeqCst);
        }
        self.common.claimed.fetch_max((page + count) as u32, SeqCst);
        Some((self.extent.pages + page) * PAGE_BYTES..(self.extent.pages + page + count) * PAGE_BYTES)
    }

    /// This machine has claimed pages, which all know. One part of them is taken.
    pub fn add(&self, claim: Claim) -> Option<Taken> {
        let pages = claim.page..claim.page + claim.count;
        for page in pages.clone() {
            self.pages[page].what.fetch_or(OWN, SeqCst);
            self.common.free.fetch_add((self.parts(page) * self.part_bytes(page)) as u64, SeqCst);
        }
        let taken = self.take_in(claim.page);
        pages.filter(|page| self.has_free(*page)).for_each(|page| self.list(page));
        taken
    }

    /// Whether this machine gives away the minipage's page.
    pub fn is_own(&self, minipage: Minipage) -> bool {
        self.page_of(minipage).is_some_and(|page| self.pages[page].what.load(SeqCst) & OWN != 0)
    }

    /// Frees a part of this machine; `false` if it is not taken.
    pub fn free(&self, minipage: Minipage) -> bool {
        let Some(page) = self.page_of(minipage).filter(|_| self.is_own(minipage)) else { return false };
        let part = self.extent.place_on(minipage);
        let was_taken = part < self.parts(page) && {
            let bit = 1 << (part % 64);
            self.bits(self.taken, page)[part / 64].0.fetch_and(!bit, SeqCst) & bit != 0
        };
        if was_taken {
            self.common.free.fetch_add(self.part_bytes(page) as u64, SeqCst);
            self.list(page);
        }
        was_taken
    }

    /// The parts of a minipage's page that are taken, on the machine that gives them away. In a signal handler too.
    pub fn neighbours(&self, minipage: Minipage) -> Option<Neighbours> {
        let page = self.page_of(minipage)?;
        let kind = self.parts(page);
        if kind < 2 {
            return None;
        }
        let first = Minipage(self.extent.first_on(page) as u32);
        let mut used = [0; VIEWS_MAX / 64];
        let taken = self.bits(self.taken, page).iter();
        used.iter_mut().zip(taken).for_each(|(word, bits)| *word = bits.0.load(SeqCst));
        Some(Neighbours { first, used, kind: kind as u16 })
    }

    /// The minipage that is used through a page of a view. In a signal handler too.
    pub fn at(&self, view: usize, page: usize) -> Option<u32> {
        let page = self.first_page(page.checked_sub(self.extent.pages)?)?;
        (view < self.parts(page)).then(|| (self.extent.first_on(page) + view) as u32)
    }

    /// The pages of the minipage that is used there.
    pub fn around(&self, view: usize, page: usize) -> Option<Range<usize>> {
        Some(self.place(self.at(view, page)?)?.pages())
    }

    /// Where a minipage is. In a signal handler too.
    pub fn place(&self, minipage: u32) -> Option<Place> {
        let page = self.page_of(Minipage(minipage))?;
        let view = self.extent.place_on(Minipage(minipage));
        let bytes = self.part_bytes(page);
        let offset = (self.extent.pages + page) * PAGE_BYTES + view * bytes;
        (view < self.parts(page)).then_some(Place { offset, bytes, view })
    }

    fn page_of(&self, minipage: Minipage) -> Option<usize> {
        let page = self.extent.page_with(minipage)?;
        (page < self.pages.len()).then_some(page)
    }

    /// The first page of what a page belongs to.
    fn first_page(&self, page: usize) -> Option<usize> {
        let what = self.pages.get(page)?.what.load(SeqCst);
        page.checked_sub(if what & KIND == BEHIND { (what & !(KIND | OWN)) as usize } else { 0 })
    }

    /// How many parts begin on a page.
    fn parts(&self, page: usize) -> usize {
        let what = self.pages[page].what.load(SeqCst);
        match what & KIND {
            IN_PARTS => (what & !(KIND | OWN)) as usize,
            SPAN => 1,
            _ => 0,
        }
    }

    fn part_bytes(&self, page: usize) -> usize {
        let what = self.pages[page].what.load(SeqCst);
        match what & KIND {
            IN_PARTS => PAGE_BYTES / self.parts(page).max(1) / ALIGNMENT * ALIGNMENT,
            SPAN => (what & !(KIND | OWN)) as usize * PAGE_BYTES,
            _ => 0,
        }
    }

    fn bits<'a>(&self, all: &'a [Bits], page: usize) -> &'a [Bits] {
        let words = words(&self.extent);
        &all[page * words..(page + 1) * words]
    }

    fn has_free(&self, page: usize) -> bool {
        let parts = self.parts(page);
        let words = self.bits(self.taken, page).iter().enumerate();
        words.into_iter().any(|(word, bits)| bits.0.load(SeqCst) & mask(parts, word) != mask(parts, word))
    }

    fn take_in(&self, page: usize) -> Option<Taken> {
        let parts = self.parts(page);
        for (index, word) in self.bits(self.taken, page).iter().enumerate() {
            loop {
                let free = !word.0.load(SeqCst) & mask(parts, index);
                let bit = free & free.wrapping_neg();
                if bit == 0 {
                    break;
                }
                if word.0.fetch_or(bit, SeqCst) & bit == 0 {
                    let part = index * 64 + bit.trailing_zeros() as usize;
                    let was_used = self.bits(self.used, page)[index].0.fetch_or(bit, SeqCst) & bit != 0;
                    self.common.free.fetch_sub(self.part_bytes(page) as u64, SeqCst);
                    let minipage = self.extent.first_on(page) + part;
                    return Some(Taken { place: self.place(minipage as u32)?, was_used });
                }
            }
        }
        None
    }

    /// A part of the first page in a list that has one, if it is of so many pages at least.
    fn take_listed(&self, list: usize, pages: usize) -> Option<Taken> {
        let head = &self.lists[list].0;
        loop {
            let now = head.load(SeqCst);
            let page = (now as u32).checked_sub(1)? as usize;
            if pages > 1 && self.part_bytes(page) < pages * PAGE_BYTES {
                return None;
            }
            if let Some(taken) = self.take_in(page) {
                return Some(taken);
            }
            let next = self.pages[page].next.load(SeqCst);
            if head.compare_exchange(now, changed(now, next), SeqCst, SeqCst).is_ok() {
                self.pages[page].is_listed.store(0, SeqCst);
                // Whoever has freed a part meanwhile has found it in the list.
                if self.has_free(page) {
                    self.list(page);
                }
            }
        }
    }

    /// Puts a page into its list, unless it is there.
    fn list(&self, page: usize) {
        let Page { what, next, is_listed } = &self.pages[page];
        if is_listed.swap(1, SeqCst) != 0 {
            return;
        }
        let what = what.load(SeqCst);
        let list = match what & KIND {
            SPAN => span_list((what & !(KIND | OWN)) as usize),
            _ => self.parts(page),
        };
        let head = &self.lists[list].0;
        let mut now = head.load(SeqCst);
        loop {
            next.store(now as u32, Relaxed);
            match head.compare_exchange(now, changed(now, page as u32 + 1), SeqCst, SeqCst) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }
}

/// Words with a bit for each part of a page.
const fn words(extent: &Extent) -> usize {
    extent.few.div_ceil(64)
}

/// The bits of so many parts in one of their words.
const fn mask(parts: usize, word: usize) -> u64 {
    match parts.saturating_sub(word * 64) {
        0 => 0,
        1..64 => (1 << (parts - word * 64)) - 1,
        _ => u64::MAX,
    }
}

/// A list that begins with another page.
const fn changed(list: u64, first: u32) -> u64 {
    ((list >> 32).wrapping_add(1) << 32) | first as u64
}

/// As many pages or some more, so that there are few sizes.
const fn rounded(pages: usize) -> usize {
    if pages <= 8 {
        return pages;
    }
    let shift = (pages - 1).ilog2() - 2;
    (((pages - 1) >> shift) + 1) << shift
}

/// The list of spans that have so many pages, or not so many more that the next list has them.
const fn span_list(pages: usize) -> usize {
    let log = pages.ilog2();
    VIEWS_MAX + 1 + 4 * log as usize + (((pages << 2) >> log) & 3)
}

#[cfg(test)]
mod tests;
