//! The checksum of a page (RFC 3533, section 6): a CRC whose bits come from the highest to the lowest, with zeros in its own place.

use std::ops::Range;

use crc32fast::Hasher;

const PLACE: Range<usize> = 22..26;

/// Whether a page is as it was written.
pub(super) fn is_right(page: &[u8]) -> bool {
    let told = page.get(PLACE).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    told == Some(checksum(page))
}

/// The library takes the lowest bit of a byte first, and turns the register over before and after.
fn checksum(page: &[u8]) -> u32 {
    let mut turned: Vec<u8> = page.iter().map(|byte| byte.reverse_bits()).collect();
    turned.iter_mut().take(PLACE.end).skip(PLACE.start).for_each(|byte| *byte = 0);
    let mut hasher = Hasher::new_with_initial(!0);
    hasher.update(&turned);
    (!hasher.finalize()).reverse_bits()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_one_that_the_standard_has(mut page in prop::collection::vec(any::<u8>(), 27..300), bit in any::<usize>()) {
            page[PLACE].fill(0);
            let sum = page.iter().fold(0, |sum: u32, byte| {
                let shift = |sum: u32, _| if sum >> 31 == 1 { sum << 1 ^ 0x04C1_1DB7 } else { sum << 1 };
                (0..8).fold(sum ^ u32::from(*byte) << 24, shift)
            });
            page[PLACE].copy_from_slice(&sum.to_le_bytes());
            prop_assert!(is_right(&page));
            let bit = bit % (page.len() * 8);
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_right(&page));
        }

        #[test]
        fn what_is_no_page_has_none(bytes in prop::collection::vec(any::<u8>(), 0..26)) {
            prop_assert!(!is_right(&bytes));
        }
    }
}
