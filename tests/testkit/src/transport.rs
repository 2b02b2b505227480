//! Transport streams, packet by packet: what ffmpeg does not write.

/// How long a packet is.
pub const PACKET_BYTES: usize = 188;

/// A list of programs with one, and its map with streams by their types.
pub fn tables(map_pid: u16, streams: &[(u8, u16)]) -> Vec<u8> {
    let word = |pid: u16| (0xE000 | pid).to_be_bytes();
    let first = streams.first().map_or(0x1FFF, |(_, pid)| *pid);
    let mut map = [&word(first)[..], &[0xF0, 0]].concat();
    for (kind, pid) in streams {
        map.extend([&[*kind][..], &word(*pid), &[0xF0, 0]].concat());
    }
    let list = section(0, &[&[0, 1][..], &word(map_pid)].concat());
    [packets(0, &list), packets(map_pid, &section(2, &map))].concat()
}

/// A PES packet of pictures, with a time of presentation and of decoding or without.
pub fn pictures(pid: u16, times: Option<(u64, u64)>, content: &[u8]) -> Vec<u8> {
    let header = match times {
        Some((presentation, decode)) => [&[0x84, 0xC0, 10][..], &time(presentation), &time(decode)].concat(),
        None => vec![0x80, 0, 0],
    };
    packets(pid, &[&[0, 0, 1, 0xE0, 0, 0][..], &header, content].concat())
}

/// A time of presentation, with its markers.
pub fn time(ticks: u64) -> [u8; 5] {
    let part = |shift: u32| (ticks >> shift) as u8;
    [0x21 | part(29) & 0x0E, part(22), part(14) | 1, part(7), part(0) << 1 | 1]
}

/// A table with its checksum, behind a pointer.
pub fn section(table: u8, entries: &[u8]) -> Vec<u8> {
    let length = 0xB000 | (entries.len() as u16 + 9);
    let mut section = [&[table][..], &length.to_be_bytes(), &[0, 1, 0xC1, 0, 0], entries].concat();
    let mut checksum = u32::MAX;
    for byte in &section {
        checksum ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            checksum = if checksum >> 31 == 1 { checksum << 1 ^ 0x04C1_1DB7 } else { checksum << 1 };
        }
    }
    section.extend(checksum.to_be_bytes());
    section.insert(0, 0);
    section
}

/// Packets with this payload; the last one is filled up by an adaptation field.
pub fn packets(pid: u16, payload: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, part) in payload.chunks(PACKET_BYTES - 4).enumerate() {
        let begins = if number == 0 { 0x40 } else { 0 };
        let filling = PACKET_BYTES - 4 - part.len();
        let control = if filling > 0 { 0x30 } else { 0x10 } | number as u8 & 0x0F;
        all.extend([0x47, begins | (pid >> 8) as u8, pid as u8, control]);
        if filling > 0 {
            let mut field = vec![0xFF; filling];
            field[0] = filling as u8 - 1;
            if let Some(flags) = field.get_mut(1) {
                *flags = 0;
            }
            all.extend(field);
        }
        all.extend(part);
    }
    all
}
