//! What came of all streams together.

use hdrhistogram::Histogram;

use crate::protocol::track::Kind;

/// Later ones count as this: ten minutes.
const US_MAX: u64 = 600_000_000;
/// Values are told with three digits.
const DIGITS: u8 = 3;

/// Counts and samples of many streams.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packets that came.
    pub packets: u64,
    /// Bytes of them, from the RTP header on.
    pub bytes: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Packets that others overtook.
    pub overtaken: u64,
    /// Packets that belong to no stream.
    pub strays: u64,
    /// Packets that came later than is tolerated.
    pub late: u64,
    /// Of the first packet of each frame, after it was due, in microseconds.
    pub lateness_us: Histogram<u64>,
    /// The same of pictures alone.
    pub picture_lateness_us: Histogram<u64>,
    /// The same of sound alone.
    pub sound_lateness_us: Histogram<u64>,
    /// Pictures that are marked at their end, as far as the packets tell.
    pub pictures: u64,
    /// Those of which all packets came.
    pub whole_pictures: u64,
    /// Interarrival jitter at the beginning of each frame, of all packets, in microseconds.
    pub jitter_us: Histogram<u64>,
    /// The same of the first packets of frames alone, which a server that spreads frames does not add to.
    pub frame_jitter_us: Histogram<u64>,
    /// By how much clocks were set back while samples were taken, at most, in microseconds: lateness sampled before is
    /// too small by up to that.
    pub clock_set_back_us_max: u64,
}

impl Tally {
    /// Of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            duplicates: 0,
            overtaken: 0,
            strays: 0,
            late: 0,
            lateness_us: histogram(),
            picture_lateness_us: histogram(),
            sound_lateness_us: histogram(),
            pictures: 0,
            whole_pictures: 0,
            jitter_us: histogram(),
            frame_jitter_us: histogram(),
            clock_set_back_us_max: 0,
        }
    }
}

impl Tally {
    /// A frame was so late.
    pub(crate) fn frame_was_late(&mut self, kind: Kind, late_us: u64) {
        let of_kind = match kind {
            Kind::Pictures => &mut self.picture_lateness_us,
            Kind::Sound => &mut self.sound_lateness_us,
        };
        of_kind.saturating_record(late_us);
        self.lateness_us.saturating_record(late_us);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, US_MAX, DIGITS).expect("these bounds are allowed")
}
