//! Metadata in KLV: a unit a PES packet (SMPTE ST 1402).

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use super::times::{CLOCK_RATE, Pes};
use super::{Closing, Piece};
use crate::error::{Error, Result};
use crate::index::{Builder, Entry};
use crate::joints::Times;

/// Before a unit that has a header of its own (ISO/IEC 13818-1, 2.12.4).
const CELL_HEADER_BYTES: usize = 5;

pub(super) struct Units {
    has_cells: bool,
    /// How much of a header is still to come.
    header_left: usize,
    unit: Option<(u64, u64)>,
    time: Option<i64>,
    builder: Builder,
}

impl Units {
    pub fn new(has_cells: bool) -> Self {
        Self { has_cells, header_left: 0, unit: None, time: None, builder: Builder::default() }
    }

    pub fn begin(&mut self, header: Option<Pes>, times: &mut Times, samples_left: &mut u64) -> Result<()> {
        self.end(samples_left)?;
        self.header_left = if self.has_cells { CELL_HEADER_BYTES } else { 0 };
        let told = header.map(|pes| times.go_on(pes.presentation as i64, self.time));
        self.time = told.or(self.time).or(times.now());
        Ok(())
    }

    pub fn take(&mut self, piece: Piece) {
        if self.time.is_none() {
            return;
        }
        let skipped = self.header_left.min(piece.bytes.len());
        self.header_left -= skipped;
        let (begin, end) = (piece.at + skipped as u64, piece.at + piece.bytes.len() as u64);
        if begin < end {
            self.unit = Some((self.unit.map_or(begin, |(begin, _)| begin), end));
        }
    }

    pub fn end(&mut self, samples_left: &mut u64) -> Result<()> {
        if let (Some((at, end)), Some(time)) = (self.unit.take(), self.time) {
            let bytes = u32::try_from(end - at).map_err(|_| Error::Damaged("a unit of more than 4 GiB"))?;
            let entry = Entry { at, bytes, decode: time, presentation: time, is_sync: true };
            self.builder.push(entry, samples_left)?;
        }
        Ok(())
    }

    /// How all units so far are one track.
    pub fn closing(&self) -> Option<Closing> {
        let coding = (Codec::Klv, Format::Klv);
        Some(Closing { coding, rate: CLOCK_RATE, lasts: None, samples: self.builder.clone() })
    }
}
