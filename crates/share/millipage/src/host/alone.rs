//! Memory that a host allocates and frees alone: at any time, whatever the others do.

use bytemuck::Pod;
use forebay_coherence::Minipage;
use forebay_vm::{
    PAGE_BYTES,
    layout::{ALIGNMENT, LayoutError},
};

use super::{Host, Shared};
use crate::{
    Error,
    engine::Ended,
    heap::{Kind, Taken},
    requests::Request,
    shared::{Row, fill_with_zeros},
};

impl Host {
    /// A row of so many elements, all zero, in a minipage of its own. This host allocates it alone, at any time. Its address is
    /// valid on all hosts where their memory is mapped at the same place; tell it to them by memory that they know. Any host frees
    /// it by [`Host::free`].
    ///
    /// As many small ones as there are views share a page. Between machines they are fetched together while the same machine uses them,
    /// and apart where machines use different ones. The memory for these is apart from that of [`Host::rows`] and as large.
    ///
    /// # Errors
    /// There is no room, or a host is lost.
    pub fn malloc<T: Pod>(&self, columns: usize) -> Result<Row<T>, Error> {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let bytes = columns.saturating_mul(size_of::<T>());
        let Taken { place, was_used } = self.shared.take(bytes)?;
        let address = self.shared.memory().views().address(place.view, place.offset);
        if was_used {
            if let (Some(between), Some(minipage)) =
                (self.shared.between(), self.shared.memory().minipage(address))
            {
                between.tell(self.shared, Request::Renew(Minipage(minipage)));
            }
            fill_with_zeros(Row::new(self.shared, address as *mut u8, bytes));
        }
        Ok(Row::new(self.shared, address as *mut T, columns))
    }

    /// Frees a row that a host, this one or another, has allocated alone, by the address of its first byte. From then on no host
    /// may use it. Its memory is that of rows that hosts of the same machine allocate later.
    ///
    /// # Errors
    /// No such row begins there, it is free already, or a host is lost.
    pub fn free(&self, address: usize) -> Result<(), Error> {
        let minipage = self.shared.memory().alone_at(address).map(Minipage);
        let freed = minipage.map_or(Ended::Disagreed, |minipage| self.shared.free(minipage));
        match freed {
            Ended::Well => Ok(()),
            Ended::Disagreed => Err(Error::NotAllocated { address }),
            Ended::Lost => Err(self.shared.lost()),
        }
    }

    /// How many bytes are left of what hosts allocate alone: pages that no host uses, and rows that hosts of this machine had and
    /// that are free.
    #[must_use]
    pub fn malloc_left(&self) -> usize {
        self.shared.memory().heap().left().1
    }
}

impl Shared {
    /// A free part of at least so many bytes.
    fn take(&self, bytes: usize) -> Result<Taken, Error> {
        self.recorder.get().into_iter().for_each(|recorder| recorder.note_alone());
        let heap = self.memory().heap();
        let max = heap.extent().alone * PAGE_BYTES;
        if bytes == 0 {
            return Err(LayoutError::Size { wanted: bytes, max }.into());
        }
        let full = || {
            let (whole, left) = heap.left();
            Error::FullAlone { wanted: bytes, left, whole, bytes: max }
        };
        if bytes > max {
            return Err(full());
        }
        let kind = heap.kind(bytes);
        if let Some(taken) = heap.take(kind) {
            return Ok(taken);
        }
        self.claiming(|| self.claim(kind))?.or_else(|| heap.take_larger(kind)).ok_or_else(full)
    }

    /// Claims pages for this machine, unless a host of it has just done so. A part of them; `None` if there is no room.
    fn claim(&self, kind: Kind) -> Result<Option<Taken>, Error> {
        let heap = self.memory().heap();
        if let Some(taken) = heap.take(kind) {
            return Ok(Some(taken));
        }
        let Some(claim) = heap.next_claim(kind) else { return Ok(None) };
        match self.between() {
            // All machines know the pages before the program has an address there.
            Some(between) => {
                let added = between.call(self, Request::Add(claim.first, claim.numbers, claim.what));
                self.outcome(added, "malloc()")?;
            }
            None => _ = heap.learn(claim.first, claim.what),
        }
        Ok(heap.add(claim))
    }

    /// Frees a part of this machine, or asks the machine whose it is.
    fn free(&self, minipage: Minipage) -> Ended {
        let heap = self.memory().heap();
        match self.between().filter(|_| !heap.is_own(minipage)) {
            Some(between) => between.call(self, Request::Free(minipage)),
            None if heap.free(minipage) => Ended::Well,
            None => Ended::Disagreed,
        }
    }
}
