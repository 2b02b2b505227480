//! What a decoder is told (ISO/IEC 14496-1, 7.2.6): descriptors in descriptors, of which three are looked at.
//!
//! ```text
//!   +---+--------+----+-------+---+--------+------+-------------------+---+--------+----------+
//!   | 3 | length | id | flags | 4 | length | type | rates and buffers | 5 | length | specific |
//!   +---+--------+----+-------+---+--------+------+-------------------+---+--------+----------+
//! ```

const STREAM: u8 = 3;
const DECODER: u8 = 4;
const SPECIFIC: u8 = 5;

/// The type of a stream, and what is there of its decoder alone.
pub(super) struct Decoder<'a> {
    pub kind: u8,
    pub specific: Option<&'a [u8]>,
}

/// Of the content of an esds box.
pub(super) fn decoder(esds: &[u8]) -> Option<Decoder<'_>> {
    let stream = descriptor(esds.get(4..)?, STREAM)?;
    let &[_, _, flags, ref rest @ ..] = stream else { return None };
    // What a stream depends on, where else it lies, and its clock.
    let mut skipped = if flags & 0x80 != 0 { 2 } else { 0 };
    if flags & 0x40 != 0 {
        skipped += 1 + usize::from(*rest.get(skipped)?);
    }
    skipped += if flags & 0x20 != 0 { 2 } else { 0 };
    let decoder = descriptor(rest.get(skipped..)?, DECODER)?;
    let (&kind, rest) = decoder.split_first()?;
    Some(Decoder { kind, specific: rest.get(12..).and_then(|rest| descriptor(rest, SPECIFIC)) })
}

/// The content of the first descriptor with this tag.
fn descriptor(mut bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let (&tag, rest) = bytes.split_first()?;
        let mut length = 0;
        let mut length_bytes = 0;
        loop {
            let byte = *rest.get(length_bytes)?;
            length = length << 7 | usize::from(byte & 0x7F);
            length_bytes += 1;
            if byte & 0x80 == 0 || length_bytes == 4 {
                break;
            }
        }
        let content = &rest[length_bytes..];
        if tag == wanted {
            return content.get(..length);
        }
        bytes = content.get(length..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_is_found_behind_what_may_come_before() {
        let decoder_bytes = [&[4, 0x80, 0x80, 0x11, 0x40][..], &[0; 12], &[5, 2, 0x12, 0x10]].concat();
        for (flags, before) in [(0, &[][..]), (0x80, &[0, 1]), (0x40, &[1, b'u']), (0xE0, &[0, 1, 0, 0, 2])] {
            let stream = [&[0, 1, flags], before, &decoder_bytes].concat();
            let esds = [&[0, 0, 0, 0, 3, stream.len() as u8][..], &stream].concat();
            let found = decoder(&esds).expect("a decoder");
            assert_eq!((found.kind, found.specific), (0x40, Some(&[0x12, 0x10][..])));
            for end in 0..esds.len() {
                assert!(decoder(&esds[..end]).is_none_or(|decoder| decoder.specific.is_none()));
            }
        }
    }
}
