//! How much a client takes now, and how late a sample may be before it is left out.

/// A client that takes nothing for this long is taken for one that pauses: the stream goes on where it was.
pub(crate) const PAUSE_NS: u64 = 10_000_000_000;

/// What may be sent to a client now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes. A sample that begins within them is sent whole.
    pub bytes: usize,
    /// How late a picture may be that waited for the client. Sound may be twice as late, so pictures are left out before sound.
    pub late_ns: u64,
}

impl Room {
    /// Of a client that never makes the server wait.
    pub const ENDLESS: Self = Self { bytes: usize::MAX, late_ns: u64::MAX };

    /// How late a sample may be.
    pub(crate) fn late_max_ns(&self, is_sound: bool) -> u64 {
        if is_sound { self.late_ns.saturating_mul(2) } else { self.late_ns }
    }
}

/// How a stream stands with its client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    /// Since when the client takes nothing.
    blocked_ns: Option<u64>,
    /// The client has made the stream wait, and the stream has not caught up since.
    pub is_behind: bool,
}

impl Lag {
    /// The client takes no more now.
    pub fn block(&mut self, now_ns: u64) {
        self.blocked_ns.get_or_insert(now_ns);
        self.is_behind = true;
    }

    /// The client takes some again. Returns how long it paused, if that was a pause.
    pub fn unblock(&mut self, now_ns: u64) -> Option<u64> {
        let blocked_ns = now_ns.saturating_sub(self.blocked_ns.take()?);
        (blocked_ns > PAUSE_NS).then_some(blocked_ns)
    }
}
