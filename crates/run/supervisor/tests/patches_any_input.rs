//! Nothing that is read can do harm: arbitrary, cut and damaged input ends in an error, and soon. The same bodies
//! are run by the fuzz targets in `fuzz/`.

mod patches_bodies;
mod patches_library;

use std::time::{Duration, Instant};

use forebay_protocol::layout::{Displaced, PATCH_SITES};
use forebay_supervisor::patches::{PatchTable, Site, Within, libc_path};
use patches_library::Library;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Pieces of code that matter to the decoder, among arbitrary ones.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        &b"\x0f\x05"[..],
        b"\x0f\x05\x48\x3d\x00\xf0\xff\xff",
        b"\x0f\x05\x48\x3d\x01\xf0\xff\xff",
        b"\x0f\x05\x3d\x00\xf0\xff\xff",
        b"\x31\xc0",
        b"\xb8\x01\x00\x00\x00",
        b"\xb8\x0c\x00\x00\x00\x0f\x05",
        b"\x48\x39\xf8",
        b"\x9c",
        b"\xff\xe0",
        b"\x48\x8b\x07",
        b"\x48\x89\xc7",
        b"\xc3",
        b"\x90",
    ];
    let jump =
        (prop_oneof![Just(0xeb_u8), 0x70_u8..0x80], -24_i8..24).prop_map(|(code, by)| vec![code, by as u8]);
    prop_oneof![
        6 => prop::sample::select(known.map(<[u8]>::to_vec).to_vec()),
        3 => jump,
        1 => vec(any::<u8>(), 0..8),
    ]
}

fn code() -> impl Strategy<Value = Vec<u8>> {
    vec(piece(), 0..48).prop_map(|pieces| pieces.concat())
}

fn library() -> impl Strategy<Value = Vec<u8>> {
    (code(), code(), vec(any::<u8>(), 0..16), vec(0_u64..300, 0..4), vec(0_u64..300, 0..4)).prop_map(
        |(first, second, lsda, pointers, addends)| {
            let library = Library::of(&first).loose(b"\xcc").with_landing_pads(&second, &lsda);
            let library = library.symbol("syscall", 0..first.len() as u64).symbol("mq_close", 20..40);
            let library = pointers.into_iter().fold(library, Library::pointer);
            addends.into_iter().fold(library, Library::relocation).file()
        },
    )
}

/// Damages at most a few places, most of them in the headers and tables.
fn damage() -> impl Strategy<Value = Vec<(Index, u8)>> {
    vec((any::<Index>(), prop_oneof![Just(0_u8), Just(0xff), any::<u8>()]), 1..6)
}

fn apply(file: &mut [u8], places: &[(Index, u8)]) {
    // Every other place in the headers, where damage does most.
    for (turn, (place, value)) in places.iter().enumerate() {
        let len = if turn % 2 == 0 { file.len().min(0x200) } else { file.len() };
        file[place.index(len)] = *value;
    }
}

fn table() -> impl Strategy<Value = PatchTable> {
    let site = (7_u32..5000, 0_u8..4, prop::option::of(0_u16..0xfff), 0_u8..3);
    (vec(any::<u8>(), 1..=32), vec(site, 0..600)).prop_map(|(build_id, sites)| {
        let mut end = 0;
        let sites = sites.into_iter().map(|(gap, displaced, number, within)| {
            let within = [Within::Other, Within::Syscall, Within::MqClose, Within::SignalMask, Within::Fork]
                [usize::from(within)];
            let displaced = Displaced::from_u8(displaced).unwrap();
            let number = if displaced == Displaced::MovEaxNumber { number.or(Some(12)) } else { number };
            let site = Site { offset: end + gap, displaced, number, within };
            end = site.end() as u32;
            site
        });
        PatchTable { build_id, sites: sites.collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_bytes_are_no_library(bytes in vec(any::<u8>(), 0..512)) {
        patches_bodies::library(&bytes);
        patches_bodies::code(&bytes);
    }

    #[test]
    fn any_code_is_decoded(code in code()) {
        patches_bodies::code(&code);
    }

    #[test]
    fn damaged_libraries_do_no_harm(mut file in library(), places in damage(), cut in prop::option::of(any::<Index>())) {
        patches_bodies::library(&file);
        apply(&mut file, &places);
        let len = cut.map_or(file.len(), |cut| cut.index(file.len()));
        patches_bodies::library(&file[..len]);
    }

    #[test]
    fn damaged_cache_files_are_rejected(table in table(), place in any::<Index>(), bit in 0_u32..8, cut in any::<Index>()) {
        let mut content = table.to_cache();
        prop_assert_eq!(PatchTable::from_cache(&content), Some(table));
        patches_bodies::cache(&content);
        let len = cut.index(content.len());
        prop_assert_eq!(PatchTable::from_cache(&content[..len]), None);
        let place = place.index(content.len());
        content[place] ^= 1_u8 << bit;
        prop_assert_eq!(PatchTable::from_cache(&content), None);
        patches_bodies::cache(&content);
    }

    #[test]
    fn arbitrary_bytes_are_no_cache_file(bytes in vec(any::<u8>(), 0..512)) {
        patches_bodies::cache(&bytes);
    }

    #[test]
    fn arbitrary_words_in_the_channel_are_rejected_or_kept(bytes in vec(any::<u8>(), 0..4200)) {
        patches_bodies::words(&bytes);
    }

    #[test]
    fn a_stored_table_is_read_back(table in table()) {
        let memory = patches_bodies::empty();
        prop_assert_eq!(PatchTable::load(&memory), None);
        let stored = table.store(&memory);
        prop_assert_eq!(stored, table.sites.len().min(PATCH_SITES));
        let kept = table.sites[..stored].iter().map(|site| Site { within: Within::Other, ..*site });
        prop_assert_eq!(PatchTable::load(&memory), Some(table.with_sites(kept.collect())));
    }
}

/// Where damage is put in the real library: everywhere, but mostly in tables that lead elsewhere.
#[test]
fn a_damaged_libc_does_no_harm() {
    let Some(path) = libc_path() else { return };
    let file = std::fs::read(path).unwrap();
    let tables = [0..0x400, file.len() - 64 * 64..file.len(), file.len() / 2..file.len() - 64 * 64];
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut damaged = file.clone();
    while start.elapsed() < Duration::from_secs(5) {
        damaged.copy_from_slice(&file);
        for _ in 0..=next(3) {
            let range = tables[next(tables.len())].clone();
            let at = range.start + next(range.len());
            damaged[at] = [0, 0xff, 0x7f, next(256) as u8][next(4)];
        }
        let len = if next(4) == 0 { next(file.len()) } else { file.len() };
        let start = Instant::now();
        patches_bodies::library(&damaged[..len]);
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
}
