//! Parts of pages: one thread, and many.

use std::{collections::HashSet, thread};

use forebay_vm::{Mapping, Object};

use super::*;

fn heap(pages: usize, views: usize) -> Heap {
    let extent = Extent::sparing(pages * PAGE_BYTES, 3 * views, views);
    let memory = Object::sparse(Heap::bytes(&extent)).unwrap();
    Heap::new(&mut Parts::of(Mapping::new(&memory).unwrap()), extent)
}

/// As one host does on the only machine.
fn allocate(heap: &Heap, bytes: usize) -> Option<Taken> {
    let kind = heap.kind(bytes);
    if let Some(taken) = heap.take(kind) {
        return Some(taken);
    }
    let Some(claim) = heap.next_claim(kind) else { return heap.take_larger(kind) };
    heap.learn(claim.first, claim.what).unwrap();
    heap.add(claim)
}

fn number(heap: &Heap, taken: Taken) -> Minipage {
    Minipage(heap.at(taken.place.view, taken.place.pages().start).unwrap())
}

#[test]
fn parts_are_apart_and_found_by_their_pages() {
    let heap = heap(4_000, 16);
    let mut vpages = HashSet::new();
    let mut bytes = HashSet::new();
    for wanted in (1..300).map(|step| step * step % 20_000 + 1) {
        let Taken { place, was_used } = allocate(&heap, wanted).unwrap();
        assert!(place.bytes >= wanted && !was_used && place.offset.is_multiple_of(ALIGNMENT));
        let minipage = number(&heap, Taken { place, was_used });
        assert_eq!(heap.place(minipage.0), Some(place));
        assert!(heap.is_own(minipage) && heap.extent().alone_numbers().contains(&minipage.0));
        for page in place.pages() {
            assert!(page >= 4_000 && vpages.insert((place.view, page)), "{page} in view {}", place.view);
            assert_eq!(heap.at(place.view, page), Some(minipage.0));
            assert_eq!(heap.around(place.view, page), Some(place.pages()));
        }
        assert!((place.offset..place.offset + place.bytes).all(|byte| bytes.insert(byte)));
    }
}

#[test]
fn parts_are_freed_once_and_used_again() {
    let heap = heap(64, 16);
    for bytes in [8, 256, 300, 4_096, 10_000, 40 * PAGE_BYTES, 45_000] {
        let first = allocate(&heap, bytes).unwrap();
        let minipage = number(&heap, first);
        assert!(heap.free(minipage));
        let left = heap.left();
        assert!(!heap.free(minipage), "twice");
        let again = allocate(&heap, bytes).unwrap();
        assert_eq!((again.place, again.was_used), (first.place, true));
        assert!(heap.free(minipage));
        assert_eq!(heap.left(), left);
    }
    assert!(!heap.free(Minipage(0)) && !heap.free(Minipage(64 * 48 + 15)) && !heap.free(Minipage(u32::MAX)));
}

#[test]
fn neighbours_are_the_parts_of_a_page_that_are_taken() {
    for views in [2, 16, 64, 100, 256] {
        let heap = heap(64, views);
        let all: Vec<Minipage> =
            (0..2 * views).map(|_| number(&heap, allocate(&heap, 16).unwrap())).collect();
        // Numbers go on in few views behind the first page.
        let last = all[all.len() - 1];
        let is_beside = |other: &Minipage| other.0 / views as u32 == last.0 / views as u32;
        let page: Vec<Minipage> = all.iter().copied().filter(is_beside).collect();
        assert!(!page.contains(&all[0]));
        let neighbours = heap.neighbours(page[1]).unwrap();
        assert_eq!((usize::from(neighbours.kind), page.len()), (views.min(256), views.min(256)));
        assert!(heap.free(page[1]));
        let neighbours = heap.neighbours(page[0]).unwrap();
        let used: Vec<u32> = (0..256)
            .filter(|bit| neighbours.used[bit / 64] >> (bit % 64) & 1 != 0)
            .map(|bit| bit as u32)
            .collect();
        let numbers: Vec<u32> =
            page.iter().map(|one| one.0 - neighbours.first.0).filter(|bit| *bit != 1).collect();
        assert_eq!(used, numbers);
    }
    let heap = heap(64, 16);
    let alone = allocate(&heap, PAGE_BYTES).unwrap();
    assert_eq!(heap.neighbours(number(&heap, alone)), None);
    assert_eq!(heap.neighbours(Minipage(0)), None);
}

#[test]
fn all_memory_is_given_away_before_there_is_none() {
    let heap = heap(100, 8);
    let parts = std::iter::from_fn(|| allocate(&heap, 100));
    assert_eq!(parts.count(), 800);
    assert_eq!(heap.left(), (0, 0));
    let spans = self::heap(100, 8);
    assert!(allocate(&spans, 101 * PAGE_BYTES).is_none());
    // Not as much as it would be with room for others of this size.
    let most = allocate(&spans, 97 * PAGE_BYTES).unwrap();
    assert_eq!(std::iter::from_fn(|| allocate(&spans, PAGE_BYTES)).count(), 3);
    assert!(spans.free(number(&spans, most)));
    assert_eq!(allocate(&spans, 90 * PAGE_BYTES).unwrap().place, most.place);
    // A small one has a larger part where there is no other.
    assert!(spans.free(number(&spans, most)));
    assert_eq!(allocate(&spans, 1).unwrap().place, most.place);
}

#[test]
fn threads_have_different_parts_at_all_times() {
    let heap = heap(8, 16);
    let kind = heap.kind(200);
    for _ in 0..4 {
        let claim = heap.next_claim(kind).unwrap();
        heap.learn(claim.first, claim.what).unwrap();
        let taken = heap.add(claim).unwrap();
        assert!(heap.free(number(&heap, taken)));
    }
    let held: Vec<AtomicU32> = (0..heap.extent().minipages_max()).map(|_| AtomicU32::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (heap, held) = (&heap, &held);
            scope.spawn(move || {
                let mut mine = vec![];
                for step in 0..20_000usize {
                    if (step * 7 + thread) % 40 < 20 && mine.len() < 16 {
                        // A page that leaves the list and comes back is missed meanwhile.
                        let Some(taken) = heap.take(kind) else { continue };
                        let minipage = number(heap, taken);
                        assert_eq!(held[minipage.index()].fetch_add(1, SeqCst), 0);
                        mine.push(minipage);
                    } else if let Some(minipage) = mine.pop() {
                        assert_eq!(held[minipage.index()].fetch_sub(1, SeqCst), 1);
                        assert!(heap.free(minipage));
                    }
                }
                for minipage in mine {
                    held[minipage.index()].fetch_sub(1, SeqCst);
                    assert!(heap.free(minipage));
                }
            });
        }
    });
    assert_eq!(std::iter::from_fn(|| heap.take(kind)).count(), 64);
}
