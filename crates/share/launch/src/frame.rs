//! Bytes with their number before them.

use std::io::{self, Read, Write};

/// The longest frame: addresses of thousands of hosts.
const BYTES_MAX: usize = 64 << 20;

/// From a host: its part of the round.
pub const SAYS: u8 = 0;
/// From a host: what it leaves behind.
pub const LEAVES: u8 = 1;
/// To a host: what all have said, each behind its length.
pub const ALL_SAID: u8 = 2;
/// To a host: which one failed the round, and why.
pub const FAILED: u8 = 3;

/// Writes a frame at once.
pub fn write(mut to: impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.extend(length(1 + bytes.len()));
    frame.push(kind);
    frame.extend(bytes);
    to.write_all(&frame)
}

/// Reads a frame: its kind, and what comes with it.
pub fn read(mut from: impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 || length > BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // The room grows with what comes, whatever the length says.
    let mut bytes = vec![];
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((bytes.remove(0), bytes))
}

/// Several pieces in one.
pub fn join<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    pieces.flat_map(|piece| length(piece.len()).into_iter().chain(piece.iter().copied())).collect()
}

/// The pieces that [`join`] made one of; `None` if it did not.
pub fn split(mut joined: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = vec![];
    while let Some((length, rest)) = joined.split_first_chunk() {
        let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        pieces.push(piece.to_vec());
        joined = rest;
    }
    joined.is_empty().then_some(pieces)
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_joined_is_split() {
        let pieces: [&[u8]; 4] = [b"one", b"", b"three", &[0; 300]];
        let mut frame = vec![];
        write(&mut frame, ALL_SAID, &join(pieces.into_iter())).unwrap();
        let (kind, bytes) = read(&*frame).unwrap();
        assert_eq!((kind, split(&bytes).unwrap()), (ALL_SAID, pieces.map(<[u8]>::to_vec).to_vec()));
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_an_error() {
        assert!(read(&[5, 0, 0, 0, SAYS, 1][..]).is_err());
        assert!(read(&[0, 0, 0, 0][..]).is_err());
        assert!(read(&[0xff; 64][..]).is_err());
        assert_eq!(split(&[9, 0, 0, 0, 1]), None);
        assert_eq!(split(&[1, 0]), None);
    }
}
