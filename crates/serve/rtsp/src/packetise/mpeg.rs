//! MPEG audio and transport streams (RFC 2250).

use super::{PIECES_MAX, Packet, Packetiser, Sample, Unsendable, check_length, fitting, parts};

const TRANSPORT_PACKET_BYTES: usize = 188;
const AUDIO_HEADER_BYTES: usize = 4;

impl Packetiser {
    /// Several whole frames, or a part of one and where in the frame it begins (section 3.5).
    ///
    /// ```text
    ///  +-----------------+-----------------+---------
    ///  |        0        | fragment offset | frames
    ///  +-----------------+-----------------+---------
    ///        16 bits           16 bits
    /// ```
    pub(super) fn mpeg_audio(
        &mut self,
        mut samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let room = self.payload_bytes_max - AUDIO_HEADER_BYTES;
        while let Some(first) = samples.first() {
            check_length(first, usize::from(u16::MAX))?;
            let (whole, later) = samples.split_at(fitting(samples, 0, room));
            if whole.is_empty() {
                for part in parts(first.at.clone(), room) {
                    let offset = (part.start - first.at.start) as u16;
                    let mut packet = self.packet(first.timestamp);
                    packet.say(&[0, 0]);
                    packet.say(&offset.to_be_bytes());
                    packet.add(part);
                    packets.push(packet);
                }
                samples = &samples[1..];
            } else {
                let mut packet = self.packet(first.timestamp);
                packet.say(&[0; AUDIO_HEADER_BYTES]);
                whole.iter().for_each(|sample| packet.add(sample.at.clone()));
                packets.push(packet);
                samples = later;
            }
        }
        Ok(())
    }

    /// As many whole packets as there is room for (section 2).
    pub(super) fn mpeg_transport(
        &mut self,
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let room = self.payload_bytes_max / TRANSPORT_PACKET_BYTES * TRANSPORT_PACKET_BYTES;
        for sample in samples {
            let bytes = sample.at.len();
            if bytes % TRANSPORT_PACKET_BYTES != 0 {
                return Err(Unsendable::NotInPackets { bytes });
            }
            for part in parts(sample.at.clone(), room) {
                let mut packet = self.packet(sample.timestamp);
                packet.add(part);
                packets.push(packet);
            }
        }
        Ok(())
    }

    /// The same of packets with bytes of others between them: each packet is a piece.
    pub(super) fn sparse_transport(
        &mut self,
        stride: usize,
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let room = (self.payload_bytes_max / TRANSPORT_PACKET_BYTES).min(PIECES_MAX);
        for sample in samples {
            let bytes = sample.at.len();
            if stride == 0 || bytes % stride != TRANSPORT_PACKET_BYTES % stride {
                return Err(Unsendable::NotInPackets { bytes });
            }
            let places: Vec<usize> = sample.at.clone().step_by(stride).collect();
            for some in places.chunks(room) {
                let mut packet = self.packet(sample.timestamp);
                some.iter().for_each(|at| packet.add(*at..*at + TRANSPORT_PACKET_BYTES));
                packets.push(packet);
            }
        }
        Ok(())
    }
}
