//! Films that browsers play at the moment: they ask again and again, for segment after segment.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_hls::{Film, Unplayable};
use forebay_rtsp::range::SECOND_NS;

use crate::catalog::Opened;

/// Films that are kept.
const FILMS_MAX: usize = 256;
/// For how long a film is kept after the last request.
const KEPT_NS: u64 = 60 * SECOND_NS;
/// After how long a playlist is made of the file as it is then: it may have grown, or be another one.
const FRESH_NS: u64 = 5 * SECOND_NS;

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
}

/// Films by their paths and queries.
#[derive(Default)]
pub(super) struct Films(HashMap<(String, String), Kept>);

impl Films {
    /// A film that is known; one that was opened a moment ago, if it has to be fresh.
    pub fn get(&mut self, path: &str, query: &str, has_to_be_fresh: bool, now_ns: u64) -> Option<Screened> {
        let kept = self.0.get_mut(&(path.to_owned(), query.to_owned()))?;
        // One that is being recorded is followed.
        if let Ok(film) = &mut kept.screened.film {
            match film.grown() {
                Some(grown) => (*film, kept.opened_ns) = (Arc::new(grown), now_ns),
                None if film.may_grow() => kept.opened_ns = now_ns,
                None => {}
            }
        }
        if has_to_be_fresh && now_ns.saturating_sub(kept.opened_ns) > FRESH_NS {
            return None;
        }
        kept.used_ns = now_ns;
        Some(kept.screened.clone())
    }

    /// The film of a file that was opened again and is the same.
    pub fn renew(&mut self, path: &str, query: &str, opened: &Arc<Opened>, now_ns: u64) -> Option<Screened> {
        let kept = self.0.get_mut(&(path.to_owned(), query.to_owned()))?;
        if !Arc::ptr_eq(&kept.screened.opened, opened) {
            return None;
        }
        (kept.opened_ns, kept.used_ns) = (now_ns, now_ns);
        Some(kept.screened.clone())
    }

    pub fn insert(&mut self, path: String, query: String, screened: Screened, now_ns: u64) {
        if self.0.len() >= FILMS_MAX
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, kept)| kept.used_ns).map(|(key, _)| key.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert((path, query), Kept { screened, opened_ns: now_ns, used_ns: now_ns });
    }

    /// Forgets films that are not watched.
    pub fn sweep(&mut self, now_ns: u64) {
        self.0.retain(|_, kept| now_ns.saturating_sub(kept.used_ns) < KEPT_NS);
    }
}
