//! Minipages never overlap, never share a vpage, and are found again.

use std::collections::{HashMap, HashSet};

use forebay_vm::PAGE_BYTES;
use forebay_vm::layout::{ALIGNMENT, Grain, Layout, LayoutError};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Array(usize, usize, Grain),
    Free(usize),
    FreeArray(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1..300usize, 1..3 * PAGE_BYTES];
    prop_oneof![
        4 => size.clone().prop_map(Step::Allocate),
        1 => (1..40usize, size, grain()).prop_map(|(count, bytes, grain)| Step::Array(count, bytes, grain)),
        2 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeArray),
    ]
}

fn grain() -> impl Strategy<Value = Grain> {
    prop_oneof![2 => Just(Grain::Parts(1)), 2 => (2..50usize).prop_map(Grain::Parts), 1 => Just(Grain::Page)]
}

proptest! {
    #[test]
    fn minipages_are_apart(
        views in 1..20usize,
        few in 1..20usize,
        pages in 1..80usize,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut layout = Layout::sparing(pages, views, few.min(views));
        let mut live: Vec<u32> = vec![];
        let mut arrays = vec![];
        for step in steps {
            match step {
                Step::Allocate(bytes) => live.extend(layout.allocate(bytes).ok()),
                Step::Array(count, bytes, grain) => {
                    if let Ok(array) = layout.allocate_array(count, bytes, grain) {
                        for index in 0..count {
                            // It is in minipages of the array that are one after the other.
                            let place = array.place(index);
                            let at = |byte| layout.vpages().at(place.view, place.offset + byte).unwrap();
                            let (first, last) = (at(0), at(bytes - 1));
                            prop_assert!(first >= array.first && last < array.first + array.minipages as u32);
                            prop_assert!(first == last || grain == Grain::Page);
                            let (first, last) = (layout.place(first).unwrap(), layout.place(last).unwrap());
                            prop_assert!(first.offset <= place.offset);
                            prop_assert!(place.offset + bytes <= last.offset + last.bytes);
                            prop_assert_eq!((place.view, place.bytes), (first.view, bytes));
                        }
                        for first in [0, count / 3, count] {
                            let one_by_one = (first..count).map(|index| array.place(index));
                            prop_assert!(array.places(first..count).eq(one_by_one));
                        }
                        let last = array.first + array.minipages as u32;
                        let minipages = (array.first..last).map(|index| layout.place(index).unwrap());
                        let used: HashSet<_> = minipages
                            .flat_map(|place| place.pages().map(move |page| (place.view, page)))
                            .collect();
                        let areas = array.areas().flat_map(|(view, pages)| pages.map(move |page| (view, page)));
                        let areas: Vec<_> = areas.collect();
                        prop_assert_eq!(areas.len(), used.len());
                        prop_assert_eq!(areas.into_iter().collect::<HashSet<_>>(), used.clone());
                        let starts = (0..count).map(|index| array.place(index).offset);
                        prop_assert!(starts.collect::<Vec<_>>().windows(2).all(|two| two[0] + bytes <= two[1]));
                        let has_own = used.iter().all(|(_, page)| array.own_pages().contains(page));
                        prop_assert!(has_own || array.minipages == 1 && array.own_pages().is_empty());
                        live.extend(array.first..last);
                        arrays.push(array);
                    }
                }
                Step::Free(chance) if !live.is_empty() => {
                    let gone = live.swap_remove(chance % live.len());
                    prop_assert_eq!(layout.free(gone), Ok(()));
                    prop_assert_eq!(layout.free(gone), Err(LayoutError::Unknown(gone)));
                    prop_assert_eq!(layout.place(gone), None);
                }
                Step::FreeArray(chance) if !arrays.is_empty() => {
                    let array = arrays.swap_remove(chance % arrays.len());
                    let numbers = array.first..array.first + array.minipages as u32;
                    // Where a part was given back by itself, that has to be done with the others.
                    let is_whole = numbers.clone().all(|number| live.contains(&number));
                    prop_assert_eq!(layout.free_array(&array).is_ok(), is_whole);
                    if is_whole {
                        live.retain(|number| !numbers.contains(number));
                        prop_assert!(layout.free_array(&array).is_err());
                    }
                }
                Step::Free(_) | Step::FreeArray(_) => {}
            }
        }
        let vpages = layout.vpages();
        let (mut shown, mut bytes) = (HashMap::new(), HashSet::new());
        for minipage in live {
            let place = layout.place(minipage).unwrap();
            prop_assert!(place.view < views && place.offset + place.bytes <= pages * PAGE_BYTES);
            prop_assert_eq!(place.offset % ALIGNMENT, 0);
            for page in place.pages() {
                prop_assert_eq!(shown.insert((place.view, page), minipage), None);
                prop_assert_eq!(vpages.at(place.view, page * PAGE_BYTES), Some(minipage));
            }
            for byte in (place.offset..place.offset + place.bytes).step_by(ALIGNMENT) {
                prop_assert!(bytes.insert(byte / ALIGNMENT), "byte {} twice", byte);
            }
        }
        for view in 0..views {
            for page in 0..pages {
                prop_assert_eq!(vpages.at(view, page * PAGE_BYTES).is_some(), shown.contains_key(&(view, page)));
            }
        }
    }
}

#[test]
fn sixteen_rows_of_256_bytes_share_a_page_in_sixteen_views() {
    let mut layout = Layout::new(4, 16);
    let rows = layout.allocate_array(32, 256, Grain::Parts(1)).unwrap();
    assert_eq!((rows.place(0).offset, rows.place(0).view), (0, 0));
    assert_eq!((rows.place(15).offset, rows.place(15).view), (15 * 256, 15));
    assert_eq!((rows.place(16).offset, rows.place(16).view), (PAGE_BYTES, 0));
}

#[test]
fn rows_in_chunks_share_minipages_and_follow_each_other() {
    let mut layout = Layout::new(8, 16);
    let rows = layout.allocate_array(10, 256, Grain::Parts(4)).unwrap();
    assert_eq!((rows.minipages, rows.minipage_bytes), (3, 1_024));
    assert_eq!((rows.place(3).offset, rows.place(3).view), (3 * 256, 0));
    assert_eq!((rows.place(4).offset, rows.place(4).view), (4 * 256, 1));
    assert_eq!((rows.place(5).offset, rows.place(5).view), (5 * 256, 1));
    let pages = layout.allocate_array(10, 1_000, Grain::Page).unwrap();
    assert_eq!((pages.first, pages.minipages), (3, 3));
    assert_eq!(pages.place(4).pages(), 1..3, "the fifth is on two pages");
    assert_eq!((pages.place(9).offset, pages.place(9).view), (PAGE_BYTES + 9_000, 0));
}

#[test]
fn an_array_has_as_many_views_as_it_needs() {
    let pages = |count, bytes| {
        let array = Layout::sparing(1 << 16, 256, 16).allocate_array(count, bytes, Grain::Parts(1)).unwrap();
        (array.own_pages().len(), array.areas().count())
    };
    assert_eq!(pages(512, 8), (32, 16), "few");
    assert_eq!(pages(20_000, 8), (200, 100));
    assert_eq!(pages(1 << 17, 8), (1 << 9, 256), "many");
    assert_eq!(pages(1 << 16, 256), (1 << 12, 16), "as many as fit");
    assert_eq!(pages(1 << 14, PAGE_BYTES), (1 << 14, 1));
    let mut layout = Layout::new(1 << 17, 16);
    assert_eq!(layout.allocate_array(1 << 17, 8, Grain::Parts(1)).unwrap().own_pages().len(), 1 << 13);
}

#[test]
fn pages_and_numbers_of_arrays_that_were_given_back_are_used_again() {
    let mut layout = Layout::new(16, 16);
    for round in 0..1_000 {
        let rows = layout.allocate_array(40 + round % 50, 256, Grain::Parts(1)).unwrap();
        let one = layout.allocate_array(1, 8, Grain::Parts(1)).unwrap();
        let pages = layout.allocate_array(1, PAGE_BYTES, Grain::Page).unwrap();
        for array in [rows, one, pages] {
            layout.free_array(&array).unwrap();
        }
        assert_eq!((layout.left(), layout.len()), (16 * PAGE_BYTES, 0));
    }
    // A page of slots is one until the last of them is given back.
    let mut slots: Vec<_> = (0..40).map(|_| layout.allocate_array(1, 8, Grain::Parts(1)).unwrap()).collect();
    for used in (1..=40usize).rev() {
        assert_eq!(layout.left(), (16 - used.div_ceil(16)) * PAGE_BYTES);
        layout.free_array(&slots.pop().unwrap()).unwrap();
    }
    let mut again = |_| layout.allocate_array(1, 8, Grain::Parts(1)).unwrap();
    let mut slots: Vec<_> = (0..40).map(&mut again).collect();
    let freed: Vec<_> = (0..32).step_by(2).map(|index| slots[index]).collect();
    freed.iter().for_each(|slot| layout.free_array(slot).unwrap());
    slots.retain(|slot| !freed.contains(slot));
    for _ in &freed {
        slots.push(layout.allocate_array(1, 8, Grain::Parts(1)).unwrap());
    }
    assert_eq!(layout.left(), 13 * PAGE_BYTES);
    let places: HashSet<_> = slots.iter().map(|slot| slot.place(0)).collect();
    assert_eq!(places.len(), 40);
    slots.iter().for_each(|slot| layout.free_array(slot).unwrap());
    assert_eq!((layout.left(), layout.len()), (16 * PAGE_BYTES, 0));
}

#[test]
fn what_does_not_fit_is_told_with_what_is_left() {
    let mut layout = Layout::new(2, 4);
    layout.allocate(PAGE_BYTES).unwrap();
    let error = layout.allocate(PAGE_BYTES + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4097 bytes of shared memory do not fit: they take 8192, and 4096 of 8192 are left in one piece"
    );
    assert!(layout.allocate(0).is_err());
    assert!(layout.allocate_array(usize::MAX, usize::MAX / 2, Grain::Parts(1)).is_err());
    assert!(layout.vpages().at(4, 0).is_none() && layout.vpages().at(usize::MAX, 0).is_none());
}
