//! What a receiver makes of payloads without NAL units, written from the specifications and sharing nothing with what made
//! them.

use crate::sending::Arrived;

/// Samples whose packets begin with `header_bytes` that are no part of them, up to a marker each.
fn joined(
    arrived: &[Arrived],
    header_bytes: usize,
    mut check: impl FnMut(&[u8], bool, bool),
) -> Vec<Vec<u8>> {
    let mut samples: Vec<Vec<u8>> = vec![];
    let mut is_first = true;
    for one in arrived {
        let (header, rest) = one.payload.split_at(header_bytes);
        check(header, is_first, one.is_marked);
        if is_first {
            samples.push(vec![]);
        }
        samples.last_mut().expect("a sample").extend(rest);
        is_first = one.is_marked;
    }
    assert!(is_first, "a sample without its end");
    samples
}

/// RFC 7741, section 4.2.
pub fn vp8(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    joined(arrived, 1, |header, is_first, _| {
        assert_eq!(header[0] & 0xEF, 0, "no extension, partition 0");
        assert_eq!(header[0] & 0x10 != 0, is_first);
    })
}

/// RFC 9628, section 4.2.
pub fn vp9(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    joined(arrived, 1, |header, is_first, is_last| {
        assert_eq!(header[0] & 0xB3, 0, "no picture number, layer or structure");
        assert_eq!((header[0] & 8 != 0, header[0] & 4 != 0), (is_first, is_last));
    })
}

/// RFC 6416 and RFC 6597: nothing but the sample.
pub fn bare(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    joined(arrived, 0, |_, _, _| ())
}

/// RFC 4184, section 4.1.1, and RFC 4598, section 4.1.1.
pub fn ac3(arrived: &[Arrived], is_enhanced: bool) -> Vec<Vec<u8>> {
    let mut parts_left = 0;
    let mut firsts = vec![];
    let frames = joined(arrived, 2, |header, is_first, is_last| {
        let [kind, count] = header else { panic!("{header:?}") };
        if is_first {
            parts_left = *count;
        }
        let is_whole = is_first && is_last;
        match (is_enhanced, is_whole, is_first) {
            (_, true, _) => assert_eq!(*kind, 0),
            (true, ..) => assert_eq!(*kind, 1),
            (false, _, true) => {
                assert!(matches!(kind, 1 | 2));
                firsts.push(*kind);
            }
            (false, _, false) => assert_eq!(*kind, 3),
        }
        parts_left -= 1;
        assert_eq!(parts_left == 0, is_last, "as many parts as were told");
    });
    // The first part says whether it has five eighths of its frame.
    let starts = arrived.iter().filter(|one| !is_enhanced && matches!(one.payload[0], 1 | 2));
    let divided = frames
        .iter()
        .filter(|frame| !firsts.is_empty() && arrived.iter().all(|one| one.payload[2..] != frame[..]));
    for (start, frame) in starts.zip(divided) {
        assert_eq!(start.payload[0] == 1, (start.payload.len() - 2) * 8 >= frame.len() * 5);
    }
    frames
}

/// RFC 5215, section 2.2, with the number of the configuration.
pub fn vorbis(arrived: &[Arrived], ident: u32) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = vec![];
    let mut is_open = false;
    for one in arrived {
        let [a, b, c, kind, high, low, rest @ ..] = &one.payload[..] else { panic!("a header") };
        assert_eq!(u32::from_be_bytes([0, *a, *b, *c]), ident);
        assert!(!one.is_marked);
        assert_eq!(usize::from(u16::from_be_bytes([*high, *low])), rest.len());
        match kind {
            0x01 | 0x40 => {
                assert!(!is_open);
                packets.push(rest.to_vec());
            }
            0x80 | 0xC0 => {
                assert!(is_open);
                packets.last_mut().expect("a start").extend(rest);
            }
            other => panic!("{other:#x}"),
        }
        is_open = matches!(kind, 0x40 | 0x80);
    }
    assert!(!is_open);
    packets
}

/// Temporal units as their OBUs, each without a length (AV1 RTP payload format, section 4.4).
pub fn av1(arrived: &[Arrived]) -> Vec<Vec<Vec<u8>>> {
    let mut units: Vec<Vec<Vec<u8>>> = vec![];
    let (mut begins, mut is_open) = (true, false);
    for one in arrived {
        let (aggregation, mut rest) = one.payload.split_first().expect("a header");
        let (goes_on, is_continued) = (aggregation & 0x80 != 0, aggregation & 0x40 != 0);
        assert_eq!(aggregation & 7, 0);
        assert_eq!(goes_on, is_open, "parts out of order");
        assert!(begins || aggregation & 8 == 0, "a sequence begins with a temporal unit");
        if begins {
            units.push(vec![]);
        }
        let obus = units.last_mut().expect("a unit");
        let count = usize::from(aggregation >> 4 & 3);
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let length = if number == count { rest.len() } else { leb128(&mut rest) };
            let (obu, after) = rest.split_at(length);
            match obus.last_mut() {
                Some(last) if number == 1 && goes_on => last.extend(obu),
                _ => {
                    assert_eq!(obu[0] & 2, 0, "no length in it");
                    obus.push(obu.to_vec());
                }
            }
            rest = after;
        }
        assert!(count == 0 || number == count);
        is_open = is_continued;
        begins = one.is_marked;
    }
    assert!(begins && !is_open, "a unit without its end");
    units
}

fn leb128(from: &mut &[u8]) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = from.split_first().expect("a number");
        *from = rest;
        value |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// A picture of JPEG as its packets tell of it (RFC 2435, section 3.1).
#[derive(Debug, PartialEq, Eq)]
pub struct Jpeg {
    pub kind: u8,
    pub width: usize,
    pub height: usize,
    pub restart_interval: u16,
    pub tables: Vec<u8>,
    pub scan: Vec<u8>,
}

pub fn jpeg(arrived: &[Arrived]) -> Vec<Jpeg> {
    let mut pictures: Vec<Jpeg> = vec![];
    let mut is_first = true;
    for one in arrived {
        let [0, a, b, c, kind, 255, width, height, rest @ ..] = &one.payload[..] else { panic!("a header") };
        let offset = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (restart_interval, rest) = match rest {
            [high, low, 0xFF, 0xFF, rest @ ..] if *kind >= 64 => (u16::from_be_bytes([*high, *low]), rest),
            _ => (0, rest),
        };
        assert_eq!(*kind >= 64, restart_interval > 0);
        let (tables, rest) = match rest {
            [0, 0, high, low, rest @ ..] if offset == 0 => {
                rest.split_at(usize::from(u16::from_be_bytes([*high, *low])))
            }
            _ => (&[][..], rest),
        };
        if is_first {
            let (kind, tables) = (kind % 64, tables.to_vec());
            let (width, height) = (8 * usize::from(*width), 8 * usize::from(*height));
            pictures.push(Jpeg { kind, width, height, restart_interval, tables, scan: vec![] });
        }
        let scan = &mut pictures.last_mut().expect("a picture").scan;
        assert_eq!(scan.len(), offset);
        scan.extend(rest);
        is_first = one.is_marked;
    }
    assert!(is_first, "a picture without its end");
    pictures
}

/// Texts that are repeated in later packets (RFC 2198), where some packets have not come.
pub fn repeated(arrived: &[Option<Vec<u8>>]) -> String {
    let (mut text, mut missing) = (Vec::new(), 0);
    for one in arrived {
        let Some(payload) = one else {
            missing += 1;
            continue;
        };
        let (mut lengths, mut rest) = (Vec::new(), &payload[..]);
        while let [first, a, b, c, after @ ..] = rest
            && first & 0x80 != 0
        {
            lengths.push(usize::from(b & 3) << 8 | usize::from(*c));
            assert!(u32::from_be_bytes([0, *a, *b, *c]) >> 10 <= 20_000, "milliseconds");
            rest = after;
        }
        rest = &rest[1..];
        let known = lengths.len();
        for (number, length) in lengths.into_iter().enumerate() {
            let (repeat, after) = rest.split_at(length);
            if known - number <= missing {
                text.extend(repeat);
            }
            rest = after;
        }
        text.extend(rest);
        missing = 0;
    }
    String::from_utf8(text).expect("text")
}
