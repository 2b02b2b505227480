//! No bytes that come from other hosts make a host panic, or send without end. The fuzz target runs the same body.

mod message_bodies;

use forebay_coherence::{HostId, Message, Minipage, Want};
use proptest::collection::vec;
use proptest::prelude::*;

/// A byte that says from where, and bytes that are a message more often than not.
fn step() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), 0..19u8, 0..9u8, 0..4u8, vec(any::<u8>(), 6)).prop_map(
        |(from, kind, number, word, rest)| {
            let version = Message::Leaving.to_bytes()[0];
            let mut bytes =
                vec![from, version, kind, number % 3, 0, number, 0, 0, 0, word, 0, 0, 0, 0, 0, 0, 0];
            bytes[13] = if rest[3] < 64 { rest[4] % 4 } else { 0 };
            // Now and then one is damaged.
            if rest[0] < 16 {
                bytes[1 + usize::from(rest[1] % 16)] = rest[2];
            }
            bytes
        },
    )
}

#[test]
fn a_requester_that_is_no_host_gets_nothing() {
    for requester in [3, 0x0100, u16::MAX].map(HostId) {
        for want in [Want::Read, Want::Write, Want::Push] {
            let message = Message::Forward { minipage: Minipage(0), want, requester, more: 9 };
            message_bodies::messages(&[&[0x80][..], &message.to_bytes()].concat());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_messages_make_a_host_panic(steps in vec(step(), 0..60)) {
        message_bodies::messages(&steps.concat());
    }

    #[test]
    fn no_bytes_make_a_host_panic(bytes in vec(any::<u8>(), 0..400)) {
        message_bodies::messages(&bytes);
    }
}
