//! Where a container goes on behind damage.

use crate::error::Result;
use crate::source::Source;

/// The longest mark that something begins with.
const MARK_BYTES_MAX: usize = 4;

/// The first place from `from` on where something begins, if there is one. `mark` finds where it may begin in some bytes, and `begins`
/// looks closer.
pub(crate) fn next_place(
    source: &mut Source,
    from: u64,
    mark: impl Fn(&[u8]) -> Option<usize>,
    mut begins: impl FnMut(&mut Source, u64) -> Result<bool>,
) -> Result<Option<u64>> {
    let mut at = from;
    loop {
        let bytes = source.following(at)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        match mark(bytes) {
            Some(found) => {
                at += found as u64;
                if begins(source, at)? {
                    return Ok(Some(at));
                }
                at += 1;
            }
            // A mark may lie across the end.
            None => at += bytes.len().saturating_sub(MARK_BYTES_MAX - 1).max(1) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use memchr::memmem;

    use super::*;

    #[test]
    fn the_first_mark_that_begins_something_is_found_wherever_it_lies() {
        for before in [0, 1, (256 << 10) - 2, 300_000] {
            let file = [&vec![7; before][..], b"mark no mark yes"].concat();
            let mut source = Source::new(&file).expect("a source");
            let is_yes = |source: &mut Source, at: u64| Ok(source.up_to(at, 8)?.ends_with(b"yes"));
            let found = next_place(&mut source, 0, |bytes| memmem::find(bytes, b"mark"), is_yes);
            assert_eq!(found.expect("readable"), Some(before as u64 + 8));
            let none =
                next_place(&mut source, before as u64 + 9, |bytes| memmem::find(bytes, b"mark"), is_yes);
            assert_eq!(none.expect("readable"), None);
        }
    }
}
