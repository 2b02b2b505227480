//! A host's end.

use std::{fmt, io, os::unix::net::UnixStream, time::Duration};

use crate::{frame, table};

/// How long a host waits for the others: the table knows better which one is missing.
const PATIENCE: Duration = table::PATIENCE.saturating_add(Duration::from_secs(10));

/// One host's place at the launcher's table.
#[derive(Debug)]
pub struct Seat(UnixStream);

/// Why a round failed.
#[derive(Debug)]
pub enum SeatError {
    /// By another host.
    Host {
        /// Which one.
        host: u16,
        /// What became of it.
        reason: String,
    },
    /// The launcher does not answer, or not in time.
    Launcher(io::Error),
}

impl Seat {
    /// The one at this socket.
    ///
    /// # Errors
    /// It is no socket.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Says something, and waits for what all say, in the order of their ranks.
    ///
    /// # Errors
    /// A host has ended, or two minutes have passed.
    pub fn exchange(&mut self, said: &[u8]) -> Result<Vec<Vec<u8>>, SeatError> {
        let launcher = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => SeatError::Launcher(io::ErrorKind::TimedOut.into()),
            _ => SeatError::Launcher(error),
        };
        frame::write(&self.0, frame::SAYS, said).map_err(launcher)?;
        let (kind, bytes) = frame::read(&self.0).map_err(launcher)?;
        let garbled = || SeatError::Launcher(io::ErrorKind::InvalidData.into());
        match (kind, bytes.split_first_chunk()) {
            (frame::ALL_SAID, _) => frame::split(&bytes).ok_or_else(garbled),
            (frame::FAILED, Some((host, reason))) => Err(SeatError::Host {
                host: u16::from_le_bytes(*host),
                reason: String::from_utf8_lossy(reason).into_owned(),
            }),
            _ => Err(garbled()),
        }
    }

    /// Says the last thing, and leaves.
    pub fn leave(self, said: &[u8]) {
        // The launcher may be gone, which is no concern of a host's that has finished.
        let _ = frame::write(&self.0, frame::LEAVES, said);
    }
}

impl fmt::Display for SeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, reason } => write!(f, "host {host} {reason}"),
            Self::Launcher(error) if error.kind() == io::ErrorKind::TimedOut => {
                write!(f, "not all hosts came within {} s", PATIENCE.as_secs())
            }
            Self::Launcher(error) => write!(f, "the launcher does not answer: {error}"),
        }
    }
}

impl std::error::Error for SeatError {}
