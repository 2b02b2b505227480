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

/// So many bytes tell how long a client takes for one.
const MEASURED_BYTES: u64 = 64 << 10;

/// How a stream stands with its client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    /// Since when the client takes nothing.
    blocked_ns: Option<u64>,
    /// The client has made the stream wait, and the stream has not caught up since.
    is_behind: bool,
    /// Since when, and how many bytes, it was given beyond what was measured.
    since_ns: u64,
    given_bytes: u64,
    /// The time that it took for a byte in the two last measurements.
    byte_ns: [f64; 2],
}

impl Lag {
    pub const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// The client has all that was due.
    pub fn catch_up(&mut self) {
        *self = Self { blocked_ns: self.blocked_ns, ..Self::default() };
    }

    /// The client was given so many bytes.
    pub fn give(&mut self, bytes: usize) {
        self.given_bytes += bytes as u64;
    }

    /// The client takes no more now.
    pub fn block(&mut self, now_ns: u64) {
        self.blocked_ns.get_or_insert(now_ns);
        if !std::mem::replace(&mut self.is_behind, true) {
            self.since_ns = now_ns;
        }
    }

    /// How long the client is going to take for so many bytes, if the stream is behind. One that took nothing for a moment is not
    /// slow: the shorter of two measurements tells.
    pub fn takes_ns(&self, bytes: usize) -> u64 {
        let [before, last] = self.byte_ns;
        if self.is_behind { (before.min(last) * bytes as f64) as u64 } else { 0 }
    }

    /// The client takes some again. Returns how long it paused, if that was a pause.
    pub fn unblock(&mut self, now_ns: u64) -> Option<u64> {
        let blocked_ns = now_ns.saturating_sub(self.blocked_ns.take()?);
        if self.is_behind && self.given_bytes >= MEASURED_BYTES {
            let taken_ns = now_ns.saturating_sub(self.since_ns) as f64;
            self.byte_ns = [self.byte_ns[1], taken_ns / self.given_bytes as f64];
            (self.since_ns, self.given_bytes) = (now_ns, 0);
        }
        (blocked_ns > PAUSE_NS).then_some(blocked_ns)
    }
}
