//! The bytes of a connection to a server: its answers, and packets between them (RFC 2326, section 10.12).

use crate::protocol::packet::Head;

/// The part of a frame before its packet.
const FRAME_BYTES: usize = 4;
const FRAME_BEGINS: u8 = b'$';
const VERSION: &str = "RTSP/1.0 ";
const HEAD_ENDS: &[u8] = b"\r\n\r\n";
/// The longest head and the longest body.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 where it did what it was asked.
    pub status: u16,
    /// Names in small letters, with values.
    pub headers: Vec<(String, String)>,
    /// Such as a description.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The answer at the beginning of `bytes`, and its length; `None` while it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, NoRtsp> {
        let begun = &bytes[..bytes.len().min(VERSION.len())];
        if begun != &VERSION.as_bytes()[..begun.len()] {
            return Err(NoRtsp);
        }
        let Some(end) = bytes.windows(HEAD_ENDS.len()).position(|window| window == HEAD_ENDS) else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers =
            headers.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        let mut answer = Self { status: status.ok_or(NoRtsp)?, headers: headers.collect(), body: Vec::new() };
        let length: usize = match answer.header("content-length") {
            Some(length) => length.parse().ok().filter(|length| *length <= ANSWER_BYTES_MAX).ok_or(NoRtsp)?,
            None => 0,
        };
        let begin = end + HEAD_ENDS.len();
        let Some(body) = bytes.get(begin..begin + length) else { return Ok(None) };
        answer.body = body.to_vec();
        Ok(Some((answer, begin + length)))
    }
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Came<'a> {
    /// An answer.
    Answer(Answer),
    /// A packet.
    Packet {
        /// On which channel.
        channel: u8,
        /// Its beginning, which is all of it that is kept.
        head: &'a [u8],
        /// Its length.
        bytes: usize,
    },
}

/// What comes is no RTSP.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("what the server sends is no RTSP")]
pub struct NoRtsp;

/// Takes a connection's bytes as they come, in pieces of any length.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// An answer that is not complete.
    text: Vec<u8>,
    /// A frame's own head with that of its packet, as far as they have come.
    head: [u8; FRAME_BYTES + Head::BYTES],
    head_bytes: usize,
    /// What of the packet behind its head is still to come.
    rest: usize,
}

impl Incoming {
    /// Takes bytes, and tells what is complete with them. A packet is, as soon as its last byte has come.
    ///
    /// # Errors
    /// What comes is no RTSP. Nothing can be made of what follows it.
    pub fn push(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Came<'_>)) -> Result<(), NoRtsp> {
        while let Some(first) = bytes.first() {
            let in_frame = self.head_bytes > 0;
            bytes = if in_frame || (self.text.is_empty() && *first == FRAME_BEGINS) {
                self.frame(bytes, each)
            } else {
                self.answer(bytes, each)?
            };
        }
        Ok(())
    }

    fn frame<'a>(&mut self, mut bytes: &'a [u8], each: &mut impl FnMut(Came<'_>)) -> &'a [u8] {
        if self.head_bytes < FRAME_BYTES {
            bytes = self.fill_head(bytes, FRAME_BYTES);
            if self.head_bytes < FRAME_BYTES {
                return bytes;
            }
        }
        let length = usize::from(u16::from_be_bytes([self.head[2], self.head[3]]));
        let kept = FRAME_BYTES + length.min(Head::BYTES);
        if self.head_bytes < kept {
            bytes = self.fill_head(bytes, kept);
            if self.head_bytes < kept {
                return bytes;
            }
            self.rest = length.saturating_sub(Head::BYTES);
        } else if self.rest == 0 {
            self.rest = length.saturating_sub(Head::BYTES);
        }
        let passed = self.rest.min(bytes.len());
        self.rest -= passed;
        if self.rest == 0 {
            let head = &self.head[FRAME_BYTES..kept];
            each(Came::Packet { channel: self.head[1], head, bytes: length });
            self.head_bytes = 0;
        }
        &bytes[passed..]
    }

    fn fill_head<'a>(&mut self, bytes: &'a [u8], up_to: usize) -> &'a [u8] {
        let taken = (up_to - self.head_bytes).min(bytes.len());
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&bytes[..taken]);
        self.head_bytes += taken;
        &bytes[taken..]
    }

    /// Answers are short and rare, so their bytes are collected until they are complete.
    fn answer<'a>(&mut self, bytes: &'a [u8], each: &mut impl FnMut(Came<'_>)) -> Result<&'a [u8], NoRtsp> {
        let before = self.text.len();
        self.text.extend_from_slice(bytes);
        match Answer::parse(&self.text)? {
            Some((answer, consumed)) => {
                each(Came::Answer(answer));
                self.text = Vec::new();
                Ok(&bytes[consumed - before..])
            }
            None if self.text.len() <= 2 * ANSWER_BYTES_MAX => Ok(&[]),
            None => Err(NoRtsp),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(channel: u8, packet: &[u8]) -> Vec<u8> {
        let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
        [&[FRAME_BEGINS, channel, length[0], length[1]], packet].concat()
    }

    fn conversation() -> Vec<u8> {
        let packet: Vec<u8> = (0..100).collect();
        [
            b"RTSP/1.0 200 OK\r\ncseq: 1\r\nContent-LENGTH: 3\r\n\r\nv=0".to_vec(),
            frame(0, &packet),
            frame(1, &[]),
            frame(1, &packet[..5]),
            b"RTSP/1.0 404 Not Found\r\nCSeq: 2\r\n\r\n".to_vec(),
            frame(0, &packet[..12]),
            frame(0, &packet[..13]),
        ]
        .concat()
    }

    fn heard(pieces: &[&[u8]]) -> Vec<String> {
        let mut incoming = Incoming::default();
        let mut all = Vec::new();
        for piece in pieces {
            incoming
                .push(piece, &mut |came| {
                    all.push(match came {
                        Came::Answer(answer) => {
                            let body = String::from_utf8_lossy(&answer.body);
                            format!("{} {} {body}", answer.status, answer.header("cseq").unwrap())
                        }
                        Came::Packet { channel, head, bytes } => format!("{channel}: {bytes}, {head:?}"),
                    });
                })
                .unwrap();
        }
        all
    }

    #[test]
    fn answers_and_packets_come_in_turn() {
        let conversation = conversation();
        let heard = heard(&[&conversation]);
        assert_eq!(heard.len(), 7, "{heard:#?}");
        assert_eq!((heard[0].as_str(), heard[4].as_str()), ("200 1 v=0", "404 2 "));
        assert_eq!(heard[1], "0: 100, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]");
        assert_eq!((heard[2].as_str(), heard[3].as_str()), ("1: 0, []", "1: 5, [0, 1, 2, 3, 4]"));
    }

    #[test]
    fn what_is_no_rtsp_is_told() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.push(b"HTTP/1.1 200 OK\r\n\r\n", &mut |_| ()), Err(NoRtsp));
        let endless = vec![b'a'; 3 * ANSWER_BYTES_MAX];
        let mut incoming = Incoming::default();
        let begun = [&b"RTSP/1.0 200 OK\r\nX: "[..], &endless].concat();
        assert_eq!(incoming.push(&begun, &mut |_| ()), Err(NoRtsp));
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_mean_the_same(cuts in prop::collection::vec(0usize..300, 0..12)) {
            let conversation = conversation();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(conversation.len())).collect();
            cuts.extend([0, conversation.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &conversation[cut[0]..cut[1]]).collect();
            prop_assert_eq!(heard(&pieces), heard(&[&conversation]));
        }

        #[test]
        fn nonsense_does_no_harm(bytes: Vec<u8>) {
            let _ = Incoming::default().push(&bytes, &mut |_| ());
        }
    }
}
