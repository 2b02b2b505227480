//! Reports of the sender and of its receivers (RFC 3550, section 6), and the clocks that they tie together.

use rtcp_types::prelude::*;
use rtcp_types::{
    Bye, Compound, CompoundBuilder, Packet, ReportBlock, Sdes, SdesChunk, SdesItem, SenderReport,
};
use thiserror::Error;

use crate::range::SECOND_NS;

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH_S: u64 = 2_208_988_800;
/// The longest name of a source, in bytes (RFC 3550, section 6.5).
const NAME_BYTES_MAX: usize = 255;

/// A time since 1970 as NTP has it: seconds since 1900 in the upper half, their fraction in the lower (section 4).
pub fn ntp(unix_ns: u64) -> u64 {
    let seconds = (unix_ns / SECOND_NS + NTP_EPOCH_S) & 0xFFFF_FFFF;
    (seconds << 32) | (((unix_ns % SECOND_NS) << 32) / SECOND_NS)
}

/// Which RTP timestamp belongs to which time: what receivers use to play tracks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Timestamps per second.
    pub rate: u32,
    /// A time, in nanoseconds.
    pub at_ns: u64,
    /// The timestamp then.
    pub timestamp: u32,
}

impl Clock {
    /// The timestamp at another time, before or after.
    pub fn timestamp_at(&self, ns: u64) -> u32 {
        let elapsed = i128::from(ns) - i128::from(self.at_ns);
        let ticks = (elapsed * i128::from(self.rate)).div_euclid(i128::from(SECOND_NS));
        // Timestamps wrap around.
        self.timestamp.wrapping_add(ticks as u32)
    }

    /// The time of another timestamp, less than half a cycle before or after.
    pub fn ns_of(&self, timestamp: u32) -> u64 {
        let ticks = i128::from(timestamp.wrapping_sub(self.timestamp) as i32);
        let elapsed = ticks * i128::from(SECOND_NS) / i128::from(self.rate.max(1));
        (i128::from(self.at_ns) + elapsed).clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// What a source has sent, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The synchronization source.
    pub ssrc: u32,
    /// Now, since 1970.
    pub unix_ns: u64,
    /// The RTP timestamp now.
    pub timestamp: u32,
    /// Packets; wraps around.
    pub packets: u32,
    /// Bytes of payload; wraps around.
    pub payload_bytes: u32,
}

impl Sent {
    /// A sender report, with the name that all sources of one sender have (sections 6.4.1 and 6.5.1).
    pub fn report(&self, name: &str) -> Vec<u8> {
        write(self.compound(name))
    }

    /// The same, and that nothing more comes (section 6.6). Players stop at once, so it is sent when the last packet has
    /// had the time to arrive.
    pub fn goodbye(&self, name: &str) -> Vec<u8> {
        write(self.compound(name).add_packet(Bye::builder().add_source(self.ssrc)))
    }

    fn compound<'a>(&self, name: &'a str) -> CompoundBuilder<'a> {
        let mut bytes = name.len().min(NAME_BYTES_MAX);
        while !name.is_char_boundary(bytes) {
            bytes -= 1;
        }
        let report = SenderReport::builder(self.ssrc)
            .ntp_timestamp(ntp(self.unix_ns))
            .rtp_timestamp(self.timestamp)
            .packet_count(self.packets)
            .octet_count(self.payload_bytes);
        let name = SdesItem::builder(SdesItem::CNAME, &name[..bytes]);
        let description = Sdes::builder().add_chunk(SdesChunk::builder(self.ssrc).add_item(name));
        Compound::builder().add_packet(report).add_packet(description)
    }
}

fn write(compound: CompoundBuilder<'_>) -> Vec<u8> {
    let bytes = compound.calculate_size().expect("what is above keeps to the limits");
    let mut packet = vec![0; bytes];
    compound.write_into_unchecked(&mut packet);
    packet
}

/// What a receiver says of one source (section 6.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The source of the packet.
    pub receiver: u32,
    /// The source.
    pub ssrc: u32,
    /// What was lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost in all; negative where there were duplicates.
    pub lost: i32,
    /// The highest sequence number received, with the number of times that it has wrapped in the upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter, in units of the source's timestamps.
    pub jitter: u32,
    /// The middle of the NTP time of the last sender report received, or 0.
    pub last_report: u32,
    /// How long ago that was, in 65,536ths of a second.
    pub delay: u32,
}

impl Reception {
    /// The time that a packet takes there and back, if this came at `unix_ns`. `None` if no report has been received, or
    /// the receiver is wrong about it.
    pub fn round_trip_ns(&self, unix_ns: u64) -> Option<u64> {
        let now = (ntp(unix_ns) >> 16) as u32;
        let trip = now.wrapping_sub(self.last_report).wrapping_sub(self.delay) as i32;
        let trip = u64::try_from(trip).ok().filter(|_| self.last_report != 0)?;
        Some((trip * SECOND_NS) >> 16)
    }
}

/// What a client's packet says that a sender wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// How sources are received.
    pub receptions: Vec<Reception>,
    /// The sources that leave.
    pub goodbyes: Vec<u32>,
}

/// Bytes that are no RTCP packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not an RTCP packet")]
pub struct Unreadable;

impl Received {
    /// Of a compound packet. What is neither a report nor a goodbye is passed over.
    pub fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut received = Self::default();
        for packet in Compound::parse(bytes).map_err(|_| Unreadable)? {
            match packet.map_err(|_| Unreadable)? {
                Packet::Rr(report) => {
                    let receiver = report.ssrc();
                    received
                        .receptions
                        .extend(report.report_blocks().map(|block| reception(receiver, &block)));
                }
                Packet::Sr(report) => {
                    let receiver = report.ssrc();
                    received
                        .receptions
                        .extend(report.report_blocks().map(|block| reception(receiver, &block)));
                }
                Packet::Bye(bye) => received.goodbyes.extend(bye.ssrcs()),
                _ => {}
            }
        }
        Ok(received)
    }
}

fn reception(receiver: u32, block: &ReportBlock<'_>) -> Reception {
    Reception {
        receiver,
        ssrc: block.ssrc(),
        fraction_lost: block.fraction_lost(),
        // A number of 24 bits, with its sign.
        lost: (block.cumulative_lost() << 8) as i32 >> 8,
        highest_sequence: block.extended_sequence_number(),
        jitter: block.interarrival_jitter(),
        last_report: block.last_sender_report_timestamp(),
        delay: block.delay_since_last_sender_report_timestamp(),
    }
}

/// When a sender's next report is due, so that all reports of a session take 5 % of its rate (section 6.3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Of the whole session.
    pub bits_per_second: u64,
    /// How many send and receive: two, or those that are known of a group.
    pub members: u32,
    /// How many of them send.
    pub senders: u32,
    average_bytes: f64,
    is_initial: bool,
}

/// Of IPv4 and UDP: part of a packet's size here.
const LOWER_HEADER_BYTES: f64 = 28.0;
/// The least time between reports, in seconds, before chance; half of it before the first.
const INTERVAL_S_MIN: f64 = 5.0;
/// Makes up for that the deferral of reports when many join lengthens the mean (section 6.3.1).
const COMPENSATION: f64 = std::f64::consts::E - 1.5;

impl Schedule {
    /// Of one sender and one receiver, before their first report.
    pub fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second, members: 2, senders: 1, average_bytes: 100.0, is_initial: true }
    }

    /// A report was sent or received.
    pub fn has_seen(&mut self, bytes: usize) {
        self.average_bytes += (bytes as f64 + LOWER_HEADER_BYTES - self.average_bytes) / 16.0;
        self.is_initial = false;
    }

    /// How long to wait until the next report. `chance` is evenly distributed over all of its values.
    pub fn interval_ns(&self, chance: u32) -> u64 {
        let mut bytes_per_second = (self.bits_per_second as f64 / 8.0 * 0.05).max(1.0);
        let mut sharing = self.members;
        if self.senders.saturating_mul(4) <= self.members {
            bytes_per_second /= 4.0;
            sharing = self.senders;
        }
        let least_s = if self.is_initial { INTERVAL_S_MIN / 2.0 } else { INTERVAL_S_MIN };
        let mean_s = (self.average_bytes * f64::from(sharing) / bytes_per_second).max(least_s);
        let factor = 0.5 + f64::from(chance) / f64::from(u32::MAX);
        (mean_s * factor / COMPENSATION * SECOND_NS as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_counted_from_1900() {
        assert_eq!(ntp(0), NTP_EPOCH_S << 32);
        assert_eq!(ntp(SECOND_NS / 2) & 0xFFFF_FFFF, 1 << 31);
        // 7 February 2036, 06:28:16: the era ends.
        assert_eq!(ntp(2_085_978_496 * SECOND_NS), 0);
    }

    #[test]
    fn a_report_is_as_receivers_read_it() {
        let sent =
            Sent { ssrc: 0x0102_0304, unix_ns: SECOND_NS / 4, timestamp: 9, packets: 2, payload_bytes: 300 };
        let report = [
            [0x80, 200, 0, 6, 1, 2, 3, 4].as_slice(),
            &[0x83, 0xAA, 0x7E, 0x80, 0x40, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 1, 44],
            &[0x81, 202, 0, 3, 1, 2, 3, 4, 1, 4, b'f', b'o', b'r', b'e', 0, 0],
        ];
        assert_eq!(sent.report("fore"), report.concat());
        let goodbye = sent.goodbye("fore");
        assert_eq!(goodbye[goodbye.len() - 8..], [0x81, 203, 0, 1, 1, 2, 3, 4]);
        assert_eq!(Received::parse(&goodbye).expect("readable").goodbyes, [0x0102_0304]);
        assert!(Received::parse(&sent.report(&"ä".repeat(200))).is_ok());
    }

    #[test]
    fn a_receiver_s_report_tells_loss_jitter_and_the_way_there_and_back() {
        let sent_ns = 1_700_000_000 * SECOND_NS;
        let last_report = (ntp(sent_ns) >> 16) as u32;
        let mut bytes = vec![0x81, 201, 0, 7, 0, 0, 0, 5, 0, 0, 0, 6, 64, 0xFF, 0xFF, 0xFE];
        bytes.extend([0, 1, 0, 2, 0, 0, 0, 77]);
        bytes.extend(last_report.to_be_bytes());
        bytes.extend((1u32 << 15).to_be_bytes());
        let [reception] = Received::parse(&bytes).expect("readable").receptions[..] else {
            panic!("one report")
        };
        assert_eq!(
            (reception.receiver, reception.ssrc, reception.fraction_lost, reception.lost),
            (5, 6, 64, -2)
        );
        assert_eq!((reception.highest_sequence, reception.jitter), (0x0001_0002, 77));
        assert_eq!(reception.round_trip_ns(sent_ns + SECOND_NS), Some(SECOND_NS / 2));
        assert_eq!(reception.round_trip_ns(sent_ns), None, "it would have come before it was sent");
        assert_eq!(Reception { last_report: 0, ..reception }.round_trip_ns(sent_ns + SECOND_NS), None);
    }

    #[test]
    fn reports_take_a_twentieth_of_the_rate_and_come_every_five_seconds_at_most() {
        let mean_s = |schedule: &Schedule| {
            let all =
                (0..=1000u64).map(|step| schedule.interval_ns((step * u64::from(u32::MAX) / 1000) as u32));
            all.sum::<u64>() as f64 / 1001.0 / SECOND_NS as f64
        };
        let mut schedule = Schedule::new(4_000_000);
        assert!((mean_s(&schedule) - 2.5 / COMPENSATION).abs() < 1e-6);
        schedule.has_seen(72);
        assert!((mean_s(&schedule) - 5.0 / COMPENSATION).abs() < 1e-6);
        let (least_ns, most_ns) = (schedule.interval_ns(0), schedule.interval_ns(u32::MAX));
        assert_eq!(most_ns / 1000, 3 * least_ns / 1000);
        // 100 bytes from each of two, at 5 % of 400 byte/s.
        assert!((mean_s(&Schedule::new(3200)) - 10.0 / COMPENSATION).abs() < 1e-6);
        // One sender among many has a quarter of that for itself.
        let group = Schedule { members: 1000, ..Schedule::new(3200) };
        assert!((mean_s(&group) - 20.0 / COMPENSATION).abs() < 1e-6);
        assert!(Schedule::new(0).interval_ns(0) > 0);
    }

    proptest! {
        #[test]
        fn a_timestamp_s_time_has_that_timestamp(
            rate in 8000..200_000u32, at_ns in 0..1u64 << 62, timestamp: u32, ticks in -1_000_000_000..1_000_000_000i32,
        ) {
            let clock = Clock { rate, at_ns: at_ns + (1 << 61), timestamp };
            let other = timestamp.wrapping_add(ticks as u32);
            let again = clock.timestamp_at(clock.ns_of(other));
            prop_assert!((again.wrapping_sub(other) as i32).abs() <= 1, "{other} {again}");
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 199..208u8, words in 0..25u8) {
            let mut packet = vec![0x81, kind, 0, words];
            packet.extend(&bytes);
            if let Ok(received) = Received::parse(&packet) {
                received.receptions.iter().for_each(|reception| _ = reception.round_trip_ns(u64::MAX));
            }
            let _ = Received::parse(&bytes);
        }
    }
}
