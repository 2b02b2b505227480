//! Where each minipage is, by its number. One thread at a time says it, and any thread asks: in a signal handler too.

use std::sync::{
    OnceLock,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use super::{ALIGNMENT, Place};

/// Minipages of the first part. Each next part has room for twice as many as the one before.
const FIRST: usize = 1 << 10;
const PARTS: usize = 23;
/// Of a place in one word: the view is below the offset.
const VIEW_BITS: u32 = 9;

/// View and offset, and the size, which is 0 for no minipage.
type Entry = [AtomicU64; 2];

/// The places of all minipages.
#[derive(Debug, Default)]
pub struct Places([OnceLock<Box<[Entry]>>; PARTS]);

impl Places {
    /// Where a minipage is, if it is allocated.
    #[must_use]
    pub fn get(&self, minipage: u32) -> Option<Place> {
        let (part, inside) = part(minipage);
        let [at, bytes] = self.0[part].get()?.get(inside)?;
        let bytes = bytes.load(Acquire) as usize;
        let at = at.load(Relaxed);
        let place = || Place {
            offset: (at >> VIEW_BITS) as usize * ALIGNMENT,
            bytes,
            view: at as usize & ((1 << VIEW_BITS) - 1),
        };
        (bytes > 0).then(place)
    }

    /// By one thread at a time. A number that gets another place is asked for by no other thread meanwhile.
    pub(super) fn set(&self, minipage: u32, place: Option<Place>) {
        let (part, inside) = part(minipage);
        let [at, bytes] = &self.0[part].get_or_init(|| zeros(FIRST << part))[inside];
        let Some(place) = place else { return bytes.store(0, Release) };
        let (units, view) = ((place.offset / ALIGNMENT) as u64, place.view as u64);
        at.store(units << VIEW_BITS | view, Relaxed);
        bytes.store(place.bytes as u64, Release);
    }
}

/// The part that a minipage is in, and where.
const fn part(minipage: u32) -> (usize, usize) {
    let number = minipage as usize;
    let part = (number / FIRST + 1).ilog2() as usize;
    (part, number - FIRST * ((1 << part) - 1))
}

/// So many entries, which take memory from their first use on only.
fn zeros(count: usize) -> Box<[Entry]> {
    let words = Box::into_raw(vec![[0u64; 2]; count].into_boxed_slice());
    // SAFETY: an atomic word has the size, the alignment and the values of a plain one, and the box is this function's own.
    unsafe { Box::from_raw(words as *mut [Entry]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let places = Places::default();
        let place = |number: u32| Place {
            offset: number as usize * 7 * ALIGNMENT,
            bytes: 1 + number as usize,
            view: number as usize % 256,
        };
        let numbers: Vec<u32> = (0..5_000).chain([1 << 14, 1 << 20]).collect();
        assert!(numbers.iter().all(|number| places.get(*number).is_none()));
        numbers.iter().for_each(|number| places.set(*number, Some(place(*number))));
        assert!(numbers.iter().all(|number| places.get(*number) == Some(place(*number))));
        places.set(17, None);
        assert_eq!((places.get(17), places.get(18)), (None, Some(place(18))));
    }
}
