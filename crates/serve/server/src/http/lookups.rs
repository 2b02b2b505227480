//! What other threads look up for the event loop since that takes reads: walks through the folders, and looks at films.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_hls::{Film, Unplayable};
use forebay_media::index::Cursor;
use forebay_rtsp::server::ConnectionId;

use super::listing::Listing;
use crate::catalog::{Catalog, Opened};
use crate::folders::Roots;

/// Threads: a walk through a large folder is not to keep films waiting.
pub(crate) const THREADS: usize = 2;
/// What of a first sample is looked at.
const SAMPLE_BYTES_MAX: usize = 64 << 10;

/// What is to be looked up.
pub(crate) enum Lookup {
    List,
    Film(ConnectionId, Arc<Opened>),
}

/// What was found.
pub(crate) enum Looked {
    /// A list, and of which folders.
    List(Arc<Listing>, Arc<Roots>),
    Film(ConnectionId, Arc<Opened>, Result<Arc<Film>, Unplayable>),
}

/// A queue of lookups. Each connection has one at most.
#[derive(Default)]
pub(crate) struct LookupQueue {
    state: Mutex<State>,
    has_some: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    waiting: VecDeque<Lookup>,
}

impl LookupQueue {
    pub fn push(&self, lookup: Lookup) {
        self.lock().waiting.push_back(lookup);
        self.has_some.notify_one();
    }

    /// Makes all threads end after what they are at.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.has_some.notify_all();
    }

    /// What a thread does until the end.
    pub fn run(&self, catalog: &Catalog, finish: impl Fn(Looked)) {
        while let Some(lookup) = self.next() {
            finish(match lookup {
                Lookup::List => {
                    let roots = catalog.roots();
                    Looked::List(Arc::new(Listing::of(&roots)), roots)
                }
                Lookup::Film(asker, opened) => {
                    let film = Film::new(&opened.playlist, |track| first_sample(&opened, track));
                    Looked::Film(asker, opened, film.map(Arc::new))
                }
            });
        }
    }

    fn next(&self) -> Option<Lookup> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(lookup) = state.waiting.pop_front() {
                return Some(lookup);
            }
            state = self.has_some.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_sample(opened: &Opened, track: usize) -> Option<Vec<u8>> {
    let file = opened.files.first()?;
    let track = file.media.tracks().get(track)?;
    let entry = track.index().next(&mut Cursor::default())?;
    let mut sample = vec![0; SAMPLE_BYTES_MAX.min(entry.bytes as usize)];
    file.file.read_exact_at(&mut sample, entry.at).ok()?;
    let bytes = track.packing(entry.at).unpack(&mut sample);
    sample.truncate(bytes);
    Some(sample)
}
