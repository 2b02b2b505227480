//! No bytes of a stranger are taken for a host's, and none make a host panic. The fuzz target runs the same bodies.

mod stranger_bodies;

use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that begin as a hello of host 5 does.
fn almost_a_hello() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..120).prop_map(|rest| [&b"forebay\x01\x05\0\x02\0"[..], &rest].concat())
}

proptest! {
    #[test]
    fn no_bytes_are_a_handshake(bytes in prop_oneof![vec(any::<u8>(), 0..120), almost_a_hello()]) {
        stranger_bodies::says(&bytes);
    }

    #[test]
    fn no_bytes_are_a_frame(length in 0..200u8, bytes in vec(any::<u8>(), 0..300)) {
        stranger_bodies::sends(&[&[length, 0, 0, 0], &bytes[..]].concat());
        stranger_bodies::sends(&bytes);
    }
}
