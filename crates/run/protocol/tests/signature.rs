//! Signatures: what agrees and what does not.

use forebay_protocol::signature::Signature;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_signature_is_never_zero(number in any::<u64>(), words in prop::collection::vec(any::<u64>(), 0..5)) {
        let signature = words.iter().fold(Signature::call(number), |signature, &word| signature.word(word));
        prop_assert_ne!(signature.value(), 0);
    }

    #[test]
    fn a_different_path_is_a_different_call(
        number in 0..400u64,
        one in prop::collection::vec(any::<u8>(), 0..80),
        other in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let of = |path: &[u8]| Signature::call(number).bytes(path).value();
        prop_assert_eq!(of(&one) == of(&other), one == other);
    }

    #[test]
    fn offsets_and_their_order_count(number in 0..400u64, one in any::<u64>(), other in any::<u64>()) {
        let pair = |a, b| Signature::call(number).word(a).word(b).value();
        prop_assert_eq!(pair(one, other) == pair(other, one), one == other);
    }
}

#[test]
fn where_one_path_ends_and_the_next_begins_counts() {
    let two = |a: &[u8], b: &[u8]| Signature::call(1).bytes(a).bytes(b).value();
    assert_ne!(two(b"ab", b"c"), two(b"a", b"bc"));
    assert_ne!(two(b"", b"a"), two(b"a", b""));
    assert_ne!(two(b"a\0", b""), two(b"a", b""));
}

#[test]
fn many_reads_of_one_file_have_as_many_signatures() {
    let mut seen = std::collections::HashSet::new();
    for block in 0..200_000u64 {
        assert!(seen.insert(Signature::call(17).word(3).word(4096).word(block * 4096).value()));
    }
}
