//! Sound without compression: G.711, L16 and L24 (RFC 3551, section 4.5; RFC 3190, section 4). A packet is a number of frames,
//! each of which has one value for each channel.

use super::{Packet, Packetiser, Sample, Unsendable, parts};

impl Packetiser {
    /// Each packet has the time of its first frame.
    pub(super) fn pcm(
        &mut self,
        frame_bytes: u8,
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let frame_bytes = usize::from(frame_bytes.max(1));
        let room = self.payload_bytes_max / frame_bytes * frame_bytes;
        for sample in samples {
            let whole = sample.at.len() / frame_bytes * frame_bytes;
            for part in parts(sample.at.start..sample.at.start + whole, room.max(frame_bytes)) {
                let frames = (part.start - sample.at.start) / frame_bytes;
                let mut packet = self.packet(sample.timestamp.wrapping_add(frames as u32));
                packet.add(part);
                packets.push(packet);
            }
        }
        Ok(())
    }
}
