//! What must hold for any input, for property tests and for fuzzing.

use std::array;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use forebay_protocol::layout;
use forebay_supervisor::patches::{PatchTable, Site, Tier, examine, pages, select};

use crate::patches_library::{Library, TEXT};

/// Where a cache file has its checksum: behind magic, version, count of sites, length of the build-id, and its place.
const CHECKSUM_END: usize = 8 + 4 + 4 + 4 + 32 + 8;

/// Any bytes in place of a library: an error, or sites that are in order, apart and within bounds.
pub fn library(elf: &[u8]) {
    let Ok((table, census)) = examine(elf) else { return };
    check(&table);
    let left_out = census.outside + census.entered + census.flags + census.calculated + census.unclear;
    let displaceable: usize = census.displaceable.iter().sum();
    assert!(table.sites.len() + left_out == displaceable && displaceable <= census.syscalls);
}

/// Any bytes as the code of an otherwise proper library: each site has the bytes that it is said to have.
pub fn code(code: &[u8]) {
    // The first byte says where to cut the rest into two functions.
    let Some((cut, code)) = code.split_first() else { return };
    let (first, second) = code.split_at(usize::from(*cut).min(code.len()));
    let file =
        Library::new().function(first).function(second).symbol("syscall", 0..first.len() as u64).file();
    let (table, _) = examine(&file).expect("a proper library");
    check(&table);
    for site in &table.sites {
        assert!(u64::from(site.offset) >= TEXT && file[site.offset as usize..].starts_with(&bytes(site)));
    }
}

/// The bytes that a site is said to have.
pub fn bytes(site: &Site) -> Vec<u8> {
    site.displaced.site_code(site.number.unwrap_or_default())[..site.len() as usize].to_vec()
}

/// Any bytes as a cache file, as they are and with the checksum that they should have: rejected, or the very file that the
/// table makes.
pub fn cache(content: &[u8]) {
    for content in [content.to_vec(), with_checksum(content)] {
        if let Some(table) = PatchTable::from_cache(&content) {
            check(&table);
            assert_eq!(table.to_cache(), content);
            assert_eq!(with_checksum(&content), content, "the reader has another checksum");
        }
    }
}

/// A cache file with the checksum that its bytes should have: changes that do not reach beyond it would show nothing.
fn with_checksum(content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    let place = CHECKSUM_END - 8..CHECKSUM_END;
    if let Some(end) = content.get(place.end..) {
        let sum = content[..place.start].iter().chain(end).fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        content[place].copy_from_slice(&sum.to_le_bytes());
    }
    content
}

/// Any bytes in the channel's patch table: rejected, or read back the same when stored again.
pub fn words(bytes: &[u8]) {
    let mut words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mut next = || words.next().unwrap_or(0);
    // Lengths that make sense more often than not.
    let lengths = next();
    let memory = layout::PatchTable {
        build_id_len: AtomicU32::new(lengths as u32 % 40),
        len: AtomicU32::new((lengths >> 32) as u32 % 600),
        build_id: array::from_fn(|_| AtomicU8::new(7)),
        sites: array::from_fn(|_| AtomicU64::new(next())),
    };
    if let Some(table) = PatchTable::load(&memory) {
        check(&table);
        let other = empty();
        assert_eq!(table.store(&other), table.sites.len());
        assert_eq!(PatchTable::load(&other), Some(table));
    }
}

/// The channel's patch table as the supervisor finds it.
pub fn empty() -> layout::PatchTable {
    layout::PatchTable {
        build_id_len: AtomicU32::new(0),
        build_id: array::from_fn(|_| AtomicU8::new(0)),
        len: AtomicU32::new(0),
        sites: array::from_fn(|_| AtomicU64::new(0)),
    }
}

fn check(table: &PatchTable) {
    assert!((1..=32).contains(&table.build_id.len()));
    for pair in table.sites.windows(2) {
        assert!(pair[0].end() <= u64::from(pair[1].offset), "{pair:?}");
    }
    for site in &table.sites {
        let word = Site::from_word(site.to_word()).expect("a word that stands for a site");
        assert_eq!((word.offset, word.displaced, word.number), (site.offset, site.displaced, site.number));
    }
    let all = select(table, Tier::All);
    let essential = select(table, Tier::Essential);
    assert!(essential.iter().all(|site| all.contains(site)) && pages(&essential).is_subset(&pages(&all)));
}
