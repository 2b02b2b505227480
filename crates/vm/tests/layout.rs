//! Minipages never overlap, never share a vpage, and are found again.

use std::collections::{HashMap, HashSet};

use forebay_vm::PAGE_BYTES;
use forebay_vm::layout::{ALIGNMENT, Layout, LayoutError};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Array(usize, usize),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1..300usize, 1..3 * PAGE_BYTES];
    prop_oneof![
        4 => size.clone().prop_map(Step::Allocate),
        1 => (1..40usize, size).prop_map(|(count, bytes)| Step::Array(count, bytes)),
        2 => any::<usize>().prop_map(Step::Free),
    ]
}

proptest! {
    #[test]
    fn minipages_are_apart(
        views in 1..20usize,
        pages in 1..80usize,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut layout = Layout::new(pages, views);
        let mut live: Vec<u32> = vec![];
        for step in steps {
            match step {
                Step::Allocate(bytes) => live.extend(layout.allocate(bytes).ok()),
                Step::Array(count, bytes) => {
                    if let Ok(array) = layout.allocate_array(count, bytes) {
                        for index in 0..count {
                            let minipage = array.first + index as u32;
                            prop_assert_eq!(layout.place(minipage), Some(array.place(index)));
                            live.push(minipage);
                        }
                    }
                }
                Step::Free(chance) if !live.is_empty() => {
                    let gone = live.swap_remove(chance % live.len());
                    prop_assert_eq!(layout.free(gone), Ok(()));
                    prop_assert_eq!(layout.free(gone), Err(LayoutError::Unknown(gone)));
                    prop_assert_eq!(layout.place(gone), None);
                }
                Step::Free(_) => {}
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
    let rows = layout.allocate_array(32, 256).unwrap();
    assert_eq!((rows.place(0).offset, rows.place(0).view), (0, 0));
    assert_eq!((rows.place(15).offset, rows.place(15).view), (15 * 256, 15));
    assert_eq!((rows.place(16).offset, rows.place(16).view), (PAGE_BYTES, 0));
}

#[test]
fn what_does_not_fit_is_told_with_what_is_left() {
    let mut layout = Layout::new(2, 4);
    layout.allocate(PAGE_BYTES).unwrap();
    let error = layout.allocate(PAGE_BYTES + 1).unwrap_err();
    assert_eq!(error.to_string(), "4097 bytes of shared memory do not fit: 4096 of 8192 are left");
    assert!(layout.allocate(0).is_err());
    assert!(layout.allocate_array(usize::MAX, usize::MAX / 2).is_err());
    assert!(layout.vpages().at(4, 0).is_none() && layout.vpages().at(usize::MAX, 0).is_none());
}
