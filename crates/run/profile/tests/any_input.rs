//! No bytes make the reader of profiles panic, and what it accepts keeps all rules. The fuzz target runs the same bodies.

mod profile_bodies;
mod support;

use forebay_profile::format::{self, FormatError, decode, encode};
use forebay_profile::{Identity, Kind, Need, Pack, Profile};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn path() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        4 => "[a-c]{1,3}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..4),
        1 => prop::sample::select(vec![b"..".to_vec(), b".".to_vec(), b"a-".to_vec(), vec![b'n'; 255]]),
    ];
    vec(name, 0..5).prop_map(|names| names.iter().flat_map(|name| [b"/", name.as_slice()].concat()).collect())
}

fn need() -> impl Strategy<Value = Need> {
    let start = prop_oneof![0_u64..100_000, any::<u64>()];
    let len = prop_oneof![0_u64..100_000, any::<u64>()];
    let at_us = prop_oneof![0_u32..100_000, any::<u32>()];
    (at_us, path(), prop::sample::select(Kind::ALL.to_vec()), start, len).prop_map(
        |(at_us, path, kind, start, len)| Need { at_us, path, kind, range: start..start.saturating_add(len) },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    let size = prop_oneof![0_u64..200_000, any::<u64>()];
    let run = (vec(need(), 0..30), prop::option::weighted(0.9, (size, any::<i64>())));
    (vec(run, 0..4), 0_usize..3).prop_map(|(runs, level)| {
        runs.into_iter().fold(support::empty(level), |profile, (needs, file)| {
            let identity = file.map(|(size, mtime_ns)| Identity { dev: size, ino: u64::MAX, size, mtime_ns });
            profile.learn(&needs, |_| identity, 1)
        })
    })
}

/// A change of the body, most of them small numbers, which lengths and counts are.
fn damage() -> impl Strategy<Value = Vec<(Index, u8)>> {
    vec((any::<Index>(), prop_oneof![0_u8..5, Just(0xff), Just(0x80), any::<u8>()]), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_bytes_do_no_harm(data in vec(any::<u8>(), 0..512)) {
        profile_bodies::bytes(&data);
    }

    #[test]
    fn whatever_was_needed_a_profile_is_read_back(profile in profile()) {
        profile_bodies::profile_holds(profile);
    }

    #[test]
    fn whatever_was_needed_a_pack_is_read_back_and_damage_does_no_harm(profile in profile(), places in damage()) {
        let pack = Pack::of(profile, b"/");
        profile_bodies::pack_holds(&pack);
        let mut body = pack.encode()[16..].to_vec();
        for (place, value) in places {
            let at = place.index(body.len());
            body[at] = value;
        }
        profile_bodies::bytes(&body);
    }

    #[test]
    fn damaged_bodies_do_no_harm(profile in profile(), places in damage(), cut in prop::option::of(any::<Index>())) {
        let mut body = encode(&profile)[16..].to_vec();
        for (place, value) in places {
            let at = place.index(body.len());
            body[at] = value;
        }
        let len = cut.map_or(body.len(), |cut| cut.index(body.len()));
        profile_bodies::bytes(&body[..len]);
    }

    #[test]
    fn a_damaged_profile_is_refused(profile in profile(), place in any::<Index>(), bit in 0_u32..8, cut in any::<Index>()) {
        let mut bytes = encode(&profile);
        let len = cut.index(bytes.len());
        prop_assert!(decode(&bytes[..len]).is_err());
        let at = place.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(decode(&bytes).is_err());
    }
}

#[test]
fn each_fault_of_the_head_has_its_own_error() {
    let bytes = encode(&support::empty(support::WHOLE));
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        decode(&bytes)
    };
    assert_eq!(with(0, b'x'), Err(FormatError::OtherKind));
    assert_eq!(with(8, 2), Err(FormatError::OtherVersion { version: 2 }));
    assert_eq!(with(12, !bytes[12]), Err(FormatError::Damaged));
    assert_eq!(decode(b"fbac"), Err(FormatError::OtherKind));
    let long = vec![0; format::BYTES_MAX + 1];
    assert_eq!(decode(&long), Err(FormatError::TooLong { bytes: long.len() }));
}
