//! Text (RFC 4103): what is to be read, alone, or behind what the packets before had (RFC 2198).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-------------+---------------------------+-------------------+
//! |1|    type     |      time since then      |       length      |  for each packet before, the oldest first
//! +-+-------------+---------------------------+-------------------+
//! |0|    type     | texts, the oldest first
//! +-+-------------+---------------------------------------------
//! ```
//!
//! A receiver that misses a packet finds its text in the next one. A sample without text gives a packet only if there is something to
//! repeat.

use std::collections::VecDeque;

use super::{Packet, Packetiser, Sample, Unsendable, check_length};
use crate::presentation::repeated_payload_type;

/// After so many milliseconds without packets, the next one is marked: nothing before it is missing.
const IDLE_MS: u32 = 300;
/// The longest sample: subtitles of MP4 tell their length in 16 bits.
const SAMPLE_BYTES_MAX: usize = u16::MAX as usize;
/// The longest text that can be repeated, and for how long, in milliseconds.
const REPEATED_BYTES_MAX: usize = (1 << 10) - 1;
const REPEATED_MS_MAX: u32 = (1 << 14) - 1;
/// Of what stands before texts: for one that is repeated, and for a new one.
const OLD_BYTES: usize = 4;
const NEW_BYTES: usize = 1;
/// What ends a line (T.140, section 8.2).
const LINE_END: char = '\u{2028}';

/// What the last packets had.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    /// Those that are repeated: when, and what.
    earlier: VecDeque<(u32, Box<str>)>,
    last: Option<u32>,
}

impl Packetiser {
    /// Each text is repeated in so many packets.
    pub(super) fn t140(
        &mut self,
        generations: u8,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let bytes_max = match usize::from(generations) {
            0 => self.payload_bytes_max,
            count => {
                let texts_max = self.payload_bytes_max - NEW_BYTES - count * OLD_BYTES;
                (texts_max / (count + 1)).min(REPEATED_BYTES_MAX)
            }
        };
        for sample in samples {
            check_length(sample, SAMPLE_BYTES_MAX)?;
            let text = lines(&buffer[sample.at.clone()]);
            if text.is_empty() && self.texts.earlier.iter().any(|(_, text)| !text.is_empty()) {
                packets.push(self.text(generations, sample.timestamp, ""));
            }
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let is_fit = |end: &usize| rest.is_char_boundary(*end);
                let end = (1..=rest.len().min(bytes_max)).rev().find(is_fit).unwrap_or(rest.len());
                let (part, after) = rest.split_at(end);
                packets.push(self.text(generations, sample.timestamp, part));
                rest = after;
            }
        }
        Ok(())
    }

    fn text(&mut self, generations: u8, timestamp: u32, text: &str) -> Packet {
        let mut packet = self.packet(timestamp);
        let is_idle = self.texts.last.is_none_or(|last| timestamp.wrapping_sub(last) > IDLE_MS);
        if is_idle && !text.is_empty() {
            packet.mark();
        }
        self.texts.last = Some(timestamp);
        if generations == 0 {
            packet.bring(text.as_bytes().into());
            return packet;
        }
        let since = |earlier: u32| timestamp.wrapping_sub(earlier);
        self.texts.earlier.retain(|(earlier, _)| since(*earlier) <= REPEATED_MS_MAX);
        let payload_type = repeated_payload_type(self.payload_type);
        let (mut bytes, mut texts) = (Vec::new(), String::new());
        for (earlier, text) in &self.texts.earlier {
            let head = 1 << 31 | u32::from(payload_type) << 24 | since(*earlier) << 10 | text.len() as u32;
            bytes.extend(head.to_be_bytes());
            texts += text;
        }
        bytes.push(payload_type);
        bytes.extend(texts.as_bytes());
        bytes.extend(text.as_bytes());
        packet.bring(bytes.into());
        self.texts.earlier.push_back((timestamp, text.into()));
        let too_many = self.texts.earlier.len().saturating_sub(generations.into());
        self.texts.earlier.drain(..too_many);
        packet
    }
}

/// What a sample has to be read, with an end after each line. Subtitles are in UTF-8, or in UTF-16 behind a mark.
fn lines(sample: &[u8]) -> String {
    let text = match sample {
        [0xFE, 0xFF, rest @ ..] => {
            let units: Vec<u16> =
                rest.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        _ => String::from_utf8_lossy(sample).into_owned(),
    };
    let mut told = String::with_capacity(text.len() + LINE_END.len_utf8());
    for line in text.split(['\r', '\n', LINE_END]).map(str::trim_end).filter(|line| !line.is_empty()) {
        told.extend(line.chars().filter(|one| !one.is_control()));
        told.push(LINE_END);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ended_as_readers_of_text_know_it() {
        for (sample, expected) in [
            (&b"one\r\ntwo \n\n"[..], "one\u{2028}two\u{2028}"),
            (b"", ""),
            (b"\n", ""),
            ("\u{e9}\x07\u{8}!".as_bytes(), "\u{e9}!\u{2028}"),
            (&[0xFE, 0xFF, 0, 0x41, 0, 0x0A, 0x4E, 0x2D, 0x42], "A\u{2028}\u{4e2d}\u{2028}"),
            (&[b'a', 0xFF, b'b'], "a\u{fffd}b\u{2028}"),
        ] {
            assert_eq!(lines(sample), expected);
        }
    }
}
