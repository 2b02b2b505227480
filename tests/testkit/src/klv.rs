//! Transport streams with metadata in KLV, which ffmpeg does not write.

use crate::transport::{PACKET_BYTES, packets, section, time};

const MAP_PID: u16 = 0x100;
const UNITS_PID: u16 = 0x101;
/// Between units, in ticks of 90 kHz.
const UNIT_TICKS: u64 = 9_000;

/// A unit with a universal key, a length, and so many bytes.
pub fn unit(bytes: u16, value: u8) -> Vec<u8> {
    let key = [0x06, 0x0E, 0x2B, 0x34, 2, 0x0B, 1, 1, 0x0E, 1, 3, 1, 1, 0, 0, 0];
    [&key[..], &[0x82], &bytes.to_be_bytes(), &vec![value; bytes.into()]].concat()
}

/// A stream of units, ten a second. With cells, each unit has a header of its own (stream type 0x15).
pub fn stream(units: &[Vec<u8>], has_cells: bool) -> Vec<u8> {
    let mut file = packets(0, &section(0, &[0, 1, 0xE1, 0x00]));
    let kind = if has_cells { 0x15 } else { 0x06 };
    let registration = [5, 4, b'K', b'L', b'V', b'A'];
    let map = [&[0xE1, 0x01, 0xF0, 0, kind, 0xE1, 0x01, 0xF0, 6][..], &registration].concat();
    file.extend(packets(MAP_PID, &section(2, &map)));
    for (number, unit) in (1..).zip(units) {
        let mut content = unit.clone();
        if has_cells {
            content.splice(0..0, [&[0, 0, 0xDF][..], &(unit.len() as u16).to_be_bytes()].concat());
        }
        let pes_bytes = content.len() as u16 + 8;
        let mut pes = [&[0, 0, 1, 0xBD][..], &pes_bytes.to_be_bytes(), &[0x84, 0x80, 5]].concat();
        pes.extend(time(number * UNIT_TICKS));
        pes.extend(content);
        for packet in packets(UNITS_PID, &pes).chunks(PACKET_BYTES) {
            file.extend(packet);
            // Packets that carry nothing.
            file.extend([&[0x47, 0x1F, 0xFF, 0x10][..], &[0xFF; PACKET_BYTES - 4]].concat());
        }
    }
    file
}
