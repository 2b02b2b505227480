//! How long a transport stream is, by the times at its beginning and at its end: an estimate until all of it has been read.

use mpeg2ts_reader::packet::Packet;

use super::tables::Program;
use super::times::{CLOCK_END, CLOCK_RATE, Pes};
use crate::error::Result;
use crate::packing::{PACKET_BYTES, Payloads};
use crate::source::Source;
use crate::transport::{Layout, next_packet};

/// How much of either end is looked at.
const END_BYTES: u64 = 1 << 20;

/// `None` if there are no times at either end.
pub(super) fn told_ns(
    source: &mut Source,
    from: u64,
    layout: Layout,
    program: &Program,
) -> Result<Option<u64>> {
    let Some(first) = times(source, from..from + END_BYTES, layout, program)?.into_iter().min() else {
        return Ok(None);
    };
    let back = source.bytes().saturating_sub(from).saturating_sub(END_BYTES) / layout.stride * layout.stride;
    let last = times(source, from + back..u64::MAX, layout, program)?;
    let since = |time: &u64| (time + CLOCK_END as u64 - first) % CLOCK_END as u64;
    let ticks = last.iter().map(since).filter(|ticks| *ticks < CLOCK_END as u64 / 2).max();
    Ok(ticks.filter(|ticks| *ticks > 0).map(|ticks| ticks * 1_000_000 / (u64::from(CLOCK_RATE) / 1000)))
}

/// When what is in packets between two places is presented.
fn times(
    source: &mut Source,
    places: std::ops::Range<u64>,
    layout: Layout,
    program: &Program,
) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    let mut at = places.start;
    while at < places.end {
        let bytes = source.up_to(at, PACKET_BYTES)?;
        if bytes.len() < PACKET_BYTES {
            break;
        }
        let Some(packet) = Packet::try_new(bytes) else {
            at = next_packet(source, at, layout)?;
            continue;
        };
        let pid = u16::from(packet.pid());
        if program.streams.iter().any(|stream| stream.pid == pid)
            && let Some(payload) = Payloads::default().payload(bytes, pid)
            && let Some(pes) = payload.header.and_then(|header| Pes::parse(&bytes[header..]))
        {
            times.push(pes.presentation);
        }
        at += layout.stride;
    }
    Ok(times)
}
