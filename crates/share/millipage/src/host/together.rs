//! Memory that all hosts allocate and free together.

use forebay_vm::{
    PAGE_BYTES,
    layout::{Array, Grain, Place},
};

use super::{COLLECTIVE, Granularity, Host, Shared, digest};
use crate::{
    Error, Placement,
    memory::{Allocated, Shape},
    shared::{Row, fill_with_zeros},
};

impl Host {
    /// Frees rows that all hosts have allocated ([`Host::rows`] and its like), by the address of the first byte. All hosts call this,
    /// and go on when all have. From then on no host may use the rows: on one machine an access ends the process with SIGSEGV.
    ///
    /// On one machine all allocations of all hosts use the memory again. Between machines those do that are of the same shape and
    /// placement.
    ///
    /// # Errors
    /// All hosts have allocated nothing that begins there, it is free already, or another host called something else.
    pub fn free_together(&self, address: usize) -> Result<(), Error> {
        let shared = self.shared;
        let distance = address.wrapping_sub(self.area().start);
        let call = format!("free_together({address:#x})");
        // Nothing is freed before no host uses it, and all agree, so that their tables stay the same.
        shared.meet(COLLECTIVE, digest(&("free_together", distance)), &call)?;
        let array = shared.memory().allocated_at(address).ok_or(Error::NotAllocatedTogether { address })?;
        shared.free_array(&array);
        Ok(())
    }
}

impl Shared {
    /// An array, which all hosts allocate at the same time.
    pub(super) fn allocate(
        &'static self,
        count: usize,
        bytes: usize,
        chunk: usize,
        placement: Placement,
    ) -> Result<Array, Error> {
        let grain = match self.granularity {
            Granularity::Fine => Grain::Parts(chunk),
            Granularity::Page => Grain::Page,
        };
        let Allocated { array, was_used } = self.memory.allocate(Shape { count, bytes, grain, placement })?;
        let Some(between) = self.between() else {
            let reserved = if self.is_first() { self.memory.reserve(&array) } else { Ok(()) };
            let opened = reserved.and_then(|()| self.memory.open(&array));
            return opened.map(|()| array).inspect_err(|_| self.memory.free(&array));
        };
        if was_used {
            let mine = between.begun_at(self, &array, placement);
            mine.for_each(|minipage| self.clear(array.minipage(minipage)));
            return Ok(array);
        }
        between.add(self, &array, placement, |home| {
            if let Some(recorder) = self.recorder.get() {
                let copies = placement == Placement::Copies;
                let bytes = array.minipage_bytes as u32;
                recorder.add(forebay_coherence::trace::Shared { bytes, home: home.0, copies });
            }
        })?;
        Ok(array)
    }

    /// What hosts have allocated, if all have met and have it: what has failed on one host is undone on all.
    pub(super) fn allocated_alike(
        &'static self,
        allocated: Result<Array, Error>,
        met: Result<(), Error>,
    ) -> Result<Array, Error> {
        let array = allocated?;
        if met.is_err() && self.is_together() {
            self.free_array(&array);
        }
        met.map(|()| array)
    }

    /// Frees an array, which no host uses any more.
    fn free_array(&'static self, array: &Array) {
        // The first host comes to the next allocation after this, and all others wait for it there.
        if self.is_together() && self.is_first() {
            let pages = array.own_pages();
            let is_empty = !pages.is_empty()
                && self.memory.views().give_back(pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES).is_ok();
            if !is_empty {
                (0..array.minipages).for_each(|minipage| self.clear(array.minipage(minipage)));
            }
        }
        self.memory.free(array);
    }

    /// Whether this host does for all hosts of its machine what one has to do.
    const fn is_first(&self) -> bool {
        self.board.place() == 0
    }

    fn clear(&'static self, place: Place) {
        let address = self.memory.views().address(place.view, place.offset);
        fill_with_zeros(Row::new(self, address as *mut u8, place.bytes));
    }
}
