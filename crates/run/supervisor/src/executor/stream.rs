//! Pieces of the mapped file that is being read ahead, handed out as jobs. The supervisor chooses them (`storms`).

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use forebay_policy::storm::PIECE_BYTES;
use forebay_protocol::layout::{LEASES_UNKNOWN, STREAM_AREAS, STREAM_PATH_BYTES};

use super::{Done, Job, Origin, Wanted};
use crate::{
    channel::Channel,
    devices::{Ticket, limit_of},
};

/// Jobs of a stream come after all others.
const NUMBER_FIRST: u64 = 3 << 62;

/// The file that is being read ahead.
pub struct Stream {
    channel: Arc<Channel>,
    file: Mutex<Option<File>>,
    /// Pieces that have been taken, and are neither done nor given up.
    under_way: Arc<AtomicU32>,
}

#[derive(Clone)]
struct File {
    number: u32,
    path: Arc<[u8]>,
    process: u32,
    inode: u64,
}

impl Stream {
    /// What `channel` names.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, file: Mutex::default(), under_way: Arc::default() }
    }

    /// The next piece.
    pub fn take(&self) -> Option<Job> {
        if !self.has_ready() {
            return None;
        }
        let stream = &self.channel.header().stream;
        let File { path, process, inode, .. } = self.file()?;
        let granted = stream.granted.load(Acquire);
        let next = |position: u64| (position < granted).then(|| position.saturating_add(PIECE_BYTES));
        let position = stream.position.fetch_update(AcqRel, Acquire, next).ok()?;
        let area_bytes = stream.area_bytes.load(Relaxed).max(PIECE_BYTES);
        let place = usize::try_from(position / area_bytes).ok().filter(|place| *place < STREAM_AREAS)?;
        let area = u64::from(stream.order[place].load(Relaxed));
        let offset = area.saturating_mul(area_bytes).saturating_add(position % area_bytes);
        self.under_way.fetch_add(1, AcqRel);
        let under_way = Arc::clone(&self.under_way);
        Some(Job {
            origin: Origin::Stream { process, inode },
            number: NUMBER_FIRST + position / PIECE_BYTES,
            path,
            wanted: Wanted::Data { offset, length: PIECE_BYTES, expected: None },
            open: None,
            ticket: Ticket::new(move || {
                under_way.fetch_sub(1, AcqRel);
            }),
        })
    }

    /// Whether there is one. No more are taken than the device likes, so that threads are left for hints.
    pub fn has_ready(&self) -> bool {
        let header = self.channel.header();
        let stream = &header.stream;
        stream.position.load(Acquire) < stream.granted.load(Acquire)
            && header.leases.load(Acquire) != LEASES_UNKNOWN
            && self.under_way.load(Acquire) < self.limit()
    }

    /// A piece is done.
    pub fn on_done(&self, done: Done) {
        let read = if done.waited.is_some() { done.bytes } else { 0 };
        self.channel.header().stream.bytes.fetch_add(read, Relaxed);
    }

    fn limit(&self) -> u32 {
        let header = self.channel.header();
        let device = header.stream.device.load(Relaxed);
        limit_of(header, device).limit()
    }

    /// What untrusted memory names; `None` where that makes no sense, or is just changing.
    fn file(&self) -> Option<File> {
        let stream = &self.channel.header().stream;
        let number = stream.number.load(Acquire);
        let mut known = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = known.as_ref().filter(|file| file.number == number) {
            return Some(file.clone());
        }
        let length = usize::try_from(stream.path_len.load(Relaxed)).ok();
        let length = length.filter(|length| *length < STREAM_PATH_BYTES)?;
        let path: Arc<[u8]> = stream.path[..length].iter().map(|byte| byte.load(Relaxed)).collect();
        let process = stream.process.load(Relaxed);
        let inode = stream.inode.load(Relaxed);
        let is_named = number != 0 && stream.number.load(Acquire) == number;
        if !is_named || path.first() != Some(&b'/') || path.contains(&0) {
            return None;
        }
        *known = Some(File { number, path, process, inode });
        known.clone()
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::inflight::InflightLimit;
    use forebay_protocol::layout::LEASES_NONE;

    use super::*;

    /// A stream of areas of a mebibyte, the third and then the first, of which so much is granted.
    fn stream(granted: u64) -> (Arc<Channel>, Stream) {
        let channel = Arc::new(Channel::create(true).unwrap());
        let header = channel.header();
        header.leases.store(LEASES_NONE, Relaxed);
        let path = b"/data";
        for (to, from) in header.stream.path.iter().zip(path) {
            to.store(*from, Relaxed);
        }
        header.stream.path_len.store(path.len() as u32, Relaxed);
        header.stream.area_bytes.store(1 << 20, Relaxed);
        header.stream.order[0].store(2, Relaxed);
        header.stream.number.store(1, Relaxed);
        header.stream.granted.store(granted, Relaxed);
        let stream = Stream::new(channel.clone());
        (channel, stream)
    }

    #[test]
    fn pieces_come_in_the_order_of_the_areas_up_to_what_is_granted() {
        let (channel, stream) = stream((1 << 20) + PIECE_BYTES);
        let mut offsets = Vec::new();
        while let Some(job) = stream.take() {
            let Wanted::Data { offset, length, .. } = job.wanted else { panic!("{:?}", job.wanted) };
            assert_eq!((&*job.path, length), (&b"/data"[..], PIECE_BYTES));
            offsets.push(offset / PIECE_BYTES);
            job.ticket.finish();
        }
        assert_eq!(offsets, [16, 17, 18, 19, 20, 21, 22, 23, 0]);
        assert!(!stream.has_ready());
        channel.header().stream.granted.store(u64::MAX, Relaxed);
        channel.header().stream.position.store(u64::MAX - 1, Relaxed);
        assert!(stream.take().is_none(), "there is no such area");
    }

    #[test]
    fn no_more_pieces_are_under_way_than_the_device_likes() {
        let (_channel, stream) = stream(64 << 20);
        let jobs: Vec<Job> = std::iter::from_fn(|| stream.take()).collect();
        assert_eq!(jobs.len(), InflightLimit::new().limit() as usize);
        jobs[0].ticket.finish();
        assert!(stream.take().is_some());
    }

    #[test]
    fn a_path_that_makes_no_sense_is_no_file() {
        let (channel, stream) = stream(PIECE_BYTES);
        channel.header().stream.path[0].store(b'x', Relaxed);
        assert!(stream.take().is_none());
        channel.header().stream.path_len.store(u32::MAX, Relaxed);
        assert!(stream.take().is_none());
    }
}
