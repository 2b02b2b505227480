//! VP8 (RFC 7741): a frame in parts, each after a descriptor of one byte.
//!
//! ```text
//!   0   1   2   3   4   5 6 7
//! +---+---+---+---+---+-------+------------------
//! | X | R | N | S | R |  PID  | part of the frame
//! +---+---+---+---+---+-------+------------------
//! ```
//!
//! S begins a partition. All packets have partition 0, which the RFC allows, so only a frame's first packet has S.

use super::{Packet, Packetiser, Sample, Unsendable};

const BEGINS: u8 = 0x10;

impl Packetiser {
    pub(super) fn vp8(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        let descriptor = |packet: &mut Packet, sample: &Sample, part: &std::ops::Range<usize>| {
            packet.say(&[if part.start == sample.at.start { BEGINS } else { 0 }]);
        };
        self.divided(samples, 1, descriptor, packets);
        Ok(())
    }
}
