//! Vorbis (RFC 5215, section 2.2): a packet alone, or in parts.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----------------------------------------------+---+---+-------+
//! |                     ident                     | F |VDT|packets|
//! +-------------------------------+---------------+---+---+-------+
//! |            length             | Vorbis packet, or a part of it
//! +-------------------------------+--------------------------------
//! ```
//!
//! F is 1, 2 and 3 for the first part, others, and the last one, which count as no packet.

use std::ops::Range;

use super::{Packet, Packetiser, Sample, Unsendable};

const HEADER_BYTES: usize = 6;

impl Packetiser {
    pub(super) fn vorbis(
        &mut self,
        ident: u32,
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let header = |packet: &mut Packet, sample: &Sample, part: &Range<usize>| {
            let is_first = part.start == sample.at.start;
            let is_last = part.end == sample.at.end;
            let kind = match (is_first, is_last) {
                (true, true) => 1,
                (true, false) => 1 << 6,
                (false, false) => 2 << 6,
                (false, true) => 3 << 6,
            };
            packet.say(&(ident << 8 | kind).to_be_bytes());
            packet.say(&(part.len() as u16).to_be_bytes());
        };
        let before = packets.len();
        self.divided(samples, HEADER_BYTES, header, packets);
        // The marker has no meaning here, and is to be clear (section 2.1).
        packets[before..].iter_mut().for_each(Packet::unmark);
        Ok(())
    }
}
