//! Which minipage each vpage shows. One thread at a time says it, and any thread asks: in a signal handler too.

use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
};

use super::Place;
use crate::PAGE_BYTES;

/// Of all views.
#[derive(Debug)]
pub struct Vpages {
    pages: usize,
    /// For each view that is used, by page: one more than the minipage; 0 for none.
    shown: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

impl Vpages {
    pub(super) fn new(pages: usize, views: usize) -> Self {
        Self { pages, shown: (0..views).map(|_| OnceLock::new()).collect() }
    }

    /// The minipage that is used through this page of this view.
    #[must_use]
    pub fn at(&self, view: usize, offset: usize) -> Option<u32> {
        self.shown.get(view)?.get()?.get(offset / PAGE_BYTES)?.load(Acquire).checked_sub(1)
    }

    /// The pages of the minipage that is used through this page of this view.
    #[must_use]
    pub fn around(&self, view: usize, offset: usize) -> Option<Range<usize>> {
        let (page, minipage) = (offset / PAGE_BYTES, self.at(view, offset)?);
        let is_of_it = |page: &usize| self.at(view, page * PAGE_BYTES) == Some(minipage);
        let start = (0..page).rev().take_while(is_of_it).last().unwrap_or(page);
        let end = (page..self.pages).take_while(is_of_it).last().map_or(page, |last| last + 1);
        Some(start..end)
    }

    /// By one thread at a time.
    pub(super) fn show(&self, place: &Place, minipage: Option<u32>) {
        let value = minipage.map_or(0, |minipage| minipage + 1);
        let shown = self.shown[place.view].get_or_init(|| zeros(self.pages));
        shown[place.pages()].iter().for_each(|page| page.store(value, Release));
    }
}

/// So many words, which take memory from their first use on only.
fn zeros(count: usize) -> Box<[AtomicU32]> {
    let words = Box::into_raw(vec![0u32; count].into_boxed_slice());
    // SAFETY: an atomic word has the size, the alignment and the values of a plain one, and the box is this function's own.
    unsafe { Box::from_raw(words as *mut [AtomicU32]) }
}
