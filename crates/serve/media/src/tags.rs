//! Tags that tell of sound without a container, before its frames, after them or between them where files were put together.

use crate::error::{Error, Result};
use crate::source::Source;

/// How far damage may go in all of a file.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

/// How many frames in a row tell that they are some: a single header may come about by chance.
const FRAMES_TO_GO_ON: usize = 3;

/// Where frames go on that do not at a place: behind tags or damage; `None` if they do not. What is passed over beside tags is added to
/// `garbage`. `end_of_frame` tells where a frame ends, if one begins there.
pub(crate) fn next_frame(
    source: &mut Source,
    from: u64,
    garbage: &mut u64,
    end_of_frame: impl Fn(&mut Source, u64) -> Result<Option<u64>>,
) -> Result<Option<u64>> {
    let mut at = from;
    while let Some(behind) = end(source, at)? {
        at = behind;
    }
    while at < source.bytes() {
        let (mut next, mut count) = (at, 0);
        while count < FRAMES_TO_GO_ON
            && let Some(behind) = end_of_frame(source, next)?
        {
            (next, count) = (behind, count + 1);
        }
        let is_last = count > 0 && (next >= source.bytes() || end(source, next)?.is_some());
        if count == FRAMES_TO_GO_ON || is_last {
            return Ok(Some(at));
        }
        (at, *garbage) = (at + 1, *garbage + 1);
        if *garbage > GARBAGE_BYTES_MAX {
            return Err(Error::Damaged("more than 1 MiB of it is no frame of sound"));
        }
    }
    Ok(None)
}

/// Where the tag ends that begins at a place; `None` if none does.
pub(crate) fn end(source: &mut Source, at: u64) -> Result<Option<u64>> {
    const HAS_FOOTER: u8 = 0x10;
    let head = source.up_to(at, 32)?;
    let bytes = match head {
        // ID3v2: seven bits in each byte of the size, which is without header and footer.
        [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] => {
            let bytes = [a, b, c, d].into_iter().fold(0, |bytes, byte| bytes << 7 | u64::from(byte & 0x7F));
            let footer = if flags & HAS_FOOTER != 0 { 10 } else { 0 };
            10 + bytes + footer
        }
        // APE: a header has the size of what follows it, a footer of what is before it, with itself.
        [b'A', b'P', b'E', b'T', b'A', b'G', b'E', b'X', _, _, _, _, a, b, c, d, ..] if head.len() == 32 => {
            let is_header = head[23] & 0x20 != 0;
            32 + if is_header { u64::from(u32::from_le_bytes([*a, *b, *c, *d])) } else { 0 }
        }
        // ID3v1, and what some writers put before it.
        [b'T', b'A', b'G', b'+', ..] => 227,
        [b'T', b'A', b'G', ..] => 128,
        _ => return Ok(None),
    };
    Ok(Some(at.saturating_add(bytes)))
}
