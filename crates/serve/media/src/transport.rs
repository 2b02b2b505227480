//! MPEG transport streams (ISO/IEC 13818-1), served as they are: runs of packets, due by the clock that they carry.
//!
//! ```text
//!   packets  | PAT | PMT | video, clock | video | audio | ... | video, clock | ...
//!            ^ decoding can begin here                         ^
//!            +------------ due between the one clock and the other -----------+
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use mpeg2ts_reader::packet::{ClockRef, Packet, Pid};

use crate::error::{Error, Result};
use crate::index::{Builder, Entry, Index, SAMPLES_MAX};
use crate::media::{Found, Track};
use crate::source::Source;
use crate::time::TimeBase;

const PACKET_BYTES: usize = Packet::SIZE;

/// Ticks of the clock per second.
const CLOCK_RATE: u32 = 27_000_000;
/// The clock starts again after 33 bits of 300 ticks.
const CLOCK_END: u64 = (1 << 33) * 300;
/// Clocks come every 100 ms (2.7.2); after this long without, the stream has been cut.
const CLOCK_GAP_MAX: u64 = CLOCK_RATE as u64;

/// What is due within this is one sample, in as many packets as RTP packets are filled with.
const SAMPLE_TICKS: u64 = CLOCK_RATE as u64 / 200;
const RTP_PACKETS: u64 = 7;
const SAMPLE_PACKETS_MAX: u64 = 9 * RTP_PACKETS;

/// Packets in a row that begin as packets do. Five by chance are one in a million million.
const PACKETS_TO_KNOW: usize = 5;

/// How far damage may go.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

/// How packets lie in a file: some have more before or after them, such as the time of their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// From one packet to the next, in bytes.
    pub stride: u64,
}

/// Plain packets; those with a time (M2TS); those with parity bytes (DVB).
const LAYOUTS: [Layout; 3] = [Layout { stride: 188 }, Layout { stride: 192 }, Layout { stride: 204 }];

impl Layout {
    fn format(self) -> Format {
        match self.stride {
            188 => Format::MpegTransport,
            stride => Format::SparseTransport { stride: stride as u8 },
        }
    }

    /// What so many packets take, from the first byte of the first to the last byte of the last.
    fn bytes(self, packets: u64) -> u64 {
        packets.saturating_sub(1) * self.stride + PACKET_BYTES as u64
    }

    /// Whether packets begin here: five of them, or as many more than one as the file has.
    fn are_packets(self, bytes: &[u8]) -> bool {
        let stride = self.stride as usize;
        let mut starts = bytes.iter().step_by(stride).take(PACKETS_TO_KNOW);
        bytes.len() > stride && starts.all(|byte| Packet::is_sync_byte(*byte))
    }
}

/// The longest way from one packet to the next.
pub(crate) const STRIDE_MAX: usize = 204;

/// Whether bytes begin with a packet, with the time of its arrival before it or without, that is not followed by another one yet.
pub(crate) fn may_be_first_packet(bytes: &[u8]) -> bool {
    const TIME_BYTES: usize = 4;
    let begins = |from: usize| bytes.get(from).is_some_and(|byte| Packet::is_sync_byte(*byte));
    bytes.len() <= STRIDE_MAX && (begins(0) || begins(TIME_BYTES))
}

/// Where the first packet begins and how packets lie, if this is a transport stream. It may begin amid a packet.
pub(crate) fn first_packet(source: &mut Source) -> Result<Option<(u64, Layout)>> {
    for layout in LAYOUTS {
        let stride = layout.stride as usize;
        let begin = source.up_to(0, stride * (PACKETS_TO_KNOW + 1))?;
        let mut places = 0..stride.min(begin.len());
        if let Some(from) = places.find(|from| layout.are_packets(&begin[*from..])) {
            return Ok(Some((from as u64, layout)));
        }
    }
    Ok(None)
}

pub(crate) fn read(source: &mut Source, from: u64, layout: Layout) -> Result<Found> {
    // Not every stream says where its key frames are, and sound has none: then any place is as good as another.
    let index = match scan(source, from, layout, Begin::AtKeyFrames)? {
        index if index.has_sync() => index,
        _ => scan(source, from, layout, Begin::AtClocks)?,
    };
    let time_base = TimeBase::per_second(CLOCK_RATE).ok_or(Error::Damaged("its time does not pass"))?;
    let track = Track::new(Codec::MpegTransport, layout.format(), None, time_base, index);
    Ok(Found { tracks: vec![track], ..Found::default() })
}

/// Where decoding is taken to begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    AtKeyFrames,
    AtClocks,
}

fn scan(source: &mut Source, from: u64, layout: Layout, begin: Begin) -> Result<Index> {
    let mut scan = Scan {
        layout,
        begin,
        builder: Builder::default(),
        samples_left: SAMPLES_MAX,
        clock: None,
        run: Run { at: from, ..Run::default() },
        due: 0,
        tables: None,
        packets: 0,
        scrambled_packets: 0,
    };
    let mut at = from;
    loop {
        let packet = source.up_to(at, PACKET_BYTES)?;
        if packet.len() < PACKET_BYTES {
            break;
        }
        if let Some(packet) = Packet::try_new(packet) {
            scan.take(at, &packet)?;
            at += layout.stride;
        } else {
            at = next_packet(source, at, layout)?;
            scan.end_run(None, at)?;
        }
    }
    scan.end_run(None, at)?;
    if scan.scrambled_packets > scan.packets / 2 {
        return Err(Error::Encrypted);
    }
    if scan.clock.is_none() {
        return Err(Error::Damaged(
            "a transport stream without a clock (PCR) does not say when to send what",
        ));
    }
    let missing = "the first packet";
    scan.builder.finish(None).ok_or(Error::Truncated { bytes: source.bytes(), missing })
}

/// Where packets go on after damage.
pub(crate) fn next_packet(source: &mut Source, damaged: u64, layout: Layout) -> Result<u64> {
    for at in damaged + 1..damaged + GARBAGE_BYTES_MAX {
        let bytes = source.up_to(at, layout.stride as usize * PACKETS_TO_KNOW)?;
        if bytes.len() < PACKET_BYTES || layout.are_packets(bytes) {
            return Ok(at);
        }
    }
    Err(Error::Damaged("more than 1 MiB in a row is no transport stream"))
}

struct Scan {
    layout: Layout,
    begin: Begin,
    builder: Builder,
    samples_left: u64,
    clock: Option<Clock>,
    run: Run,
    /// When the run begins, in ticks since the beginning.
    due: u64,
    /// Where tables were that no picture has followed yet.
    tables: Option<u64>,
    packets: u64,
    scrambled_packets: u64,
}

/// The clock of one of the programs.
struct Clock {
    pid: Pid,
    value: u64,
    /// Ticks since the beginning, without cuts.
    elapsed: u64,
    ticks_per_packet: u64,
}

/// Packets since the last clock. They are given times when the next one is known.
#[derive(Default)]
struct Run {
    at: u64,
    packets: u64,
    /// Where in the file decoding can begin.
    syncs: Vec<u64>,
}

impl Scan {
    fn take(&mut self, at: u64, packet: &Packet) -> Result<()> {
        self.packets += 1;
        self.scrambled_packets += u64::from(packet.transport_scrambling_control().is_scrambled());
        let adaptation = packet.adaptation_field();
        let clock = adaptation.as_ref().and_then(|field| field.pcr().ok());
        let sync = match self.begin {
            Begin::AtKeyFrames => {
                let can_begin = adaptation.as_ref().is_some_and(|field| field.random_access_indicator());
                self.key_frame(at, packet, can_begin)
            }
            Begin::AtClocks => clock.as_ref().map(|_| at),
        };
        // What is before this packet belongs to the run that its clock ends.
        self.run.syncs.extend(sync.filter(|sync| (self.run.at..at).contains(sync)));
        if let Some(clock) = clock {
            let is_cut = adaptation.is_some_and(|field| field.discontinuity_indicator());
            self.tick(at, packet.pid(), clock, is_cut)?;
        }
        self.run.syncs.extend(sync.filter(|sync| *sync == at));
        self.run.packets += 1;
        Ok(())
    }

    /// Where to begin for the key frame that begins in this packet: at the tables before it, if there are some.
    fn key_frame(&mut self, at: u64, packet: &Packet, can_begin: bool) -> Option<u64> {
        const IS_PICTURE: std::ops::RangeInclusive<u8> = 0xE0..=0xEF;
        if packet.pid() == PROGRAMS {
            self.tables = self.tables.or(Some(at));
        }
        if !packet.payload_unit_start_indicator() {
            return None;
        }
        match packet.payload() {
            Some([0, 0, 1, stream, ..]) if IS_PICTURE.contains(stream) => {
                let tables = self.tables.take();
                can_begin.then(|| tables.filter(|tables| *tables >= self.run.at).unwrap_or(at))
            }
            _ => None,
        }
    }

    /// A clock ends a run.
    fn tick(&mut self, at: u64, pid: Pid, clock: ClockRef, is_cut: bool) -> Result<()> {
        let value = u64::from(clock) % CLOCK_END;
        let Some(before) = &self.clock else {
            self.end_run(Some(0), at)?;
            self.clock = Some(Clock { pid, value, elapsed: 0, ticks_per_packet: 0 });
            return Ok(());
        };
        if before.pid != pid {
            return Ok(());
        }
        let ticks = (value + CLOCK_END - before.value) % CLOCK_END;
        let (packets, ticks_per_packet) = (self.run.packets, before.ticks_per_packet);
        let (elapsed, ticks_per_packet) = if is_cut || ticks > CLOCK_GAP_MAX {
            (self.due + packets * ticks_per_packet, ticks_per_packet)
        } else {
            (before.elapsed + ticks, ticks / packets.max(1))
        };
        self.end_run(Some(elapsed), at)?;
        self.clock = Some(Clock { pid, value, elapsed, ticks_per_packet });
        Ok(())
    }

    /// Gives times to the packets of the run, which is over at `until`, or when its packets are at the rate of those before.
    fn end_run(&mut self, until: Option<u64>, next_at: u64) -> Result<()> {
        let run = std::mem::replace(&mut self.run, Run { at: next_at, ..Run::default() });
        let ticks_per_packet = self.clock.as_ref().map_or(0, |clock| clock.ticks_per_packet);
        let until = until.unwrap_or(self.due + run.packets * ticks_per_packet).max(self.due);
        let ticks = until - self.due;
        let due_together = (SAMPLE_TICKS * run.packets).checked_div(ticks).unwrap_or(SAMPLE_PACKETS_MAX);
        let packets_max = (due_together / RTP_PACKETS * RTP_PACKETS).clamp(RTP_PACKETS, SAMPLE_PACKETS_MAX);

        let mut syncs = run.syncs.iter().map(|sync| (sync - run.at) / self.layout.stride).peekable();
        let mut packet = 0;
        while packet < run.packets {
            let is_sync = syncs.next_if_eq(&packet).is_some();
            let end = syncs.peek().copied().unwrap_or(run.packets).min(packet + packets_max).min(run.packets);
            let since = u128::from(ticks) * u128::from(packet) / u128::from(run.packets);
            let time = (self.due + since as u64) as i64;
            let bytes = self.layout.bytes(end - packet) as u32;
            let at = run.at + packet * self.layout.stride;
            let entry = Entry { at, bytes, decode: time, presentation: time, is_sync };
            self.builder.push(entry, &mut self.samples_left)?;
            packet = end.max(packet + 1);
        }
        self.due = until;
        Ok(())
    }
}

/// The packets with the list of programs (2.4.4.3).
const PROGRAMS: Pid = mpeg2ts_reader::psi::pat::PAT_PID;
