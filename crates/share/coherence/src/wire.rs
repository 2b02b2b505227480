//! Messages as bytes, little-endian:
//!
//! ```text
//!   0       1      2         4                     8                                       16
//!   version kind   host      minipage/lock/barrier word; or what is wanted and of how many more; or whether so; or how many and what
//! ```
//!
//! The host is a requester, or one that said something else at a barrier. In its place are the upper bits of a lock.

use crate::message::{Barrier, HostId, Lock, Message, Minipage, Other, Want};

/// Size of a message, without the contents that go with it.
pub const MESSAGE_BYTES: usize = 16;

/// Of this form. Another one has another number.
const VERSION: u8 = 5;

/// In the place of a host, where there is none.
const NO_HOST: HostId = HostId(u16::MAX);

impl Message {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let none = HostId(0);
        let (kind, host, number, word) = match self {
            Self::Request { minipage, want } => (0, none, minipage.0, want_to_word(want)),
            Self::Forward { minipage, want, requester, more } => {
                (1, requester, minipage.0, want_to_word(want) | above_want(more))
            }
            Self::Contents { minipage, want, more } => {
                (2, none, minipage.0, want_to_word(want) | above_want(more))
            }
            Self::Grant { minipage, want, more } => {
                (3, none, minipage.0, want_to_word(want) | above_want(more))
            }
            Self::Invalidate { minipage, more } => (4, none, minipage.0, above_want(more)),
            Self::Invalidated { minipage, more } => (5, none, minipage.0, above_want(more)),
            Self::Done { minipage, more } => (6, none, minipage.0, above_want(more)),
            Self::Acquire { lock, waits } => (7, above(lock), lock.0 as u32, waits.into()),
            Self::Acquired { lock, granted } => (8, above(lock), lock.0 as u32, granted.into()),
            Self::Release { lock } => (9, above(lock), lock.0 as u32, 0),
            Self::Arrive { barrier, word } => (10, none, barrier.0, word),
            Self::Leave { barrier, other: None } => (11, NO_HOST, barrier.0, 0),
            Self::Leave { barrier, other: Some(Other { host, word }) } => (11, host, barrier.0, word),
            Self::Leaving => (12, none, 0, 0),
            Self::Incomplete => (13, none, 0, 0),
            Self::Add { first, count, what } => {
                (14, none, first.0, u64::from(what) << u32::BITS | u64::from(count))
            }
            Self::Forget { first, count, pushes } => {
                (18, none, first.0, u64::from(pushes) << u32::BITS | u64::from(count))
            }
            Self::Added { first } => (15, none, first.0, 0),
            Self::Free { minipage } => (16, none, minipage.0, 0),
            Self::Freed { minipage, was_taken } => (17, none, minipage.0, was_taken.into()),
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[0] = VERSION;
        bytes[1] = kind;
        bytes[2..4].copy_from_slice(&host.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    /// What these bytes say; `None` if they are no message of this version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        let [version, kind, host0, host1, number0, number1, number2, number3, word @ ..] = *bytes;
        let host = HostId(u16::from_le_bytes([host0, host1]));
        let number = u32::from_le_bytes([number0, number1, number2, number3]);
        let word = u64::from_le_bytes(word);
        let (minipage, barrier) = (Minipage(number), Barrier(number));
        let lock = Lock(u64::from(host.0) << u32::BITS | u64::from(number));
        if version != VERSION {
            return None;
        }
        Some(match kind {
            0 => Self::Request { minipage, want: word_to_want(word)? },
            1..=6 => {
                let more = u8::try_from(word >> MORE_SHIFT).ok()?;
                let want = word_to_want(word & !(u64::MAX << MORE_SHIFT))?;
                match kind {
                    1 => Self::Forward { minipage, want, requester: host, more },
                    2 => Self::Contents { minipage, want, more },
                    3 => Self::Grant { minipage, want, more },
                    4 => Self::Invalidate { minipage, more },
                    5 => Self::Invalidated { minipage, more },
                    _ => Self::Done { minipage, more },
                }
            }
            7 => Self::Acquire { lock, waits: word != 0 },
            8 => Self::Acquired { lock, granted: word != 0 },
            9 => Self::Release { lock },
            10 => Self::Arrive { barrier, word },
            11 => Self::Leave { barrier, other: (host != NO_HOST).then_some(Other { host, word }) },
            12 => Self::Leaving,
            13 => Self::Incomplete,
            14 => Self::Add { first: minipage, count: word as u32, what: (word >> u32::BITS) as u32 },
            15 => Self::Added { first: minipage },
            16 => Self::Free { minipage },
            17 => Self::Freed { minipage, was_taken: word != 0 },
            18 => Self::Forget { first: minipage, count: word as u32, pushes: (word >> u32::BITS) as u32 },
            _ => return None,
        })
    }
}

/// What of a lock's number takes the place of a host.
const fn above(lock: Lock) -> HostId {
    HostId((lock.0 >> u32::BITS) as u16)
}

/// Where a word says how many more minipages a message is about.
const MORE_SHIFT: u32 = u32::BITS;

const fn above_want(more: u8) -> u64 {
    (more as u64) << MORE_SHIFT
}

const fn want_to_word(want: Want) -> u64 {
    want as u64
}

const fn word_to_want(word: u64) -> Option<Want> {
    match word {
        0 => Some(Want::Read),
        1 => Some(Want::Write),
        2 => Some(Want::Push),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_as_it_was() {
        let (minipage, lock, barrier) = (Minipage(0x0102_0304), Lock(0x0000_0102_ffff_ff00), Barrier(7));
        let mut messages = vec![
            Message::Invalidate { minipage, more: 0 },
            Message::Invalidated { minipage, more: 1 },
            Message::Done { minipage, more: u8::MAX },
            Message::Acquire { lock, waits: true },
            Message::Acquire { lock, waits: false },
            Message::Acquired { lock, granted: true },
            Message::Acquired { lock, granted: false },
            Message::Release { lock },
            Message::Arrive { barrier, word: u64::MAX - 5 },
            Message::Leave { barrier, other: None },
            Message::Leave { barrier, other: Some(Other { host: HostId(0), word: 0 }) },
            Message::Leave { barrier, other: Some(Other::left(HostId(0x0102))) },
            Message::Leaving,
            Message::Incomplete,
            Message::Add { first: minipage, count: u32::MAX, what: 0x0708_090a },
            Message::Added { first: minipage },
            Message::Free { minipage },
            Message::Freed { minipage, was_taken: true },
            Message::Freed { minipage, was_taken: false },
            Message::Forget { first: minipage, count: u32::MAX - 1, pushes: 0x0a0b_0c0d },
        ];
        for want in [Want::Read, Want::Write, Want::Push] {
            messages.push(Message::Request { minipage, want });
            messages.push(Message::Forward { minipage, want, requester: HostId(0x0506), more: 7 });
            messages.push(Message::Contents { minipage, want, more: 255 });
            messages.push(Message::Grant { minipage, want, more: 0 });
        }
        for message in messages {
            assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        let good = Message::Request { minipage: Minipage(1), want: Want::Push }.to_bytes();
        for (index, value) in [(0, VERSION + 1), (1, 19), (8, 3), (15, 1)] {
            let mut bad = good;
            bad[index] = value;
            assert_eq!(Message::from_bytes(&bad), None, "byte {index}");
        }
    }
}
