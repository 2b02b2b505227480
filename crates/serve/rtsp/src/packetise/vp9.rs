//! VP9 (RFC 9628): a frame, or a superframe, in parts, each after a descriptor of one byte.
//!
//! ```text
//!   0   1   2   3   4   5   6   7
//! +---+---+---+---+---+---+---+---+------------------
//! | I | P | L | F | B | E | V | Z | part of the frame
//! +---+---+---+---+---+---+---+---+------------------
//! ```
//!
//! B begins a frame, E ends it, P is set unless it is a key frame. Files have one layer, so nothing is said of layers.

use super::{Packet, Packetiser, Sample, Unsendable};

const IS_PREDICTED: u8 = 0x40;
const BEGINS: u8 = 0x08;
const ENDS: u8 = 0x04;

impl Packetiser {
    pub(super) fn vp9(
        &mut self,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let descriptor = |packet: &mut Packet, sample: &Sample, part: &std::ops::Range<usize>| {
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            let is_predicted = !is_key_frame(&buffer[sample.at.clone()]);
            packet.say(&[flag(is_predicted, IS_PREDICTED)
                | flag(part.start == sample.at.start, BEGINS)
                | flag(part.end == sample.at.end, ENDS)]);
        };
        self.divided(samples, 1, descriptor, packets);
        Ok(())
    }
}

/// By the first bits of the uncompressed header (VP9 bitstream, 6.2): two of a marker, two of the profile, one more in
/// profile 3, one for a frame that is shown again, and one that is clear for key frames.
fn is_key_frame(frame: &[u8]) -> bool {
    const PROFILE_3: u8 = 0x30;
    let Some(&first) = frame.first() else { return false };
    let flags = if first & PROFILE_3 == PROFILE_3 { first << 5 } else { first << 4 };
    flags & 0xC0 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_are_known_by_their_first_bits() {
        // Profile 0: key, predicted, shown again. Profile 3: key, predicted.
        let known = [0x82, 0x86, 0x88, 0xB0, 0xB2].map(|first| is_key_frame(&[first]));
        assert_eq!(known, [true, false, false, true, false]);
        assert!(!is_key_frame(&[]));
    }
}
