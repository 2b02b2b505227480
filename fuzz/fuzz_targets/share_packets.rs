//! Texts inside frames between hosts that share memory.
#![no_main]

#[path = "../../crates/share/millipage/src/transport/stream/packet.rs"]
mod packet;

#[path = "../../crates/share/millipage/src/transport"]
mod transport {
    pub mod said;
}

use packet::Packet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((packet, rest)) = Packet::read(data, 3) {
        let mut text = vec![];
        packet.write(&mut text);
        assert!(text.len() <= packet::PACKET_BYTES_MAX);
        text.extend(rest);
        assert_eq!(Packet::read(&text, 3), Some((packet, rest)));
        assert!(rest.len() <= data.len() && packet::CONTENTS_BYTES_MAX > 0);
    }
});
