//! What could be had at best, measured beside what was.

use std::time::Duration;

use forebay_stream_clients::Processors;
use forebay_stream_clients::ceilings::{
    Way, allowed, bits_per_second, sendfile_seconds_per_gigabit, timer_lateness,
};

use super::films::FRAMES_PER_SECOND;
use crate::Error;

/// What a packet of a server is at most, which is what an Ethernet frame holds.
const PACKET_BYTES_MAX: f64 = 1_400.0;
/// How long each is measured.
const TIME: Duration = Duration::from_millis(1_000);
const TIMER_TIME: Duration = Duration::from_millis(2_000);
/// As many packets as the kernel takes apart at once.
const MOST: usize = 64;

/// What one processor can send to the other, in packets of such media, in bits a second, and how late timers are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ceilings {
    /// How many packets are sent to in turn.
    pub(super) receivers: u32,
    /// Packets one by one, many with a call.
    pub(super) sendmmsg: f64,
    /// A frame's packets at once, taken apart by the kernel.
    pub(super) frames: f64,
    /// As many packets at once as the kernel takes apart.
    pub(super) segmented: f64,
    /// A frame with a write.
    pub(super) tcp: f64,
    /// Frames at their times, each with a `sendfile`: processor time of a gigabit, in seconds.
    pub(super) sendfile: f64,
    /// In seconds.
    pub(super) timer_p50: f64,
    /// In seconds.
    pub(super) timer_p99: f64,
}

impl Ceilings {
    /// Those of packets of such media that are sent in turn to so many `receivers`.
    pub(super) fn measure(
        media_bits_per_second: f64,
        receivers: u32,
        processors: Processors,
    ) -> Result<Self, Error> {
        let (packets, bytes) = packets_of_frame(media_bits_per_second);
        let receivers = allowed(receivers as usize);
        let refused = |error: forebay_stream_clients::Error| Error::Load(error.to_string());
        let bits = |way, bytes| bits_per_second(way, bytes, receivers, processors, TIME).map_err(refused);
        let timer = timer_lateness(processors.server, TIMER_TIME).map_err(refused)?;
        Ok(Self {
            receivers: receivers as u32,
            sendmmsg: bits(Way::Sendmmsg, bytes)?,
            frames: bits(Way::Segmented { packets }, bytes)?,
            segmented: bits(Way::Segmented { packets: MOST }, bytes)?,
            tcp: bits(Way::Tcp { packets }, bytes)?,
            sendfile: sendfile_seconds_per_gigabit(
                packets * bytes,
                Duration::from_secs(1) / FRAMES_PER_SECOND,
                receivers,
                processors,
                TIME,
            )
            .map_err(refused)?,
            timer_p50: timer.p50,
            timer_p99: timer.p99,
        })
    }
}

/// How many packets a frame has, and how long they are.
fn packets_of_frame(bits_per_second: f64) -> (usize, usize) {
    let frame = bits_per_second / 8.0 / f64::from(FRAMES_PER_SECOND);
    let packets = (frame / PACKET_BYTES_MAX).ceil().max(1.0);
    (packets as usize, (frame / packets).ceil().max(1.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_divided_into_packets_of_a_length() {
        assert_eq!(packets_of_frame(4_000_000.0), (15, 1_334));
        assert_eq!(packets_of_frame(56_000.0), (1, 280));
        assert_eq!(packets_of_frame(1.0), (1, 1));
    }
}
