//! A film backwards: groups of pictures, the last one first. Pictures within a group stay in their order, or no decoder would do.
//!
//! ```text
//!   film       I P P P | I P P | I P P P P         a group begins where decoding can begin
//!   backwards  I P P P P | I P P | I P P P
//! ```
//!
//! The samples of other tracks go with the group in whose time they are decoded. So each sample is in one group.

use std::sync::Arc;

use crate::index::Cursor;
use crate::media::{Media, Track};
use crate::plan::Plan;

/// An iterator over groups.
#[derive(Clone, Debug)]
pub struct Backwards {
    media: Arc<Media>,
    /// By the numbers of the chosen tracks: the number of the first sample that is in a group already.
    tracks: Vec<(usize, u64)>,
    /// The track, among those, that tells where groups begin; and where the next one does.
    main: usize,
    begin: Option<Cursor>,
    /// When that group ends.
    end_ns: i64,
}

/// A group of pictures, with what else is decoded in its time.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its samples, in the order of decoding.
    pub plan: Plan,
    /// When it begins and ends. Samples that come before the first group of a film or after the last one are in these.
    pub begin_ns: i64,
    /// See above.
    pub end_ns: i64,
    /// Whether nothing comes before it in the film.
    pub is_first: bool,
}

impl Backwards {
    /// From the group that is seen at `position_ns`, or the last one before.
    pub(crate) fn new(media: Arc<Media>, tracks: &[usize], position_ns: u64) -> Self {
        let known = tracks.iter().filter(|track| **track < media.tracks().len());
        let mut tracks: Vec<(usize, u64)> = known.map(|track| (*track, u64::MAX)).collect();
        let of = |number: &(usize, u64)| &media.tracks()[number.0];
        let find = |is_it: fn(&Track) -> bool| tracks.iter().position(|number| is_it(of(number)));
        let main = find(|track| track.has_groups());
        let main = main.or_else(|| find(|track| track.codec.is_pictures())).unwrap_or(0);
        let mut end_ns = i64::try_from(media.duration_ns()).unwrap_or(i64::MAX);
        let Some(main_track) = tracks.get(main).map(of) else {
            return Self { tracks, main, begin: None, end_ns, media };
        };
        let begin = main_track.cursor_at(i64::try_from(position_ns).unwrap_or(i64::MAX));
        if let Some(end) = main_track.index().sync_after(begin.number() + 1) {
            end_ns = decode_ns(main_track, end);
            for (number, (track, before)) in tracks.iter_mut().enumerate() {
                let of_main = (number == main).then_some(end);
                *before = first_number(of_main.or_else(|| from(&media.tracks()[*track], end_ns)));
            }
        }
        Self { tracks, main, begin: Some(begin), end_ns, media }
    }
}

impl Iterator for Backwards {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let begin = self.begin.take()?;
        let Self { media, tracks, main, .. } = self;
        let main_track = &media.tracks()[tracks[*main].0];
        let begin_ns = decode_ns(main_track, begin);
        self.begin = main_track.index().sync_before(begin.number());
        let is_first = self.begin.is_none();
        let mut parts = Vec::with_capacity(tracks.len());
        for (number, (track, before)) in tracks.iter_mut().enumerate() {
            let one = &media.tracks()[*track];
            let found = match (number == *main, is_first) {
                (true, _) => Some(begin),
                (false, true) => Some(one.index().sync_from(i64::MIN).unwrap_or_default()),
                (false, false) => from(one, begin_ns),
            };
            let end = *before;
            if let Some(found) = found.filter(|found| found.number() < end) {
                parts.push((*track, found, end));
                *before = found.number();
            }
        }
        let end_ns = std::mem::replace(&mut self.end_ns, begin_ns).max(begin_ns);
        let plan = Plan::of_parts(self.media.clone(), parts.into_iter());
        Some(Group { plan, begin_ns, end_ns, is_first })
    }
}

/// The first sample of a track from a time on, of those that decoding can begin at.
fn from(track: &Track, decode_ns: i64) -> Option<Cursor> {
    track.index().sync_from(track.time_base().ticks(decode_ns))
}

fn first_number(cursor: Option<Cursor>) -> u64 {
    cursor.map_or(u64::MAX, Cursor::number)
}

fn decode_ns(track: &Track, mut cursor: Cursor) -> i64 {
    track.index().next(&mut cursor).map_or(0, |entry| track.time_base().nanoseconds(entry.decode))
}

#[cfg(test)]
mod tests {
    use forebay_rtsp::packetise::Format;
    use forebay_rtsp::presentation::Codec;
    use proptest::prelude::*;

    use super::*;
    use crate::index::{Builder, Entry, SAMPLES_MAX};
    use crate::media::Found;
    use crate::plan::Sample;
    use crate::time::TimeBase;

    /// A track of samples so many milliseconds apart, with whether decoding can begin there.
    fn track(samples: &[bool], step_ms: i64, codec: Codec, format: Format) -> Track {
        let (mut builder, mut left) = (Builder::default(), SAMPLES_MAX);
        for (number, is_sync) in (0..).zip(samples) {
            let time = number * step_ms;
            let entry =
                Entry { at: number as u64, bytes: 1, decode: time, presentation: time, is_sync: *is_sync };
            builder.push(entry, &mut left).expect("within bounds");
        }
        let index = builder.finish(None).expect("samples");
        Track::new(codec, format, None, TimeBase::per_second(1000).expect("ticks"), index)
    }

    proptest! {
        #[test]
        fn groups_are_whole_and_in_their_order_and_all_samples_are_in_one(
            groups in prop::collection::vec(1..90_usize, 1..12),
            sound in 1..2000_usize,
            step_ms in 1..70_i64,
            position_ms in 0..70_000_u64,
        ) {
            let pictures: Vec<bool> = groups.iter().flat_map(|count| (0..*count).map(|number| number == 0)).collect();
            let tracks = vec![
                track(&vec![true; sound], step_ms, Codec::Opus { channels: 2 }, Format::Opus),
                track(&pictures, 40, Codec::Mpeg4 { config: vec![] }, Format::Mpeg4),
            ];
            let media = Arc::new(Media::new(Found { tracks, ..Found::default() }).expect("tracks"));
            let position_ns = position_ms * 1_000_000;
            let got: Vec<Group> = media.backwards(&[0, 1], position_ns).collect();
            prop_assert_eq!(got.iter().filter(|group| group.is_first).count(), 1);
            prop_assert!(got.iter().rev().is_sorted_by_key(|group| group.begin_ns));
            prop_assert!(got.windows(2).all(|two| two[0].begin_ns == two[1].end_ns));
            let samples: Vec<Vec<Sample>> = got.iter().map(|group| group.plan.clone().collect()).collect();
            let mut expected = pictures.chunk_by(|_, is_sync| !is_sync).map(<[bool]>::len).collect::<Vec<_>>();
            expected.truncate(got.len());
            expected.reverse();
            let of_group = |samples: &Vec<Sample>| samples.iter().filter(|one| one.track == 1).count();
            prop_assert_eq!(samples.iter().map(of_group).collect::<Vec<_>>(), expected);
            for group in &samples {
                prop_assert!(group.is_sorted_by_key(|one| one.decode_ns));
                prop_assert!(group.iter().find(|one| one.track == 1).is_some_and(|one| one.is_sync));
            }
            // All that comes before the end of the group that is seen at the position, once.
            let end_ns = if got[0].end_ns < media.duration_ns() as i64 { got[0].end_ns } else { i64::MAX };
            let forwards = media.plan(&[0, 1], 0).filter(|one| one.decode_ns < end_ns);
            let key = |one: &Sample| (one.track, one.at.start);
            let (mut all, mut expected): (Vec<_>, Vec<_>) =
                (samples.iter().flatten().map(key).collect(), forwards.map(|one| key(&one)).collect());
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
