//! The headers of Vorbis, as Matroska and MP4 have them, and as a description of RTP has them (RFC 5215, section 3.2.1).
//!
//! ```text
//!   file   | 2 | bytes of 1st | bytes of 2nd | identification | comments | set-up |
//!   RTP    | 1 (32) | ident (24) | bytes (16) | 2 | bytes of 1st | bytes of 2nd | the same three |
//! ```

use std::hash::Hasher;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

/// A stream with these headers; `None` if they are none.
pub(crate) fn codec(headers: &[u8]) -> Option<(Codec, Format)> {
    let (&2, mut rest) = headers.split_first()? else { return None };
    let lengths = [laced(&mut rest)?, laced(&mut rest)?];
    let identification = rest.get(..lengths[0])?;
    rest.get(lengths[0]..lengths[0].checked_add(lengths[1])?)?;
    // Version, channels, rate (Vorbis I, 4.2.2).
    let &[1, b'v', b'o', b'r', b'b', b'i', b's', 0, 0, 0, 0, channels, a, b, c, d, ..] = identification
    else {
        return None;
    };
    let clock_rate = u32::from_le_bytes([a, b, c, d]);
    let ident = ident(rest);
    let mut configuration = 1_u32.to_be_bytes().to_vec();
    configuration.extend(&ident.to_be_bytes()[1..]);
    configuration.extend(u16::try_from(rest.len()).ok()?.to_be_bytes());
    configuration.push(2);
    lengths.iter().for_each(|length| write_number(*length, &mut configuration));
    configuration.extend(rest);
    let codec = Codec::Vorbis { configuration, clock_rate, channels };
    (clock_rate > 0 && channels > 0).then_some((codec, Format::Vorbis { ident }))
}

/// Another one for other headers, in 24 bits.
fn ident(headers: &[u8]) -> u32 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(headers);
    hasher.finish() as u32 & 0x00FF_FFFF
}

/// Bytes that are added up, to the first that is not 255.
fn laced(from: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        length += usize::from(byte);
        if byte < 255 {
            return Some(length);
        }
    }
}

/// Seven bits a byte, the highest first, with the eighth set before more of them.
fn write_number(number: usize, to: &mut Vec<u8>) {
    let sevens = (usize::BITS - number.leading_zeros()).div_ceil(7).max(1);
    for seven in (0..sevens).rev() {
        let more = if seven > 0 { 0x80 } else { 0 };
        to.push((number >> (7 * seven)) as u8 & 0x7F | more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_packed_as_receivers_unpack_them() {
        let identification = [&[1][..], b"vorbis", &[0, 0, 0, 0, 2, 0x44, 0xAC, 0, 0], &[0; 14]].concat();
        let (comments, set_up) = (vec![3; 300], vec![5; 40]);
        let headers = [&[2, 30, 255, 45][..], &identification, &comments, &set_up].concat();
        let (codec, format) = codec(&headers).expect("headers");
        let Codec::Vorbis { configuration, clock_rate: 44_100, channels: 2 } = codec else {
            panic!("{codec:?}")
        };
        let Format::Vorbis { ident } = format else { panic!("{format:?}") };
        assert_eq!(configuration[..4], [0, 0, 0, 1]);
        assert_eq!(configuration[4..7], ident.to_be_bytes()[1..]);
        // 370 bytes in three headers, of which the first has 30 and the second 300.
        assert_eq!(configuration[7..13], [1, 114, 2, 30, 0x82, 0x2C]);
        assert_eq!(configuration[13..], [identification, comments, set_up].concat());
    }

    #[test]
    fn what_are_no_headers_is_refused() {
        for bytes in [&[][..], &[2], &[2, 255], &[1, 0, 0], &[2, 30, 5, 1], &[2, 1, 1, 1, 3, 5]] {
            assert!(codec(bytes).is_none(), "{bytes:?}");
        }
    }
}
