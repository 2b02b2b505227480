//! Films that browsers play at the moment: they ask again and again, for segment after segment. A film that is being recorded is
//! followed. Other threads look what a film is and how far it has grown, once for all who wait for that.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_hls::{Film, Unplayable};
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::ConnectionId;

use super::lookups::Lookup;
use crate::catalog::Opened;

/// Films that are kept.
const FILMS_MAX: usize = 256;
/// For how long a film is kept after the last request.
const KEPT_NS: u64 = 60 * SECOND_NS;
/// After how long a playlist is made of the file as it is then: it may have grown, or be another one.
const FRESH_NS: u64 = 5 * SECOND_NS;
/// How often it is asked whether films have grown that connections wait for.
const ASK_NS: u64 = SECOND_NS / 20;
/// How long a request waits. A recording that is not written for less than that has ended, which is an answer, too.
pub(super) const PATIENCE_NS: u64 = 30 * SECOND_NS;

/// The path and the query of a film.
pub(crate) type Name = (String, String);

/// A film, or why a browser plays none.
#[derive(Clone)]
pub(super) struct Screened {
    pub opened: Arc<Opened>,
    pub film: Result<Arc<Film>, Unplayable>,
}

struct Kept {
    screened: Screened,
    opened_ns: u64,
    used_ns: u64,
    /// Whether another thread looks how far it has grown.
    is_looked_at: bool,
    /// Connections that wait for it to grow, each with until when.
    waiting: Vec<(ConnectionId, u64)>,
}

/// What there is of a film that is asked for.
pub(super) enum Found {
    Film(Screened),
    /// A film that has grown since it was looked at.
    Grown,
    /// None, or none that is fresh.
    Nothing,
}

/// A file that another thread makes a film of.
struct New {
    name: Name,
    opened: Arc<Opened>,
    askers: Vec<ConnectionId>,
}

/// What is to be done for those who wait.
#[derive(Default)]
pub(super) struct Due {
    pub lookups: Vec<Lookup>,
    /// Connections that have waited for long enough.
    pub over: Vec<ConnectionId>,
}

/// Films by their names.
#[derive(Default)]
pub(super) struct Films {
    kept: HashMap<Name, Kept>,
    new: Vec<New>,
    /// When it is asked next whether films have grown; `None` while no connection waits for that.
    due_ns: Option<u64>,
}

impl Kept {
    /// A look at how far the film has grown, if it has and no look is under way.
    fn look(&mut self, name: &Name) -> Option<Lookup> {
        let film = self.screened.film.as_ref().ok().filter(|film| !self.is_looked_at && film.has_grown())?;
        self.is_looked_at = true;
        Some(Lookup::Growth(name.clone(), film.clone()))
    }

    fn take_waiting(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.waiting).into_iter().map(|(id, _)| id).collect()
    }

    fn is(&self, film: &Arc<Film>) -> bool {
        self.screened.film.as_ref().is_ok_and(|known| Arc::ptr_eq(known, film))
    }
}

impl New {
    fn is(&self, name: &Name, opened: &Arc<Opened>) -> bool {
        self.name == *name && Arc::ptr_eq(&self.opened, opened)
    }
}

impl Films {
    /// A film that is known; one that was opened a moment ago, if it has to be fresh.
    pub fn find(&mut self, name: &Name, has_to_be_fresh: bool, now_ns: u64) -> Found {
        let Some(kept) = self.kept.get_mut(name) else { return Found::Nothing };
        if let Ok(film) = &kept.screened.film {
            if film.has_grown() {
                kept.used_ns = now_ns;
                return Found::Grown;
            }
            if film.may_grow() {
                kept.opened_ns = now_ns;
            }
        }
        if has_to_be_fresh && now_ns.saturating_sub(kept.opened_ns) > FRESH_NS {
            return Found::Nothing;
        }
        kept.used_ns = now_ns;
        Found::Film(kept.screened.clone())
    }

    /// The film of a file that was opened again and is the same.
    pub fn renew(&mut self, name: &Name, opened: &Arc<Opened>, now_ns: u64) -> Option<Screened> {
        let kept = self.kept.get_mut(name)?;
        if !Arc::ptr_eq(&kept.screened.opened, opened) {
            return None;
        }
        (kept.opened_ns, kept.used_ns) = (now_ns, now_ns);
        Some(kept.screened.clone())
    }

    /// A connection asks for a file that is no film yet. Returns the look that this takes, if none is under way.
    pub fn ask(&mut self, name: &Name, opened: &Arc<Opened>, id: ConnectionId) -> Option<Lookup> {
        if let Some(new) = self.new.iter_mut().find(|new| new.is(name, opened)) {
            new.askers.push(id);
            return None;
        }
        self.new.push(New { name: name.clone(), opened: opened.clone(), askers: vec![id] });
        Some(Lookup::Film(name.clone(), opened.clone()))
    }

    /// All who ask for what another thread has made a film of, or has not; none if that was forgotten meanwhile.
    pub fn take_askers(&mut self, name: &Name, opened: &Arc<Opened>) -> Vec<ConnectionId> {
        self.new.extract_if(.., |new| new.is(name, opened)).flat_map(|new| new.askers).collect()
    }

    /// Returns the connections that wait for a film that is none any more: they are to ask again.
    pub fn insert(&mut self, name: Name, screened: Screened, now_ns: u64) -> Vec<ConnectionId> {
        let oldest = || self.kept.iter().min_by_key(|(_, kept)| kept.used_ns).map(|(name, _)| name.clone());
        let is_full = self.kept.len() >= FILMS_MAX && !self.kept.contains_key(&name);
        let oldest = is_full.then(oldest).flatten().and_then(|name| self.kept.remove(&name));
        let (opened_ns, used_ns) = (now_ns, now_ns);
        let kept = Kept { screened, opened_ns, used_ns, is_looked_at: false, waiting: Vec::new() };
        let gone = self.kept.insert(name, kept).or(oldest);
        gone.map(|mut kept| kept.take_waiting()).unwrap_or_default()
    }

    /// A connection waits for a film to grow. Returns the look that this takes, if it has grown and no look is under way.
    pub fn wait(&mut self, name: &Name, id: ConnectionId, until_ns: u64, now_ns: u64) -> Option<Lookup> {
        let kept = self.kept.get_mut(name)?;
        kept.waiting.push((id, until_ns));
        self.due_ns.get_or_insert(now_ns + ASK_NS);
        kept.look(name)
    }

    /// A look has found how far a film has grown. Returns the film, and who waits for it; `None` if it is kept no more.
    pub fn put_grown(
        &mut self,
        name: &Name,
        before: &Arc<Film>,
        grown: Arc<Film>,
        now_ns: u64,
    ) -> Option<(Screened, Vec<ConnectionId>)> {
        let kept = self.kept.get_mut(name).filter(|kept| kept.is(before))?;
        (kept.screened.film, kept.opened_ns, kept.is_looked_at) = (Ok(grown), now_ns, false);
        Some((kept.screened.clone(), kept.take_waiting()))
    }

    /// Forgets a film that cannot be looked at. Returns who waits for it.
    pub fn forget(&mut self, name: &Name, film: &Arc<Film>) -> Vec<ConnectionId> {
        let is_it = self.kept.get(name).is_some_and(|kept| kept.is(film));
        let kept = if is_it { self.kept.remove(name) } else { None };
        kept.map(|mut kept| kept.take_waiting()).unwrap_or_default()
    }

    /// All who ask or wait for any film. They are to ask again.
    pub fn take_waiting(&mut self) -> Vec<ConnectionId> {
        let askers = self.new.drain(..).flat_map(|new| new.askers);
        askers.chain(self.kept.values_mut().flat_map(Kept::take_waiting)).collect()
    }

    /// When something is to be done for those who wait.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// What is to be done for those who wait by now.
    pub fn take_due(&mut self, now_ns: u64) -> Due {
        let mut due = Due::default();
        if self.due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return due;
        }
        for (name, kept) in self.kept.iter_mut().filter(|(_, kept)| !kept.waiting.is_empty()) {
            due.lookups.extend(kept.look(name));
            let over = kept.waiting.extract_if(.., |(_, until_ns)| *until_ns <= now_ns);
            due.over.extend(over.map(|(id, _)| id));
        }
        let is_any_waiting = self.kept.values().any(|kept| !kept.waiting.is_empty());
        self.due_ns = is_any_waiting.then_some(now_ns + ASK_NS);
        due
    }

    /// Forgets films that are not watched.
    pub fn sweep(&mut self, now_ns: u64) {
        self.kept.retain(|_, kept| !kept.waiting.is_empty() || now_ns.saturating_sub(kept.used_ns) < KEPT_NS);
    }
}

#[cfg(test)]
mod tests {
    use forebay_media::{Growing, Media, Stage};
    use forebay_streaming::playlist::Playlist;

    use super::*;
    use crate::catalog::Catalog;
    use crate::rig::FRAME;

    #[test]
    fn a_film_is_looked_at_once_for_all_who_ask_and_who_wait_for_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.aac");
        std::fs::write(&path, FRAME.repeat(100)).expect("a file");
        let media = || Arc::new(Media::open(&path).expect("sound"));
        let growing = Arc::new(Growing::new(media(), Stage::Following, None));
        let playlist = Arc::new(Playlist::new(vec![growing.clone().into()], false).expect("a playlist"));
        let film = Film::new(&playlist, |_| None).map(Arc::new);
        let opened = Catalog::of(folder.path(), 1).open("a.aac", "").expect("sound");
        let (mut films, name) = (Films::default(), ("a.aac".to_owned(), String::new()));
        let [one, other, late] = [1, 2, 3].map(ConnectionId);
        assert!(matches!(films.ask(&name, &opened, one), Some(Lookup::Film(..))));
        assert!(films.ask(&name, &opened, other).is_none(), "it is looked at");
        assert_eq!(films.take_askers(&name, &opened), [one, other]);
        assert!(films.take_askers(&name, &opened).is_empty());
        assert!(films.insert(name.clone(), Screened { opened, film }, 0).is_empty());
        assert!(films.wait(&name, one, PATIENCE_NS, 0).is_none(), "it has not grown");
        assert!(films.take_due(ASK_NS).lookups.is_empty());
        growing.put(media(), Stage::Following);
        let Some(Lookup::Growth(_, before)) = films.take_due(2 * ASK_NS).lookups.pop() else {
            panic!("it has grown");
        };
        assert!(matches!(films.find(&name, true, 0), Found::Grown));
        assert!(films.wait(&name, other, PATIENCE_NS, 0).is_none(), "it is looked at");
        let due = films.take_due(3 * ASK_NS);
        assert!(due.lookups.is_empty() && due.over.is_empty());
        let grown = Arc::new(before.grown().expect("it has grown"));
        let (_, waiting) = films.put_grown(&name, &before, grown, 0).expect("it is kept");
        assert_eq!(waiting, [one, other]);
        assert!(matches!(films.find(&name, true, 0), Found::Film(_)));
        assert!(films.wait(&name, late, PATIENCE_NS, 0).is_none());
        assert_eq!(films.take_due(PATIENCE_NS).over, [late]);
        films.take_due(u64::MAX - ASK_NS);
        assert_eq!(films.due_ns(), None);
    }
}
