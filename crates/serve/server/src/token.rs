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
            Self::Timer => (0, 0),
            Self::Readers => (1, 0),
            Self::Signals => (2, 0),
            Self::Stop => (3, 0),
            Self::Listener(number) => (4, number as u64),
            Self::Connection(number) => (5, number),
        };
        epoll::EventData::new_u64(kind << KIND_SHIFT | number)
    }

    pub fn of(data: epoll::EventData) -> Self {
        let number = data.u64() & ((1 << KIND_SHIFT) - 1);
        match data.u64() >> KIND_SHIFT {
            0 => Self::Timer,
            1 => Self::Readers,
            2 => Self::Signals,
            3 => Self::Stop,
            4 => Self::Listener(number as usize),
            _ => Self::Connection(number),
        }
    }
}
