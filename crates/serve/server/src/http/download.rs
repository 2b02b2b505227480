//! A segment on its way to a client: one buffer is filled while another one is sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use forebay_hls::{Film, Fragment, Piece, Segment};
use forebay_streaming::buffer::Part;
use forebay_streaming::depth::Share;

use super::ranges::Wanted;
use super::response::{MP4, Response};
use crate::catalog::Opened;
use crate::connection::Connection;

/// What the kernel gets in one call.
const SEND_BYTES: usize = 128 << 10;

/// What of a segment is sent. How long a segment is shows when its samples have been read, since some are written anew. So a range is
/// read twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// A range, and how long the segment is as far as it has been read.
    Measured(Wanted, u64),
    /// Bytes of so many, and where the next buffer begins.
    Part {
        range: Range<u64>,
        length: u64,
        at: u64,
    },
}

/// A segment that is being sent.
pub(super) struct Download {
    pub film: Arc<Film>,
    pub opened: Arc<Opened>,
    pub tracks: Vec<usize>,
    segment: Segment,
    /// What of it is in no buffer yet.
    pub rest: Peekable<Segment>,
    pub share: Share,
    /// What of it the client wants.
    pub extent: Extent,
    /// Whether the client knows chunks.
    pub knows_chunks: bool,
    pub is_head_sent: bool,
    /// What of the body has been sent.
    pub sent_bytes: u64,
    /// Its number among all downloads, while a buffer is being filled.
    pub filling: Option<u64>,
    /// Whether it waits for memory.
    pub is_waiting: bool,
    ends: Vec<Option<i64>>,
    /// When the samples after the buffer that is being filled are decoded.
    next_ns: Vec<Option<i64>>,
    sequence: u32,
    filled: VecDeque<Filled>,
}

/// A fragment, and the buffer that its samples are in.
struct Filled {
    parts: Vec<Part>,
    fragment: Option<Fragment>,
    /// What stands before and after it.
    before: String,
    after: &'static str,
    /// How far it has been sent: pieces, and bytes of the next one.
    piece: usize,
    at: usize,
}

impl Download {
    pub fn new(
        film: Arc<Film>,
        opened: Arc<Opened>,
        tracks: Vec<usize>,
        segment: Segment,
        share: Share,
        extent: Extent,
        knows_chunks: bool,
    ) -> Self {
        Self {
            ends: segment.end_decodes(),
            next_ns: Vec::new(),
            film,
            opened,
            tracks,
            rest: segment.clone().peekable(),
            segment,
            share,
            extent,
            knows_chunks,
            is_head_sent: false,
            sent_bytes: 0,
            filling: None,
            is_waiting: false,
            sequence: 0,
            filled: VecDeque::new(),
        }
    }

    /// Whether chunks tell where it ends; else its length does, or the end of the connection.
    fn is_chunked(&self) -> bool {
        self.knows_chunks && self.extent == Extent::Whole
    }

    /// Whether the client sees where it ends.
    pub fn tells_its_end(&self) -> bool {
        self.knows_chunks || self.extent != Extent::Whole
    }

    /// The status of the response.
    pub fn status(&self) -> u16 {
        if matches!(self.extent, Extent::Part { .. }) { 206 } else { 200 }
    }

    /// What comes before it.
    pub fn head(&self, keeps_alive: bool) -> String {
        let (response, bytes) = match &self.extent {
            Extent::Part { range, length, .. } => {
                (Response::new(MP4, "").of_range(range, *length), Some(range.end - range.start))
            }
            _ => (whole(self.knows_chunks), None),
        };
        response.head(None, bytes, keeps_alive && self.tells_its_end())
    }

    /// Whether something of it is in no buffer yet.
    fn has_rest(&mut self) -> bool {
        let has_all = matches!(&self.extent, Extent::Part { range, at, .. } if *at >= range.end);
        !has_all && self.rest.peek().is_some()
    }

    /// Whether another buffer is to be filled, where there may be so many.
    pub fn wants_buffer(&mut self, buffers: usize) -> bool {
        let has_room = self.filled.len() + usize::from(self.filling.is_some()) < buffers;
        has_room && !self.is_waiting && self.filling.is_none() && self.has_rest()
    }

    /// Whether it has been sent.
    pub fn is_over(&mut self) -> bool {
        self.filling.is_none() && self.filled.is_empty() && !self.has_rest()
    }

    /// A buffer is going to be filled with what was before `rest`.
    pub fn begin_filling(&mut self, number: u64) {
        self.filling = Some(number);
        self.next_ns = Segment::next_decodes(&self.rest, &self.ends);
    }

    /// It has been filled. Returns the parts that have nothing to be sent.
    pub fn put_filled(&mut self, parts: Vec<Part>) -> Vec<Part> {
        self.filling = None;
        self.sequence += 1;
        let mut fragment = self.film.fragment(&self.tracks, self.sequence, &parts, &self.next_ns);
        let bytes = fragment.as_ref().map_or(0, |fragment| fragment.bytes);
        match &mut self.extent {
            Extent::Whole => {}
            Extent::Measured(_, length) => {
                *length += bytes as u64;
                return parts;
            }
            Extent::Part { range, at, .. } => {
                let within = |place: u64| place.saturating_sub(*at).min(bytes as u64) as usize;
                let own = within(range.start)..within(range.end);
                *at += bytes as u64;
                if own.is_empty() {
                    return parts;
                }
                fragment.iter_mut().for_each(|fragment| fragment.cut(own.clone()));
            }
        }
        let is_last = self.rest.peek().is_none();
        let (before, after) = match (self.is_chunked(), bytes, is_last) {
            (false, ..) => (String::new(), ""),
            (true, 0, true) => (String::new(), "0\r\n\r\n"),
            (true, 0, false) => (String::new(), ""),
            (true, _, true) => (format!("{bytes:x}\r\n"), "\r\n0\r\n\r\n"),
            (true, _, false) => (format!("{bytes:x}\r\n"), "\r\n"),
        };
        self.filled.push_back(Filled { parts, fragment, before, after, piece: 0, at: 0 });
        Vec::new()
    }

    /// Goes on while a range is measured: `None` if none is, else whether there is something to be read, or how long a segment is
    /// that the range does not lie in.
    pub fn measured(&mut self) -> Option<Result<(), u64>> {
        let Extent::Measured(wanted, length) = self.extent else { return None };
        if self.has_rest() {
            return Some(Ok(()));
        }
        let Some(range) = wanted.of_length(length) else { return Some(Err(length)) };
        self.extent = Extent::Part { range, length, at: 0 };
        (self.rest, self.sequence) = (self.segment.clone().peekable(), 0);
        Some(Ok(()))
    }

    /// Sends as much as the connection takes now. Returns whether that was something, and the parts of buffers that have been
    /// sent.
    pub fn send(&mut self, to: &mut Connection) -> (bool, Vec<Part>) {
        let (mut has_sent, mut over) = (false, Vec::new());
        while let Some(filled) = self.filled.front_mut() {
            if to.backlog_bytes() > 0 || to.is_broken {
                break;
            }
            has_sent = true;
            let (is_last, bytes) = filled.send(to);
            self.sent_bytes += bytes;
            if is_last {
                over.extend(self.filled.pop_front().into_iter().flat_map(|filled| filled.parts));
            }
        }
        (has_sent, over)
    }

    /// All that it has of memory.
    pub fn into_parts(self) -> Vec<Part> {
        self.filled.into_iter().flat_map(|filled| filled.parts).collect()
    }
}

/// A response with a whole segment.
pub(super) fn whole(knows_chunks: bool) -> Response {
    let response = Response::new(MP4, "").with("Accept-Ranges", "bytes");
    if knows_chunks { response.with("Transfer-Encoding", "chunked") } else { response }
}

impl Filled {
    /// A piece by its number; `None` after the last one.
    fn slice(&self, number: usize) -> Option<&[u8]> {
        let pieces = self.fragment.as_ref().map_or(&[][..], |fragment| &fragment.pieces);
        if number == 0 {
            return Some(self.before.as_bytes());
        }
        match (pieces.get(number - 1), &self.fragment) {
            (Some(Piece::Own(at)), Some(fragment)) => Some(&fragment.own[at.clone()]),
            (Some(Piece::Part(part, at)), _) => Some(&self.parts[*part].bytes()[at.clone()]),
            _ => (number == pieces.len() + 1).then_some(self.after.as_bytes()),
        }
    }

    /// Sends some of it; returns whether that was the last of it, and how many bytes of the fragment were in it.
    fn send(&mut self, to: &mut Connection) -> (bool, u64) {
        let (mut slices, mut bytes, mut own_bytes) = (Vec::new(), 0, 0);
        let last = self.fragment.as_ref().map_or(0, |fragment| fragment.pieces.len());
        let (mut piece, mut at) = (self.piece, self.at);
        while bytes < SEND_BYTES
            && let Some(slice) = self.slice(piece)
        {
            let slice = &slice[at..];
            let count = slice.len().min(SEND_BYTES - bytes);
            slices.push(IoSlice::new(&slice[..count]));
            bytes += count;
            if (1..=last).contains(&piece) {
                own_bytes += count as u64;
            }
            (piece, at) = if count == slice.len() { (piece + 1, 0) } else { (piece, at + count) };
        }
        to.send_slices(&mut slices);
        (self.piece, self.at) = (piece, at);
        (self.slice(piece).is_none(), own_bytes)
    }
}
