//! Ogg (RFC 3533) with Opus (RFC 7845) or Vorbis (Vorbis I, annex A): packets in pages, found by a pass over all pages.
//!
//! ```text
//!   page     | header, time at its end | packet | packet | begin of one | header, ... | rest of it | packet |
//!   samples                            |   0    |   1    | 2, with the header amid it .............|   3    |
//! ```
//!
//! A page tells the time at its end. How long each packet lasts is in its first byte, so the times of its packets follow.
//!
//! Recordings may follow each other in a *chain*, each with streams and times of its own. Their streams go on in the tracks of the first
//! recording that has some.

mod chain;
mod checksum;
mod headers;

use std::sync::Arc;

use memchr::memmem;

use crate::error::{Error, Result};
use crate::index::samples_max;
use crate::media::Found;
use crate::packing::{OggPage, Packing};
use crate::source::Source;
use chain::Chain;
pub(crate) use headers::opus_ticks;
use headers::{Headers, Lasting};

/// More than any film has.
const STREAMS_MAX: usize = 64;
/// How far damage may go.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let samples_left = samples_max(source.bytes());
    let mut pass = Pass { streams: Vec::new(), chain: Chain::new(samples_left), runs: Vec::new() };
    let (mut at, mut garbage) = (0, 0);
    while at < source.bytes() {
        let page = OggPage::parse(source.up_to(at, OggPage::HEADER_BYTES_MAX)?);
        let bytes = page.as_ref().map_or(0, |page| page.header_bytes() + page.content_bytes());
        // A page with another checksum is damaged, or some of it is missing and another one lies within.
        let is_sound = page.is_some() && checksum::is_right(source.up_to(at, bytes)?);
        let Some(page) = page.filter(|_| is_sound) else {
            pass.streams.iter_mut().for_each(|stream| stream.begun = None);
            let skipped = to_next_page(source, at)?;
            if bytes == 0 {
                garbage += skipped;
            }
            if garbage > GARBAGE_BYTES_MAX {
                return Err(Error::Damaged("most of it is no page of Ogg"));
            }
            at += skipped;
            continue;
        };
        let end = at + bytes as u64;
        if page.flags & OggPage::BEGINS != 0 && pass.streams.iter().any(|stream| stream.has_packets) {
            pass.begin_recording();
        }
        pass.take(source, &page, at, end)?;
        at = end;
    }
    Ok(pass.found())
}

/// How many bytes there are from a place to where the next page may begin.
fn to_next_page(source: &mut Source, at: u64) -> Result<u64> {
    let bytes = source.following(at + 1)?;
    // The first letters of it may be the last bytes here.
    Ok(1 + memmem::find(bytes, b"OggS").unwrap_or(bytes.len().saturating_sub(3)) as u64)
}

/// How a packet lies that begins at a place: in pages of these serial numbers, each from some place in the file on.
pub(crate) fn packing(serials: &[(u64, u32)], runs: &[u64], at: u64) -> Packing {
    let moves = serials.partition_point(|(from, _)| *from <= at);
    let serial = serials[..moves].last().map_or(0, |(_, serial)| *serial);
    let next = runs.get(runs.partition_point(|run| *run < at)).map(|run| run - at);
    Packing::Pages { serial, first: next.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX) }
}

struct Pass {
    /// Those of the recording at hand.
    streams: Vec<Stream>,
    chain: Chain,
    /// Where pages begin that come amid a packet.
    runs: Vec<u64>,
}

/// A logical stream while its packets are being found.
struct Stream {
    serial: u32,
    kind: Kind,
    /// Whether packets have come behind its headers.
    has_packets: bool,
    /// The number of its next page.
    next_page: u32,
    /// Where the packet begins that the last page has not ended.
    begun: Option<u64>,
    /// Whether pages are missing before the last one.
    has_gap: bool,
    /// When the next packet is due, if that is known.
    time: Option<i64>,
}

enum Kind {
    /// Its first packets are to come yet.
    Begun(Headers),
    /// It goes on in a track.
    Served {
        track: usize,
        has_begun: bool,
        lasting: Lasting,
    },
    LeftOut,
}

/// A packet that ends in the page at hand.
struct Packet {
    at: u64,
    end: u64,
}

impl Pass {
    /// Another recording follows.
    fn begin_recording(&mut self) {
        self.streams.clear();
        self.chain.begin_recording();
    }

    fn take(&mut self, source: &mut Source, page: &OggPage, at: u64, end: u64) -> Result<()> {
        let place = match self.streams.iter().position(|stream| stream.serial == page.serial) {
            Some(place) => place,
            None if self.streams.len() >= STREAMS_MAX || page.flags & OggPage::BEGINS == 0 => return Ok(()),
            None => {
                self.streams.push(Stream::new(page));
                self.streams.len() - 1
            }
        };
        let stream = &mut self.streams[place];
        let packets = stream.packets(page, at);
        if stream.begun.is_some() {
            // Pages without a packet count as packets, so that there is a limit to them.
            let left = self.chain.samples_left.checked_sub(1);
            self.chain.samples_left = left.ok_or(Error::Damaged("it has more pages than a recording has"))?;
            self.runs.push(end);
        }
        stream.take(source, page, &packets, &self.runs, &mut self.chain)
    }

    fn found(mut self) -> Found {
        if self.streams.iter().any(|stream| matches!(stream.kind, Kind::Begun(_))) {
            self.chain.leave_out("a stream whose headers are not complete");
        }
        let runs: Arc<[u64]> = self.runs.into();
        let (links, left_out) = self.chain.end();
        let tracks = links.into_iter().filter_map(|link| link.end(&runs)).collect();
        Found { tracks, left_out, ..Found::default() }
    }
}

impl Stream {
    fn new(page: &OggPage) -> Self {
        Self {
            serial: page.serial,
            kind: Kind::Begun(Headers::default()),
            has_packets: false,
            next_page: page.number,
            begun: None,
            has_gap: false,
            time: None,
        }
    }

    /// The packets that end in a page.
    fn packets(&mut self, page: &OggPage, at: u64) -> Vec<Packet> {
        let continues = page.flags & OggPage::CONTINUES != 0;
        let is_next = page.number == self.next_page;
        self.has_gap = !is_next;
        self.next_page = page.number.wrapping_add(1);
        let mut begun = self.begun.take().filter(|_| continues && is_next);
        // The rest of a packet whose beginning is lost.
        let mut is_lost = continues && begun.is_none();
        let (mut packets, mut next) = (Vec::new(), at + page.header_bytes() as u64);
        for segment in page.lacing() {
            let begin = *begun.get_or_insert(next);
            next += u64::from(*segment);
            if *segment < 255 {
                if !std::mem::replace(&mut is_lost, false) && next > begin {
                    packets.push(Packet { at: begin, end: next });
                }
                begun = None;
            }
        }
        self.begun = begun.filter(|_| !is_lost);
        packets
    }

    /// Puts packets into the index, or takes what they tell of all others.
    fn take(
        &mut self,
        source: &mut Source,
        page: &OggPage,
        packets: &[Packet],
        runs: &[u64],
        chain: &mut Chain,
    ) -> Result<()> {
        let mut packets = packets.iter();
        while let Kind::Begun(headers) = &mut self.kind {
            let Some(packet) = packets.next() else { return Ok(()) };
            let packing = packing(&[(0, self.serial)], runs, packet.at);
            if let Some(taken) = headers.take(source, packing, packet.at..packet.end)? {
                self.kind = chain.join(taken, packet.end, self.serial);
            }
        }
        self.has_packets |= packets.len() > 0;
        let Kind::Served { track, has_begun, lasting } = &mut self.kind else { return Ok(()) };
        let mut steps = Vec::new();
        for packet in packets.clone() {
            steps.push(lasting.of(source.up_to(packet.at, 2)?));
        }
        let all: i64 = steps.iter().sum();
        let is_last = page.flags & OggPage::ENDS != 0;
        // The last page may tell an earlier end than that of its packets.
        let mut time = match self.time {
            Some(time) if is_last && self.has_gap => page.granule.saturating_sub(all).max(time),
            Some(time) if is_last || page.granule < 0 => time,
            None if is_last || page.granule < 0 => {
                lasting.beginning(steps.first().copied().unwrap_or_default())
            }
            _ => page.granule.saturating_sub(all),
        };
        for (packet, step) in packets.zip(steps) {
            if !std::mem::replace(has_begun, true) {
                chain.begin(*track, time.saturating_add(lasting.lead_in(step)));
            }
            let end = time.saturating_add(step);
            let told = if is_last && page.granule >= 0 { end.min(page.granule) } else { end };
            chain.push(*track, packet.at..packet.end, time..told)?;
            time = end;
            self.time = Some(time);
        }
        Ok(())
    }
}
