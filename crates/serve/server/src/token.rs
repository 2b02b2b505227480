//! The source of an event.

use rustix::event::epoll;

/// The source of an event: a kind and a number in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Timer,
    Readers,
    Signals,
    Stop,
    Listener(usize),
    Connection(u64),
}

const KIND_SHIFT: u32 = 56;

impl Token {
    pub fn to_data(self) -> epoll::EventData {
        let (kind, number) = match self {
            Token::Timer => (0, 0),
            Token::Readers => (1, 0),
            Token::Signals => (2, 0),
            Token::Stop => (3, 0),
            Token::Listener(number) => (4, number as u64),
            Token::Connection(number) => (5, number),
        };
        epoll::EventData::new_u64(kind << KIND_SHIFT | number)
    }

    pub fn of(data: epoll::EventData) -> Token {
        let number = data.u64() & ((1 << KIND_SHIFT) - 1);
        match data.u64() >> KIND_SHIFT {
            0 => Token::Timer,
            1 => Token::Readers,
            2 => Token::Signals,
            3 => Token::Stop,
            4 => Token::Listener(number as usize),
            _ => Token::Connection(number),
        }
    }
}
