//! A file backwards, by groups of pictures.
//!
//! Positions count down: what is sent at `t` of a program that runs backwards is seen at `-t` of the file. A group takes as long to
//! send as it lasts, and its samples follow each other as they do forwards:
//!
//! ```text
//!   file       0 ---- group 1 ---- 2 -- group 2 -- 3 ----- group 3 ----- 5
//!   program   -5 ---- group 3 --- -3 -- group 2 - -2 ----- group 1 ----- 0
//! ```

use std::sync::Arc;

use forebay_media::{Group, Media, Sample};
use forebay_rtsp::replay::Frames;

use crate::program::{Choice, Edges, Planned, is_wanted};

/// An iterator over samples in the order of sending.
#[derive(Clone, Debug)]
pub struct Backwards {
    media: Arc<Media>,
    choice: Choice,
    /// What begins no later has no group before it that is there, or that is wanted.
    start_ns: i64,
    until_ns: i64,
    groups: forebay_media::Backwards,
    group: Option<Group>,
    /// By the numbers of the chosen tracks: whether the group has had a sample of it, and when the last one is presented.
    has_begun: Vec<bool>,
    latest_ns: Vec<i64>,
}

impl Backwards {
    pub(crate) fn new(media: Arc<Media>, choice: Choice, position_ns: u64, start_ns: i64) -> Self {
        let mut groups = media.backwards(&choice.tracks, position_ns);
        let until_ns = i64::try_from(choice.until_ns.unwrap_or(0)).unwrap_or(i64::MAX);
        let count = choice.tracks.len();
        Self {
            start_ns,
            until_ns: until_ns.max(start_ns),
            group: groups.next(),
            groups,
            has_begun: vec![false; count],
            latest_ns: vec![i64::MAX; count],
            choice,
            media,
        }
    }

    /// Which pictures were chosen.
    pub(crate) fn frames(&self) -> Frames {
        self.choice.frames
    }

    /// What becomes of a sample of a group; `None` if it is left out.
    fn plan(&mut self, sample: &Sample, span: Span) -> Option<Planned> {
        let codec = &self.media.tracks()[sample.track].codec;
        let sender = self.choice.tracks.iter().position(|one| *one == sample.track)?;
        let since_ns = self.latest_ns[sender].saturating_sub(sample.presentation_ns);
        if !is_wanted(sample, codec, self.choice.frames, since_ns) {
            return None;
        }
        self.latest_ns[sender] = sample.presentation_ns;
        let is_apart = !std::mem::replace(&mut self.has_begun[sender], true);
        // Of key pictures alone a group has one.
        let ends = sample.next_ns.is_none() || matches!(self.choice.frames, Frames::Intra { .. });
        let in_group_ns = sample.decode_ns.clamp(span.begin_ns, span.end_ns).saturating_sub(span.begin_ns);
        Some(Planned {
            file: 0,
            sender: sender as u8,
            at: sample.at.clone(),
            decode_ns: in_group_ns.saturating_sub(span.end_ns),
            ticks: sample.timestamp as u32,
            packing: sample.packing.clone(),
            is_sync: sample.is_sync,
            edges: Edges::default()
                .with(Edges::APART, is_apart)
                .with(Edges::END, ends && span.is_end)
                .with(Edges::LAST, ends && span.is_last),
        })
    }
}

/// Where a group lies.
#[derive(Clone, Copy)]
struct Span {
    begin_ns: i64,
    end_ns: i64,
    /// Whether no other group is there, and whether none is wanted.
    is_end: bool,
    is_last: bool,
}

impl Iterator for Backwards {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            let group = self.group.as_mut()?;
            let is_end = group.is_first || group.begin_ns <= self.start_ns;
            let is_last = is_end || group.begin_ns <= self.until_ns;
            let span = Span { begin_ns: group.begin_ns, end_ns: group.end_ns, is_end, is_last };
            let Some(sample) = group.plan.next() else {
                self.group = if is_last { None } else { self.groups.next() };
                self.has_begun.fill(false);
                continue;
            };
            if let Some(planned) = self.plan(&sample, span) {
                return Some(planned);
            }
        }
    }
}
