//! What came of it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What players saw in the part of the time that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How long that was, in seconds.
    pub seconds: f64,
    /// Players that played at its end.
    pub playing: u32,
    /// Players that the server refused or lost, since the first came.
    pub failed: u32,
    /// What the first of these was told.
    pub first_failure: Option<String>,
    /// Streams that were played, each with its picture and its sound.
    pub streams: u32,
    /// Streams of which one packet in a hundred was lost or late, or that stood still, in one track or both; failed players count too.
    pub late_streams: u32,
    /// Seeks, and beginnings from the front when the media were at their end.
    pub seeks: u64,
    /// Packets that came.
    pub packets: u64,
    /// Bytes of them, from the RTP header on.
    pub bytes: u64,
    /// Packets that there were, by their numbers.
    pub expected: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came later than is tolerated.
    pub late: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Packets that others overtook.
    pub overtaken: u64,
    /// Media that came, in seconds, of all streams.
    pub played_s: f64,
    /// Of the first packet of each frame against the schedule.
    pub lateness: Quantiles,
    /// The same of pictures alone.
    pub picture_lateness: Quantiles,
    /// The same of sound alone.
    pub sound_lateness: Quantiles,
    /// Pictures that were to come, where packets say which is a picture's last.
    pub pictures: u64,
    /// Those of which all packets came.
    pub whole_pictures: u64,
    /// Packets that were lost because the link had too many, where there is one and they are datagrams.
    pub lost_on_link: Option<u64>,
    /// Interarrival jitter of RFC 3550.
    pub jitter: Quantiles,
    /// The same of the first packets of frames alone.
    pub frame_jitter: Quantiles,
    /// From being asked to play to the first packet, since the first player came.
    pub start: Quantiles,
    /// By how much lateness may have been taken too small, in seconds.
    pub clock_set_back_s_max: f64,
    /// Processor time of the players, in seconds.
    pub ran_s: f64,
    /// How long they waited for their processor, in seconds.
    pub queued_s: f64,
    /// Datagrams that the kernel dropped because a socket was full: the players' fault, not the server's.
    pub dropped_here: u64,
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half are less.
    pub p50: f64,
    /// Nine in ten are less.
    pub p90: f64,
    /// 99 in a hundred are less.
    pub p99: f64,
    /// 999 in a thousand are less.
    pub p999: f64,
    /// None is more.
    pub max: f64,
    /// How many there are.
    pub samples: u64,
}

impl Quantiles {
    pub(crate) fn of(us: &Histogram<u64>) -> Self {
        let at = |share| us.value_at_quantile(share) as f64 / 1e6;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0), samples: us.len() }
    }
}
