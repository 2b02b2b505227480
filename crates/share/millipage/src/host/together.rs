//! Memory that all hosts allocate and free together.

use forebay_vm::layout::{Array, Grain, Place};

use super::{COLLECTIVE, Granularity, Host, Shared, digest};
use crate::{
    Error, Placement,
    recorder::Recorder,
    shared::{Row, fill_with_zeros},
};

impl Host {
    /// Frees rows that all hosts have allocated ([`Host::rows`] and its like), by the address of the first byte. All hosts call this,
    /// and go on when all have. From then on no host may use the rows: an access ends the process with SIGSEGV or SIGBUS. The kernel has
    /// the memory back, and later allocations of all hosts have the addresses.
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
        if let Some(between) = shared.between() {
            shared.outcome(between.free_together(shared, &array), &call)?;
            // Messages are left until the last machine has come so far.
            shared.meet(COLLECTIVE, digest(&("freed", distance)), &call)?;
        }
        shared.recorder.get().into_iter().for_each(Recorder::note_freed);
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
        let array = self.memory.allocate(count, bytes, grain)?;
        let reserved = if self.is_first() { self.memory.reserve(&array) } else { Ok(()) };
        let begun = reserved.and_then(|()| match self.between() {
            None => self.memory.open(&array),
            Some(between) => between.add(self, &array, placement, |home| {
                if let Some(recorder) = self.recorder.get() {
                    let copies = placement == Placement::Copies;
                    let bytes = array.minipage_bytes as u32;
                    recorder.add(forebay_coherence::trace::Shared { bytes, home: home.0, copies });
                }
            }),
        });
        begun.map(|()| array).inspect_err(|_| self.free_array(&array))
    }

    /// What hosts have allocated, if all have met and have it: what has failed on one host is undone on all.
    pub(super) fn allocated_alike(
        &'static self,
        allocated: Result<Array, Error>,
        met: Result<(), Error>,
    ) -> Result<Array, Error> {
        let array = allocated?;
        if met.is_err() {
            self.free_array(&array);
        }
        met.map(|()| array)
    }

    /// Frees an array, which no host uses any more, and no message is about.
    fn free_array(&'static self, array: &Array) {
        // The first host comes to the next allocation after this, and all others wait for it there.
        if self.is_first() && !self.memory.give_back(array) {
            (0..array.minipages).for_each(|minipage| self.clear(array.minipage(minipage)));
        }
        self.between().into_iter().for_each(|between| between.forget(array));
        self.memory.free(array);
    }

    /// Whether this host does for all hosts of its machine what one has to do.
    const fn is_first(&self) -> bool {
        self.board.place() == 0
    }

    fn clear(&'static self, place: Place) {
        let address = self.memory.views().privileged(place.offset);
        fill_with_zeros(Row::new(self, address as *mut u8, place.bytes));
    }
}
