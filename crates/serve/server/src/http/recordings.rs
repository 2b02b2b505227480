//! Requests for what a film does not have yet, because it is being recorded.

use std::collections::VecDeque;

use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::ConnectionId;

/// How often it is looked whether more has been recorded. A look compares two pointers.
const LOOK_NS: u64 = SECOND_NS / 20;
/// How long a request waits. A recording that is not written for less than that has ended, which is an answer, too.
const PATIENCE_NS: u64 = 30 * SECOND_NS;

/// The connections that wait, each with when it is looked at next.
#[derive(Debug, Default)]
pub(super) struct Recordings(VecDeque<(ConnectionId, u64)>);

impl Recordings {
    /// A connection waits from now on, or goes on waiting. Returns until when a request waits that begins now.
    pub fn wait(&mut self, id: ConnectionId, now_ns: u64) -> u64 {
        self.0.push_back((id, now_ns + LOOK_NS));
        now_ns + PATIENCE_NS
    }

    /// When one of them is to be looked at.
    pub fn due_ns(&self) -> Option<u64> {
        self.0.front().map(|(_, due_ns)| *due_ns)
    }

    /// The next one that is to be looked at.
    pub fn take_due(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.0.pop_front().map(|(id, _)| id)
    }
}
