//! The tree of boxes (ISO/IEC 14496-12, 4.2).
//!
//! ```text
//!   +----------+----------+--------------------+---------
//!   | size: 32 | name: 32 | size: 64, if the   | content
//!   |          |          | first size is 1    |
//!   +----------+----------+--------------------+---------
//! ```

use crate::error::{Error, Result};
use crate::source::Source;

const HEADER_BYTES_MAX: usize = 16;

/// A box in the file.
pub(super) struct BoxAt {
    pub name: [u8; 4],
    pub start: u64,
    content: u64,
    pub end: u64,
}

impl BoxAt {
    /// The box at `at`; `None` at the end of the file, or if what is there is no box.
    pub fn read(source: &mut Source, at: u64) -> Result<Option<Self>> {
        let bytes = source.bytes();
        let Some((name, header, size)) = header(source.up_to(at, HEADER_BYTES_MAX)?) else { return Ok(None) };
        let end = size.map_or(Some(bytes), |size| at.checked_add(size));
        Ok(end.map(|end| Self { name, start: at, content: at + header as u64, end }))
    }

    pub fn content(&self, source: &mut Source, bytes_max: u64) -> Result<Vec<u8>> {
        let bytes = self.end - self.content;
        if bytes > bytes_max && self.end <= source.bytes() {
            return Err(Error::TooLarge { what: "tables of more than 128 MiB" });
        }
        source.copy(self.content, bytes, "the table of samples (moov, moof)")
    }
}

/// A box in another's content.
pub(super) struct Box<'a> {
    pub name: [u8; 4],
    pub content: &'a [u8],
}

/// The boxes in a content. What leads out of it, or is no box, ends them.
pub(super) struct Boxes<'a>(pub &'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = Box<'a>;

    fn next(&mut self) -> Option<Box<'a>> {
        let (name, header, size) = header(self.0)?;
        let size = size.map_or(Some(self.0.len()), |size| usize::try_from(size).ok())?;
        let content = self.0.get(header..size)?;
        self.0 = &self.0[size..];
        Some(Box { name, content })
    }
}

/// The content of the first box of each name, from the outermost to the innermost.
pub(super) fn within<'a>(content: &'a [u8], path: &[&[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(content, |content, name| {
        Boxes(content).find(|one| &one.name == *name).map(|one| one.content)
    })
}

/// What stands in a box; `None` if that is not what its name says.
pub(super) fn decode<A: mp4_atom::Atom>(one: &Box) -> Option<A> {
    A::decode_body(&mut &*one.content).ok()
}

/// Name, length of the header, and length of all of it; `None` instead of the latter if it goes on to the end.
fn header(bytes: &[u8]) -> Option<([u8; 4], usize, Option<u64>)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    let (size, name) = (u32::from_be_bytes(word(0)?), word(4)?);
    let (header, size) = match size {
        0 => (8, None),
        1 => (16, Some(u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?))),
        size => (8, Some(size.into())),
    };
    size.is_none_or(|size| size >= header as u64).then_some((name, header, size))
}
