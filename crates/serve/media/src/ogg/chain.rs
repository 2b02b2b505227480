//! Recordings that follow each other in a file.
//!
//! ```text
//!   recording   | 1: 0 ...... 10 s | 2: 0 ... 5 s | 3, coded otherwise | 4: 0 ... 7 s |
//!   track       | 0 ............ 10 | ......... 15 |                    | ......... 22 |
//! ```
//!
//! What is heard first of a recording is heard when the one before has ended.

use std::ops::Range;
use std::sync::Arc;

use super::Kind;
use super::headers::{Lasting, Served, Taken};
use crate::error::{Error, Result};
use crate::index::{Builder, Entry};
use crate::media::{Carriage, Track};
use crate::time::TimeBase;

/// The tracks of a chain, and the recording at hand.
pub(super) struct Chain {
    links: Vec<Link>,
    /// The number of the recording, from 1 on; how many of its streams have been joined to tracks; whether one of them was not.
    recording: u64,
    joined: usize,
    has_other: bool,
    /// Recordings with streams that are coded otherwise than the tracks, and what is said of the first of them.
    others: u64,
    first_other: String,
    left_out: Vec<String>,
    pub samples_left: u64,
}

/// A track, with the streams that are joined to it.
pub(super) struct Link {
    served: Served,
    time_base: TimeBase,
    /// How much of the beginning is there to be decoded only, in ticks; `None` for the first packet of Vorbis.
    lead_in: Option<i64>,
    /// From where in the file on it is pages of which number.
    serials: Vec<(u64, u32)>,
    builder: Builder,
    /// What is added to the times of the recording at hand.
    offset: i64,
    /// When what has come ends, and when the recordings before did.
    end: i64,
    joint: Option<i64>,
}

impl Chain {
    pub fn new(samples_left: u64) -> Self {
        Self {
            links: Vec::new(),
            recording: 1,
            joined: 0,
            has_other: false,
            others: 0,
            first_other: String::new(),
            left_out: Vec::new(),
            samples_left,
        }
    }

    /// What is not served.
    pub fn leave_out(&mut self, phrase: impl Into<String>) {
        // Chains may be long.
        if self.is_first() {
            self.left_out.push(phrase.into());
        }
    }

    fn is_first(&self) -> bool {
        self.links.iter().all(|link| link.joint.is_none())
    }

    /// Another recording follows. All tracks go on when the longest of them has ended.
    pub fn begin_recording(&mut self) {
        (self.recording, self.joined, self.has_other) = (self.recording + 1, 0, false);
        self.links.retain(|link| !link.builder.is_empty());
        let ends_ns = self.links.iter().map(|link| link.time_base.nanoseconds(link.end));
        let Some(joint_ns) = ends_ns.max() else { return };
        for link in &mut self.links {
            let is_longest = link.time_base.nanoseconds(link.end) == joint_ns;
            link.joint = Some(if is_longest { link.end } else { link.time_base.ticks(joint_ns) });
        }
    }

    /// Joins a stream to a track: of the first recording to one of its own, and of others to the next one if that is coded alike.
    pub fn join(&mut self, taken: Taken, at: u64, serial: u32) -> Kind {
        let (served, lasting) = match taken {
            Taken::Served(served, lasting) => (served, lasting),
            Taken::Other(phrase) => {
                self.leave_out(phrase);
                return Kind::LeftOut;
            }
        };
        let track = self.joined;
        self.joined += 1;
        if self.is_first() {
            let Some(time_base) = TimeBase::per_second(served.rate) else { return Kind::LeftOut };
            let lead_in = match lasting {
                Lasting::Opus { lead_in } => Some(lead_in),
                Lasting::Vorbis(_) => None,
            };
            let (builder, serials) = (Builder::default(), vec![(at, serial)]);
            let link = Link { served, time_base, lead_in, serials, builder, offset: 0, end: 0, joint: None };
            self.links.push(link);
            return Kind::Served { track, has_begun: false, lasting };
        }
        let Some(link) = self.links.get_mut(track).filter(|link| link.served.key == served.key) else {
            if !std::mem::replace(&mut self.has_other, true) {
                self.others += 1;
            }
            if self.others == 1 {
                let (number, name) = (self.recording, &served.name);
                self.first_other = format!("recording {number} is {name} and coded otherwise than the first");
            }
            return Kind::LeftOut;
        };
        link.serials.push((at, serial));
        Kind::Served { track, has_begun: false, lasting }
    }

    /// What is heard first of the recording at hand has this time there.
    pub fn begin(&mut self, track: usize, heard: i64) {
        let link = &mut self.links[track];
        link.offset = link.joint.map_or(0, |joint| joint.saturating_sub(heard));
    }

    /// The next packet of a track, from when to when it lasts in its recording.
    pub fn push(&mut self, track: usize, at: Range<u64>, lasts: Range<i64>) -> Result<()> {
        let link = &mut self.links[track];
        let bytes =
            u32::try_from(at.end - at.start).map_err(|_| Error::Damaged("a packet is larger than 4 GiB"))?;
        let decode = lasts.start.saturating_add(link.offset).max(link.builder.last_decode());
        let entry = Entry { at: at.start, bytes, decode, presentation: decode, is_sync: true };
        link.builder.push(entry, &mut self.samples_left)?;
        link.end = lasts.end.saturating_add(link.offset).max(decode);
        Ok(())
    }

    /// The tracks, and what is not served.
    pub fn end(mut self) -> (Vec<Link>, Vec<String>) {
        if self.others > 0 {
            let Self { others, recording: all, first_other, .. } = &self;
            let phrase =
                format!("{others} of its {all} recordings, as {first_other}: encode all alike to play all");
            self.left_out.push(phrase);
        }
        (self.links, self.left_out)
    }
}

impl Link {
    /// The track; `None` without samples. `runs` are where pages begin that come amid a packet.
    pub fn end(self, runs: &Arc<[u64]>) -> Option<Track> {
        let last_step = self.end.saturating_sub(self.builder.last_decode());
        let mut index = self.builder.finish(Some(last_step))?;
        // The first packet of Vorbis gives no sound, and no decoder begins with the second one.
        index.shift(self.lead_in.map_or_else(|| -index.begin().min(0), |lead_in| -lead_in));
        let Served { codec, format, .. } = self.served;
        let carriage = Carriage::Pages { serials: self.serials, runs: runs.clone() };
        Some(Track::new(codec, format, None, self.time_base, index).carried(carriage))
    }
}
