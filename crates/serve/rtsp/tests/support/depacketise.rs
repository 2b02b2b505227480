//! What a receiver makes of payloads, written from the RFCs and sharing nothing with what made them.

#![allow(dead_code, reason = "each test uses a part of it")]

/// Units of H.264 (RFC 6184, sections 5.6 to 5.8).
pub fn h264(payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = vec![];
    let mut is_open = false;
    for payload in payloads {
        match payload[0] & 31 {
            1..=23 => units.push(payload.clone()),
            24 => units.extend(together(&payload[1..])),
            28 => {
                let (start, end) = (payload[1] & 0x80 != 0, payload[1] & 0x40 != 0);
                assert!(start != is_open && !(start && end), "parts out of order");
                if start {
                    units.push(vec![payload[0] & 0xE0 | payload[1] & 0x1F]);
                }
                units.last_mut().expect("a start").extend(&payload[2..]);
                is_open = !end;
            }
            other => panic!("type {other}"),
        }
    }
    assert!(!is_open, "a unit without its end");
    units
}

/// Units of H.265 (RFC 7798, sections 4.4.1 to 4.4.3).
pub fn h265(payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = vec![];
    let mut is_open = false;
    for payload in payloads {
        match payload[0] >> 1 & 63 {
            0..=47 => units.push(payload.clone()),
            48 => units.extend(together(&payload[2..])),
            49 => {
                let (start, end) = (payload[2] & 0x80 != 0, payload[2] & 0x40 != 0);
                assert!(start != is_open && !(start && end), "parts out of order");
                if start {
                    units.push(vec![payload[0] & 0x81 | (payload[2] & 63) << 1, payload[1]]);
                }
                units.last_mut().expect("a start").extend(&payload[3..]);
                is_open = !end;
            }
            other => panic!("type {other}"),
        }
    }
    assert!(!is_open, "a unit without its end");
    units
}

fn together(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut units = vec![];
    while let [high, low, after @ ..] = rest {
        let (unit, later) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        units.push(unit.to_vec());
        rest = later;
    }
    assert!(rest.is_empty() && units.len() > 1);
    units
}

/// Access units of AAC (RFC 3640, section 3.2), from payloads and their markers.
pub fn aac(packets: &[(Vec<u8>, bool)]) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = vec![];
    let mut missing = 0;
    for (payload, is_marked) in packets {
        let headers = usize::from(u16::from_be_bytes([payload[0], payload[1]])) / 16;
        let sizes: Vec<usize> = payload[2..2 + 2 * headers]
            .chunks(2)
            .map(|header| {
                assert_eq!(header[1] & 7, 0, "units follow each other");
                usize::from(u16::from_be_bytes([header[0], header[1]]) >> 3)
            })
            .collect();
        let mut rest = &payload[2 + 2 * headers..];
        if sizes.len() == 1 && (missing > 0 || sizes[0] > rest.len()) {
            if missing == 0 {
                units.push(vec![]);
                missing = sizes[0];
            }
            units.last_mut().expect("a start").extend(rest);
            missing -= rest.len();
            assert_eq!(*is_marked, missing == 0);
            continue;
        }
        assert!(*is_marked && missing == 0);
        for size in sizes {
            units.push(rest[..size].to_vec());
            rest = &rest[size..];
        }
        assert!(rest.is_empty());
    }
    assert_eq!(missing, 0);
    units
}

/// Bytes of MPEG audio (RFC 2250, section 3.5). Parts of a frame say where in it they begin.
pub fn mpeg_audio(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut frame = 0;
    for payload in payloads {
        assert_eq!(payload[..2], [0, 0]);
        let offset = usize::from(u16::from_be_bytes([payload[2], payload[3]]));
        if offset == 0 {
            frame = bytes.len();
        }
        assert_eq!(bytes.len() - frame, offset);
        bytes.extend(&payload[4..]);
    }
    bytes
}
