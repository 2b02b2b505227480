//! Where minipages are: the minipage table (MPT), and how it fills.
//!
//! A *minipage* is a part of a page, or several whole pages. It is used in one view only, so that the protection of its
//! vpages there is its own: no two minipages share a vpage. Of those that share a page each has another view, and a page
//! holds no more of them than there are views.
//!
//! * *Dynamic layout*: each allocation is a minipage, placed behind the one before it, in the next view; the first on a page
//!   in view 0.
//! * *Slots*: an array of one small part takes a slot on a page of slots of its size, each in another view.
//! * *Static layout*: an array of equal parts, in equal minipages of one or several of them: as many on each page as fit and
//!   views allow. Where the i-th part is can be computed ([`Array::place`]).
//!
//! Pages and numbers of an array that was given back are those of later arrays, the lowest that fit. So equal calls in equal order
//! make equal tables.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use crate::PAGE_BYTES;

mod places;
mod vpages;

pub use places::Places;
pub use vpages::Vpages;

/// What every minipage begins at a multiple of.
pub const ALIGNMENT: usize = 16;

/// Views beyond these would show nothing: a page holds no more minipages.
pub const VIEWS_MAX: usize = PAGE_BYTES / ALIGNMENT;

/// Where a minipage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// In the memory object.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// The view that it is used in.
    pub view: usize,
}

impl Place {
    /// The whole pages that it is on, in the memory object.
    #[must_use]
    pub const fn pages(&self) -> Range<usize> {
        self.offset / PAGE_BYTES..(self.offset + self.bytes).div_ceil(PAGE_BYTES)
    }
}

/// How much of an array is a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grain {
    /// So many neighbouring parts, its *chunking level*.
    Parts(usize),
    /// A page, whatever is on it, as if there were no views.
    Page,
}

/// Equal parts, one after the other, in minipages of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// The first of the minipages.
    pub first: u32,
    /// How many minipages there are.
    pub minipages: usize,
    /// How many parts there are.
    pub count: usize,
    /// Size of a part.
    pub bytes: usize,
    /// Size of a minipage.
    pub minipage_bytes: usize,
    page: usize,
    /// 0 where each takes whole pages.
    per_page: usize,
    /// Minipages on the first page before it.
    skipped: usize,
}

impl Array {
    /// The numbers of the minipages.
    #[must_use]
    pub const fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.minipages as u32
    }

    /// Where the `index`th part is. It can be in several minipages only where those are pages.
    ///
    /// # Panics
    /// There are no more than [`Array::count`].
    #[must_use]
    pub fn place(&self, index: usize) -> Place {
        assert!(index < self.count, "part {index} of {}", self.count);
        let start = index * self.bytes;
        let minipage = self.minipage(start / self.minipage_bytes);
        Place {
            offset: minipage.offset + start % self.minipage_bytes,
            bytes: self.bytes,
            view: minipage.view,
        }
    }

    /// Where these parts are, one after the other: without a division for each.
    ///
    /// # Panics
    /// There are not so many.
    pub fn places(&self, parts: Range<usize>) -> impl Iterator<Item = Place> + use<> {
        assert!(parts.start <= parts.end && parts.end <= self.count, "parts {parts:?} of {}", self.count);
        let array = *self;
        let start = parts.start * array.bytes;
        let mut index = start / array.minipage_bytes;
        let mut inside = start % array.minipage_bytes;
        // Behind the last part there may be none.
        let mut minipage = array.minipage(index);
        let last_view = array.per_page.saturating_sub(1);
        parts.map(move |_| {
            while inside >= array.minipage_bytes {
                inside -= array.minipage_bytes;
                index += 1;
                if minipage.view < last_view {
                    minipage.view += 1;
                    minipage.offset += array.stride();
                } else {
                    minipage = array.minipage(index);
                }
            }
            let offset = minipage.offset + inside;
            inside += array.bytes;
            Place { offset, bytes: array.bytes, view: minipage.view }
        })
    }

    /// Views that it is used in, each with the pages there.
    pub fn areas(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let array = *self;
        let views = array.per_page.clamp(1, array.minipages.max(1));
        (0..views).map(move |index| {
            let pages = match array.per_page {
                0 => array.minipages * array.minipage_bytes.div_ceil(PAGE_BYTES),
                per_page => array.minipages.saturating_sub(index).div_ceil(per_page),
            };
            (array.skipped + index, array.page..array.page + pages)
        })
    }

    /// The pages that it has for itself; none where it is a slot, beside others on its page.
    #[must_use]
    pub fn own_pages(&self) -> Range<usize> {
        let pages = match self.per_page {
            _ if self.is_slot() => 0,
            0 => self.minipages * self.minipage_bytes.div_ceil(PAGE_BYTES),
            per_page => self.minipages.div_ceil(per_page),
        };
        self.page..self.page + pages
    }

    const fn is_slot(&self) -> bool {
        self.minipages == 1 && self.per_page > 1
    }

    /// From one minipage to the next on its page.
    const fn stride(&self) -> usize {
        self.minipage_bytes.next_multiple_of(ALIGNMENT)
    }

    /// Where the `index`th minipage is.
    #[must_use]
    pub fn minipage(&self, index: usize) -> Place {
        let (bytes, index) = (self.minipage_bytes, index + self.skipped);
        let (page, view) = match index.checked_div(self.per_page) {
            Some(page) => (self.page + page, index % self.per_page),
            None => (self.page + index * bytes.div_ceil(PAGE_BYTES), 0),
        };
        Place { offset: page * PAGE_BYTES + view * self.stride(), bytes, view }
    }
}

/// Why a minipage cannot be had, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No room.
    #[error(
        "{wanted} bytes of shared memory do not fit: they take {takes}, and {left} of {bytes} are left in one piece"
    )]
    Full {
        /// That were asked for.
        wanted: usize,
        /// Of the pages for them.
        takes: usize,
        /// In pages one behind the other that no minipage uses.
        left: usize,
        /// In all.
        bytes: usize,
    },
    /// Nothing, or more than there can be addresses for.
    #[error("an allocation has 1 to {max} bytes, not {wanted}")]
    Size {
        /// That were asked for.
        wanted: usize,
        /// That can be.
        max: usize,
    },
    /// It is free, or never was there.
    #[error("minipage {0} is not allocated")]
    Unknown(u32),
}

/// The minipage table.
#[derive(Debug)]
pub struct Layout {
    views: usize,
    /// In which few minipages are used.
    few: usize,
    pages: usize,
    next_page: usize,
    /// The page that is being filled, up to where, and up to which view.
    filling: Option<Filling>,
    /// For slots of each size the page that is being filled, and how many of them are taken.
    slots: HashMap<usize, (usize, usize)>,
    /// For each size, slots that were given back: by page, how many are before each there.
    free_slots: HashMap<usize, BTreeMap<usize, Vec<usize>>>,
    /// Pages and numbers that were given back.
    free_pages: Ranges,
    free_numbers: Ranges,
    places: Arc<Places>,
    /// Numbers that there are, with those that were given back.
    len: u32,
    /// Places that were given back, by their size.
    free: HashMap<usize, Vec<Place>>,
    vpages: Arc<Vpages>,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    page: usize,
    used: usize,
    views: usize,
}

/// Numbers as ranges of which no two meet: the end of each by its beginning.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// The first of the lowest `count` neighbours.
    fn take(&mut self, count: usize) -> Option<usize> {
        let (start, end) =
            self.0.iter().map(|(start, end)| (*start, *end)).find(|(start, end)| end - start >= count)?;
        self.0.remove(&start);
        if start + count < end {
            self.0.insert(start + count, end);
        }
        Some(start)
    }

    /// Numbers that are in no range.
    fn give(&mut self, numbers: Range<usize>) {
        let before = self.0.range(..numbers.start).next_back().filter(|(_, end)| **end == numbers.start);
        let start = before.map_or(numbers.start, |(start, _)| *start);
        let end = self.0.remove(&numbers.end).unwrap_or(numbers.end);
        self.0.insert(start, end);
    }

    /// Takes the range that ends there. Where it begins.
    fn take_last(&mut self, end: usize) -> Option<usize> {
        let last = self.0.last_entry().filter(|last| *last.get() == end)?;
        Some(last.remove_entry().0)
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(start, end)| end - start)
    }
}

impl Layout {
    /// An empty one, for an object of `pages` pages in `views` views.
    #[must_use]
    pub fn new(pages: usize, views: usize) -> Self {
        Self::sparing(pages, views, views)
    }

    /// The same, where arrays of few minipages are used in `few` views at most: each view has page tables of its own.
    #[must_use]
    pub fn sparing(pages: usize, views: usize, few: usize) -> Self {
        Self {
            views,
            few,
            pages,
            next_page: 0,
            filling: None,
            slots: HashMap::new(),
            free_slots: HashMap::new(),
            free_pages: Ranges::default(),
            free_numbers: Ranges::default(),
            places: Arc::default(),
            len: 0,
            free: HashMap::new(),
            vpages: Arc::new(Vpages::new(pages, views)),
        }
    }

    /// Which minipage each vpage shows, now and after later allocations.
    #[must_use]
    pub fn vpages(&self) -> Arc<Vpages> {
        self.vpages.clone()
    }

    /// Where each minipage is, now and after later allocations.
    #[must_use]
    pub fn places(&self) -> Arc<Places> {
        self.places.clone()
    }

    /// Minipages so far, with those that were given back.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there has been none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in pages that no minipage uses.
    #[must_use]
    pub fn left(&self) -> usize {
        (self.pages - self.next_page + self.free_pages.lengths().sum::<usize>()) * PAGE_BYTES
    }

    /// Where a minipage is, if it is allocated.
    #[must_use]
    pub fn place(&self, minipage: u32) -> Option<Place> {
        self.places.get(minipage)
    }

    /// A minipage of its own for `bytes`.
    ///
    /// # Errors
    /// There is no room, or nothing was asked for.
    pub fn allocate(&mut self, bytes: usize) -> Result<u32, LayoutError> {
        self.check(bytes)?;
        let place = match self.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(place) => place,
            None if bytes >= PAGE_BYTES => {
                let page = self.take_pages(bytes.div_ceil(PAGE_BYTES), bytes)?;
                Place { offset: page * PAGE_BYTES, bytes, view: 0 }
            }
            None => self.fill(bytes)?,
        };
        Ok(self.enter(place))
    }

    /// `count` parts of `bytes` each.
    ///
    /// # Errors
    /// There is no room, or nothing was asked for.
    pub fn allocate_array(&mut self, count: usize, bytes: usize, grain: Grain) -> Result<Array, LayoutError> {
        let wanted = count.saturating_mul(bytes);
        self.check(wanted)?;
        let minipage_bytes = match grain {
            Grain::Parts(parts) => parts.clamp(1, count) * bytes,
            Grain::Page => PAGE_BYTES,
        };
        let minipages = wanted.div_ceil(minipage_bytes);
        let fit = PAGE_BYTES / minipage_bytes.next_multiple_of(ALIGNMENT);
        let per_page = fit.min(self.views_for(minipages));
        let pages = match per_page {
            0 => minipages.saturating_mul(minipage_bytes.div_ceil(PAGE_BYTES)),
            _ => minipages.div_ceil(per_page),
        };
        let (page, skipped) = if minipages == 1 && per_page > 1 {
            self.take_slot(minipage_bytes.next_multiple_of(ALIGNMENT), per_page, wanted)?
        } else {
            (self.take_pages(pages, wanted)?, 0)
        };
        let first = self.free_numbers.take(minipages).map_or(self.len(), |first| first as u32);
        let array = Array { first, minipages, count, bytes, minipage_bytes, page, per_page, skipped };
        for index in 0..minipages {
            self.enter_as(first + index as u32, array.minipage(index));
        }
        Ok(array)
    }

    /// Gives an array back. Its pages and numbers are used again.
    ///
    /// # Errors
    /// It is not allocated, or not all of it.
    pub fn free_array(&mut self, array: &Array) -> Result<(), LayoutError> {
        let numbers = array.numbers();
        let place = |number: u32| array.minipage((number - array.first) as usize);
        let is_there = |number: &u32| self.place(*number) == Some(place(*number));
        if let Some(other) = numbers.clone().find(|number| !is_there(number)) {
            return Err(LayoutError::Unknown(other));
        }
        for number in numbers.clone() {
            self.vpages.show(&place(number), None);
            self.places.set(number, None);
        }
        self.free_numbers.give(numbers.start as usize..numbers.end as usize);
        self.len = self.free_numbers.take_last(self.len as usize).map_or(self.len, |first| first as u32);
        let pages = if array.is_slot() { self.free_slot(array) } else { array.own_pages() };
        if !pages.is_empty() {
            self.free_pages.give(pages);
            self.next_page = self.free_pages.take_last(self.next_page).unwrap_or(self.next_page);
        }
        Ok(())
    }

    /// Frees a slot. Its page if no other slot of that is taken.
    fn free_slot(&mut self, array: &Array) -> Range<usize> {
        let (page, stride) = (array.page, array.stride());
        let free = self.free_slots.entry(stride).or_default();
        let slots = free.entry(page).or_default();
        slots.push(array.skipped);
        let filling = self.slots.get(&stride).filter(|(filling, _)| *filling == page);
        if slots.len() < filling.map_or(array.per_page, |(_, used)| *used) {
            return page..page;
        }
        if filling.is_some() {
            self.slots.remove(&stride);
        }
        free.remove(&page);
        page..page + 1
    }

    /// Gives a minipage back. Its number is not used again.
    ///
    /// # Errors
    /// It is not allocated.
    pub fn free(&mut self, minipage: u32) -> Result<(), LayoutError> {
        let place = self.place(minipage).ok_or(LayoutError::Unknown(minipage))?;
        self.vpages.show(&place, None);
        self.places.set(minipage, None);
        self.free.entry(place.bytes).or_default().push(place);
        Ok(())
    }

    /// Views for so many minipages. In more views they are on fewer pages. A view of an array takes two pages of page tables at
    /// least, so this many take the fewest pages in all.
    fn views_for(&self, minipages: usize) -> usize {
        (minipages / 2).isqrt().clamp(self.few, self.views)
    }

    const fn check(&self, wanted: usize) -> Result<(), LayoutError> {
        let max = self.pages * PAGE_BYTES;
        if wanted == 0 || wanted > isize::MAX as usize {
            Err(LayoutError::Size { wanted, max })
        } else {
            Ok(())
        }
    }

    fn take_pages(&mut self, count: usize, wanted: usize) -> Result<usize, LayoutError> {
        if let Some(page) = self.free_pages.take(count) {
            return Ok(page);
        }
        let left = self.pages - self.next_page;
        if count > left {
            let left = self.free_pages.lengths().fold(left, usize::max);
            let (left, bytes) = (left * PAGE_BYTES, self.pages * PAGE_BYTES);
            return Err(LayoutError::Full { wanted, takes: count.saturating_mul(PAGE_BYTES), left, bytes });
        }
        let page = self.next_page;
        self.next_page += count;
        Ok(page)
    }

    /// The next slot for so many bytes: its page, and how many are before it there.
    fn take_slot(
        &mut self,
        bytes: usize,
        per_page: usize,
        wanted: usize,
    ) -> Result<(usize, usize), LayoutError> {
        if let Some(mut first) = self.free_slots.get_mut(&bytes).and_then(BTreeMap::first_entry) {
            let (page, slot) = (*first.key(), first.get_mut().pop());
            if first.get().is_empty() {
                first.remove();
            }
            if let Some(skipped) = slot {
                return Ok((page, skipped));
            }
        }
        if let Some((page, used)) = self.slots.get_mut(&bytes).filter(|(_, used)| *used < per_page) {
            *used += 1;
            return Ok((*page, *used - 1));
        }
        let page = self.take_pages(1, wanted)?;
        self.slots.insert(bytes, (page, 1));
        Ok((page, 0))
    }

    /// A place on the page that is being filled, or on a new one.
    fn fill(&mut self, bytes: usize) -> Result<Place, LayoutError> {
        let stride = bytes.next_multiple_of(ALIGNMENT);
        let views = self.views;
        let fits = |filling: &Filling| filling.views < views && filling.used + stride <= PAGE_BYTES;
        let filling = match self.filling.filter(fits) {
            Some(filling) => filling,
            None => Filling { page: self.take_pages(1, bytes)?, used: 0, views: 0 },
        };
        let place = Place { offset: filling.page * PAGE_BYTES + filling.used, bytes, view: filling.views };
        self.filling = Some(Filling { used: filling.used + stride, views: filling.views + 1, ..filling });
        Ok(place)
    }

    fn enter(&mut self, place: Place) -> u32 {
        let minipage = self.len();
        self.enter_as(minipage, place);
        minipage
    }

    /// With this number, the next one or one that is free.
    fn enter_as(&mut self, minipage: u32, place: Place) {
        self.places.set(minipage, Some(place));
        self.vpages.show(&place, Some(minipage));
        self.len = self.len.max(minipage + 1);
    }
}
