//! Subtitles that are sent as text.
//!
//! A text is repeated, so that a receiver finds what it has missed. A repeat is a sample at the same place that has nothing of its own:
//!
//! ```text
//!   file     | text ................................ | text ...
//!   samples  0 s     0.3 s: repeat   0.6 s: repeat   4 s: text
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use crate::error::Result;
use crate::index::{Builder, Cursor, Entry, Index, SAMPLES_MAX};
use crate::time::TimeBase;

/// How long after a text it is repeated, and after that again (RFC 4103, section 5.2).
const REPEATED_AFTER_NS: i64 = 300_000_000;

/// Text of which each is repeated in so many packets.
pub(crate) fn coding(generations: u8) -> (Codec, Format) {
    (Codec::T140 { generations }, Format::T140 { generations })
}

/// What is said of text that is not served.
pub(crate) fn unasked(name: &str) -> String {
    format!("{name}, which comes as text where the URL ends with ?text")
}

/// The samples of a track with repeats, which come before the next text: where that is not known yet, there are none, so that what
/// follows changes nothing.
pub(crate) fn repeated(index: &Index, time_base: TimeBase, generations: u8) -> Result<Option<Index>> {
    let (mut builder, mut left) = (Builder::default(), SAMPLES_MAX);
    let mut entries = index.entries_from(Cursor::default()).peekable();
    let mut lasts = 0;
    while let Some(entry) = entries.next() {
        builder.push(Entry { is_sync: true, ..entry }, &mut left)?;
        lasts = index.end().saturating_sub(entry.presentation);
        let Some(next) = entries.peek() else { break };
        for number in 1..=i64::from(generations) {
            let after = time_base.ticks(number * REPEATED_AFTER_NS);
            let repeat = Entry {
                decode: entry.decode.saturating_add(after),
                presentation: entry.presentation.saturating_add(after),
                is_sync: false,
                ..entry
            };
            if repeat.decode < next.decode {
                builder.push(repeat, &mut left)?;
            }
        }
    }
    Ok(builder.finish(Some(lasts)))
}
