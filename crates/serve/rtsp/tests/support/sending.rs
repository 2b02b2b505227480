//! Samples on their way: what holds of all packets is checked as they arrive.
#![allow(dead_code, reason = "each test uses a part of it")]

use forebay_rtsp::packetise::{Format, PACKET_BYTES_MIN, Packet, Packetiser, Sample};
use proptest::prelude::*;
use rtp_types::RtpPacket;

/// A packet as a receiver reads it.
pub struct Arrived {
    pub payload: Vec<u8>,
    pub is_marked: bool,
    pub timestamp: u32,
}

/// The packets of samples, after what holds of all packets has been checked.
pub fn send(format: Format, buffer: &[u8], samples: &[Sample], packet_bytes_max: usize) -> Vec<Arrived> {
    let mut packetiser = Packetiser::new(format, 96, 0xCAFE, u16::MAX - 1, packet_bytes_max);
    let mut packets = vec![];
    packetiser.packetise(buffer, samples, &mut packets).expect("they can be sent");
    let arrive = |(index, packet): (usize, &Packet)| {
        let mut bytes = vec![];
        packet.copy_to(buffer, &mut bytes);
        assert_eq!(bytes.len(), packet.bytes());
        let read = RtpPacket::parse(&bytes).expect("an RTP packet");
        assert_eq!((read.payload_type(), read.ssrc(), read.padding(), read.n_csrcs()), (96, 0xCAFE, None, 0));
        assert_eq!(read.sequence_number(), (u16::MAX - 1).wrapping_add(index as u16));
        assert_eq!(read.marker_bit(), packet.is_marked());
        Arrived {
            payload: read.payload().to_vec(),
            is_marked: packet.is_marked(),
            timestamp: read.timestamp(),
        }
    };
    let arrived: Vec<Arrived> = packets.iter().enumerate().map(arrive).collect();
    assert_eq!(packetiser.next_sequence(), (u16::MAX - 1).wrapping_add(packets.len() as u16));
    if format != Format::Opus {
        assert!(arrived.iter().all(|one| one.payload.len() + 12 <= packet_bytes_max.max(PACKET_BYTES_MIN)));
    }
    arrived
}

pub fn payloads(arrived: Vec<Arrived>) -> Vec<Vec<u8>> {
    arrived.into_iter().map(|one| one.payload).collect()
}

/// Samples one after the other, and where each lies.
pub fn lay_out(samples: &[Vec<u8>]) -> (Vec<u8>, Vec<Sample>) {
    let mut buffer = vec![0xEE; 3];
    let mut places = vec![];
    for (index, sample) in samples.iter().enumerate() {
        let start = buffer.len();
        buffer.extend(sample);
        places.push(Sample { at: start..buffer.len(), timestamp: 1000 * index as u32 });
    }
    buffer.push(0xEE);
    (buffer, places)
}

pub fn bytes_max() -> impl Strategy<Value = usize> {
    prop_oneof![200..230usize, 1200..1500usize, Just(9000), Just(65_535)]
}

/// Contents without zeros, so that they contain no start code.
pub fn content(sizes: impl Strategy<Value = usize>) -> impl Strategy<Value = Vec<u8>> {
    (sizes, any::<u8>()).prop_map(|(size, salt)| {
        (0..size).map(|at| (at as u8).wrapping_mul(31).wrapping_add(salt).max(1)).collect()
    })
}
