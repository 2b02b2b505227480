//! A file that is read from end to end while clients play what has been found, and followed while it grows.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_media::{Error, Growing, Media, Reading, Stage};
use forebay_rtsp::message::Status;

use crate::catalog::{Catalog, Failure, unreadable};
use crate::clock;
use crate::indexed::{Identity, Indexed, Subject};
use crate::patience::{Patience, Patient};

/// How much is read in one turn, and before the first samples are given out.
const TURN_BYTES: u64 = 32 << 20;
const FIRST_BYTES: u64 = 4 << 20;
/// An index is given out again when this part of what has been read is new.
const NEW_PART: u64 = 5;
/// How often a file that has ended is asked for more.
const LOOK: Duration = Duration::from_millis(250);
/// How long the first client of a file that was written a moment ago waits for a sign that the file grows.
const SIGN: Duration = Duration::from_secs(1);
/// A file that has not been written for so long is complete: one that was seen to grow, and another one.
const QUIET_RECORDING_NS: i128 = 15_000_000_000;
const QUIET_NS: i128 = 5_000_000_000;
/// How long a file is followed that no session plays.
const UNUSED: Duration = Duration::from_secs(5);

/// A pass through a file.
pub(crate) struct Pass {
    path: String,
    file: File,
    subject: Subject,
    reading: Reading,
    indexed: Option<Arc<Indexed>>,
    /// How far the index reached that was given out last.
    given_at: u64,
    /// The file as it was last seen, and since when its end has been known.
    seen: Identity,
    ended: Option<Instant>,
    is_recorded: bool,
    used: Instant,
}

/// What is to be done next for a file.
pub(crate) enum Next {
    /// Another turn, after so long.
    Turn(Duration),
    /// Nothing: all is known.
    Known(Arc<Indexed>),
}

/// Whether a file was written so short a time ago that more may come.
pub(crate) fn is_recent(identity: &Identity) -> bool {
    quiet_ns(identity) < QUIET_NS
}

/// For how long a file has not been written.
fn quiet_ns(identity: &Identity) -> i128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as i128 - identity.modified_ns
}

impl Pass {
    pub fn new(path: String, file: File, subject: Subject, reading: Reading) -> Self {
        Self {
            path,
            file,
            subject,
            reading,
            indexed: None,
            given_at: 0,
            seen: subject.identity,
            ended: None,
            is_recorded: false,
            used: Instant::now(),
        }
    }

    /// What clients can play, if there is enough of it.
    pub fn given_out(&self) -> Option<&Arc<Indexed>> {
        self.indexed.as_ref()
    }

    fn is_given_out(&self) -> bool {
        self.indexed.is_some()
    }

    /// Reads on for a while.
    pub fn turn(&mut self, catalog: &Catalog) -> Result<Next, Failure> {
        let result = self.read_on(catalog);
        if let (Err(_), Some(growing)) = (&result, self.growing()) {
            // What has been found is played to its end.
            growing.set_stage(Stage::Over);
        }
        result
    }

    fn growing(&self) -> Option<&Arc<Growing>> {
        self.indexed.as_ref()?.growing.as_ref()
    }

    fn read_on(&mut self, catalog: &Catalog) -> Result<Next, Failure> {
        let failed = |pass: &Self, error: Error| catalog.failure(&pass.path, pass.subject, error);
        let bytes = if self.is_given_out() { TURN_BYTES } else { FIRST_BYTES };
        let patient = Patient::new(&self.file, Patience::Endless, &catalog.gate);
        let has_ended = self.reading.go_on(&patient, bytes).map_err(|error| failed(self, error))?;
        if !has_ended {
            if self.reading.at() - self.given_at >= self.given_at / NEW_PART {
                self.give_out(catalog, Stage::Behind)?;
            }
            return Ok(Next::Turn(Duration::ZERO));
        }
        let now = Identity::of(&self.file).map_err(|error| unreadable(&self.path, &error))?;
        if now.bytes > self.seen.bytes {
            self.is_recorded = true;
            self.growing().into_iter().for_each(|growing| growing.set_recorded());
        }
        self.look_whether_spoilt()?;
        let has_changed = std::mem::replace(&mut self.seen, now) != now;
        let quiet_max = if self.is_recorded { QUIET_RECORDING_NS } else { QUIET_NS };
        let patient = Patient::new(&self.file, Patience::Endless, &catalog.gate);
        let is_closed = self.reading.is_closed(&patient).map_err(|error| failed(self, error))?;
        if is_closed || quiet_ns(&now) >= quiet_max || self.is_unused() {
            return self.give_out_all(catalog).map(Next::Known);
        }
        let ended = *self.ended.get_or_insert_with(Instant::now);
        if self.is_given_out() || self.is_recorded || ended.elapsed() >= SIGN {
            self.give_out(catalog, Stage::Following)?;
        }
        Ok(Next::Turn(if has_changed { Duration::ZERO } else { LOOK }))
    }

    /// Fails if another file has been written over the one that was found: sessions that wait for more of it read nothing that would
    /// tell them.
    fn look_whether_spoilt(&self) -> Result<(), Failure> {
        let Some(indexed) = &self.indexed else { return Ok(()) };
        let is_spoilt = indexed.is_spoilt(clock::now_ns()).map_err(|error| unreadable(&self.path, &error))?;
        if !is_spoilt {
            return Ok(());
        }
        let sentence = format!("{}: it was written anew while it was followed", self.path);
        Err(Failure { status: Status::InternalServerError, sentence })
    }

    /// Whether no session has had the index for a while.
    fn is_unused(&mut self) -> bool {
        let Some(indexed) = &self.indexed else { return false };
        if Arc::strong_count(indexed) > 1 {
            self.used = Instant::now();
        }
        self.used.elapsed() > UNUSED
    }

    /// Has clients play what has been found so far, if that is enough to begin with.
    fn give_out(&mut self, catalog: &Catalog, stage: Stage) -> Result<(), Failure> {
        if self.is_given_out() && self.given_at == self.reading.at() {
            self.growing().into_iter().for_each(|growing| growing.set_stage(stage));
            return Ok(());
        }
        let failure = |error: Error| catalog.failure(&self.path, self.subject, error);
        let patient = Patient::new(&self.file, Patience::Endless, &catalog.gate);
        let Some(media) = self.reading.so_far(&patient).map_err(failure)?.map(Arc::new) else {
            return Ok(());
        };
        self.given_at = self.reading.at();
        if let Some(growing) = self.growing() {
            growing.put(media, stage);
            return Ok(());
        }
        let told_ns = self.reading.told_ns(&patient).map_err(failure)?;
        let growing = Growing::new(media.clone(), stage, told_ns);
        if self.is_recorded {
            growing.set_recorded();
        }
        self.publish(catalog, media, Some(Arc::new(growing))).map(drop)
    }

    /// The file is complete.
    fn give_out_all(&mut self, catalog: &Catalog) -> Result<Arc<Indexed>, Failure> {
        let patient = Patient::new(&self.file, Patience::Endless, &catalog.gate);
        let media =
            self.reading.end(&patient).map_err(|error| catalog.failure(&self.path, self.subject, error))?;
        let media = Arc::new(media);
        if self.seen == self.subject.identity {
            catalog.remember(&self.path, self.subject, &media);
        }
        match &self.indexed {
            Some(indexed) => {
                indexed.growing.iter().for_each(|growing| growing.put(media.clone(), Stage::Over));
                Ok(indexed.clone())
            }
            None => self.publish(catalog, media, None),
        }
    }

    fn publish(
        &mut self,
        catalog: &Catalog,
        media: Arc<Media>,
        growing: Option<Arc<Growing>>,
    ) -> Result<Arc<Indexed>, Failure> {
        let unreadable = |error| unreadable(&self.path, &error);
        let file = self.file.try_clone().map_err(unreadable)?;
        let indexed =
            Indexed::new(self.path.clone(), file, self.subject, media, growing).map_err(unreadable)?;
        let indexed = catalog.publish(self.subject, Arc::new(indexed))?;
        self.indexed = Some(indexed.clone());
        self.used = Instant::now();
        Ok(indexed)
    }
}

#[cfg(test)]
mod tests {
    use forebay_media::Streams;
    use forebay_rtsp::replay::Frames;
    use forebay_streaming::program::{Choice, Program};
    use forebay_testkit::films::{Folder, H264};

    use super::*;
    use crate::catalog::{Begun, Extent, NotOpened, Opened};

    /// A catalog of films, and the pass through one of them that has come to where clients can play it.
    fn begun(films: &Folder) -> (Catalog, Box<Pass>) {
        let one = std::fs::read(films.encode(12, &format!("{H264} -qp 10 -c:a aac"), "one.ts"));
        let one = one.expect("a film");
        let rounds = 2 * FIRST_BYTES as usize / one.len() + 1;
        films.put("long.ts", one.repeat(rounds));
        let catalog = Catalog::of(films.root(), 9);
        let begun = catalog.begin_pass("long.ts", Streams::default()).expect("a film");
        let Begun::Pass(mut pass) = begun else { panic!("it has turns") };
        while !pass.is_given_out() {
            assert!(matches!(pass.turn(&catalog).expect("a turn"), Next::Turn(Duration::ZERO)));
        }
        assert_eq!(pass.growing().map(|growing| growing.stage()), Some(Stage::Behind));
        (catalog, pass)
    }

    fn open(catalog: &Catalog, url: &str) -> Result<Arc<Opened>, NotOpened> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        catalog.open_within(path, query, Extent::Begun, Patience::Short, &[])
    }

    fn program(opened: &Opened) -> Program {
        let choice = Choice { tracks: vec![0], until_ns: None, frames: Frames::All, is_beginning: true };
        opened.playlist.program(choice, 0)
    }

    #[test]
    fn a_part_of_a_film_is_opened_as_soon_as_the_index_has_its_beginning() {
        let test = "a_part_of_a_film_is_opened_as_soon_as_the_index_has_its_beginning";
        let Some(films) = Folder::new(test) else { return };
        let (catalog, _pass) = begun(&films);
        films.put("list.m3u", "long.ts\nlong.ts\n");
        for query in ["end=2.5", "start=1&end=2.5", "loop&end=2.5", "end=100000", "loop", "loop&start=1"] {
            for path in ["long.ts", "list.m3u"] {
                let part = open(&catalog, &format!("{path}?{query}"));
                let part = part.unwrap_or_else(|_| panic!("{path}?{query}: nothing more is needed"));
                let is_short = query.ends_with("end=2.5");
                assert_eq!(part.playlist.end_ns() == 2_500_000_000, is_short, "{path}?{query}");
            }
        }
        for query in ["start=1000", "loop&start=1000"] {
            let result = open(&catalog, &format!("long.ts?{query}"));
            assert!(
                matches!(result, Err(NotOpened::TakesLong(lacking)) if lacking.path == "long.ts"),
                "{query}"
            );
        }
    }

    #[test]
    fn a_list_and_a_loop_go_on_after_an_end_that_was_not_known_when_they_began() {
        let test = "a_list_and_a_loop_go_on_after_an_end_that_was_not_known_when_they_began";
        let Some(films) = Folder::new(test) else { return };
        let (catalog, mut pass) = begun(&films);
        films.put("list.m3u", "long.ts\nlong.ts\n");
        let [mut list, mut round] = ["list.m3u", "long.ts?loop"].map(|url| {
            let opened = open(&catalog, url).unwrap_or_else(|_| panic!("{url}: it has begun"));
            program(&opened)
        });
        let begun: Vec<_> = list.by_ref().collect();
        assert!(begun.len() > 100 && begun.iter().all(|planned| planned.file == 0));
        assert_eq!(round.by_ref().count(), begun.len());
        while !matches!(pass.turn(&catalog).expect("a turn"), Next::Known(_)) {}
        let mut all = program(&open(&catalog, "long.ts").unwrap_or_else(|_| panic!("a film")));
        let count = all.by_ref().count();
        assert_eq!(begun.len() + list.count(), 2 * count);
        let rest: Vec<_> = round.take(3 * count - begun.len()).collect();
        assert_eq!(rest.len(), 3 * count - begun.len(), "there is no end");
        assert!(rest.iter().is_sorted_by_key(|planned| planned.decode_ns));
    }
}
