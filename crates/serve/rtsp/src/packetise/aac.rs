//! AAC (RFC 3640, mode AAC-hbr).
//!
//! ```text
//!  +-----------------+----------------------+----------------------+----------------
//!  | bits of headers | size (13), index (3) | size (13), delta (3) | access units
//!  +-----------------+----------------------+----------------------+----------------
//!        16 bits
//! ```

use std::ops::Range;

use super::{Packet, Packetiser, Sample, Unsendable, check_length, fitting, parts};

const ACCESS_UNIT_BYTES_MAX: usize = (1 << 13) - 1;
const LENGTH_BYTES: usize = 2;
const HEADER_BYTES: usize = 2;

impl Packetiser {
    /// Several whole access units, or a part of one. The marker ends an access unit (section 3.1).
    pub(super) fn aac(
        &mut self,
        mut samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let room = self.payload_bytes_max - LENGTH_BYTES;
        while let Some(first) = samples.first() {
            check_length(first, ACCESS_UNIT_BYTES_MAX)?;
            let (whole, later) = samples.split_at(fitting(samples, HEADER_BYTES, room));
            if whole.is_empty() {
                for part in parts(first.at.clone(), room - HEADER_BYTES) {
                    let is_last = part.end == first.at.end;
                    packets.push(self.access_units(&samples[..1], [part], is_last));
                }
                samples = &samples[1..];
            } else {
                let pieces = whole.iter().map(|sample| sample.at.clone());
                packets.push(self.access_units(whole, pieces, true));
                samples = later;
            }
        }
        Ok(())
    }

    /// A packet with the headers of access units, and of these what is in it.
    fn access_units(
        &mut self,
        samples: &[Sample],
        pieces: impl IntoIterator<Item = Range<usize>>,
        is_marked: bool,
    ) -> Packet {
        let mut packet = self.packet(samples[0].timestamp);
        packet.say(&(16 * samples.len() as u16).to_be_bytes());
        for sample in samples {
            packet.say(&((sample.at.len() as u16) << 3).to_be_bytes());
        }
        pieces.into_iter().for_each(|piece| packet.add(piece));
        if is_marked {
            packet.mark();
        }
        packet
    }
}
