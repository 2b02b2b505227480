//! What other threads look up for the event loop since that takes reads: walks through the folders, and looks at films.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_hls::{Film, Unplayable};
use forebay_media::index::Cursor;

use super::films::Name;
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
    /// What of a file browsers play.
    Film(Name, Arc<Opened>),
    /// How far a film has grown.
    Growth(Name, Arc<Film>),
}

/// What was found.
pub(crate) enum Looked {
    /// A list, and of which folders.
    List(Arc<Listing>, Arc<Roots>),
    Film(Name, Arc<Opened>, Result<Arc<Film>, Unplayable>),
    /// A film as it was, and as it is.
    Growth(Name, Arc<Film>, Arc<Film>),
    /// The look broke off.
    Nothing(Lookup),
}

/// A queue of lookups. There is one list of folders at most, and one look at each film.
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

    /// What a thread does until the end. A look that panics takes neither the thread with it, nor the answer to a client.
    pub fn run(&self, look: impl Fn(&Lookup) -> Looked, finish: impl Fn(Looked)) {
        while let Some(lookup) = self.next() {
            let looked = catch_unwind(AssertUnwindSafe(|| look(&lookup)));
            finish(looked.unwrap_or(Looked::Nothing(lookup)));
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

/// Looks something up.
pub(crate) fn look(catalog: &Catalog, lookup: &Lookup) -> Looked {
    match lookup {
        Lookup::List => {
            let roots = catalog.roots();
            Looked::List(Arc::new(Listing::of(&roots)), roots)
        }
        Lookup::Film(name, opened) => {
            let film = Film::new(&opened.playlist, |track| first_sample(opened, track));
            Looked::Film(name.clone(), opened.clone(), film.map(Arc::new))
        }
        Lookup::Growth(name, film) => {
            let grown = film.grown().map_or_else(|| film.clone(), Arc::new);
            Looked::Growth(name.clone(), film.clone(), grown)
        }
    }
}

fn first_sample(opened: &Opened, track: usize) -> Option<Vec<u8>> {
    let file = opened.files.first()?;
    let track = file.media.tracks().get(track)?;
    let entry = track.index().next(&mut Cursor::default())?;
    let (at, packing) = track.packed(&entry);
    let bytes = usize::try_from(at.end - at.start).unwrap_or(SAMPLE_BYTES_MAX);
    let mut sample = vec![0; SAMPLE_BYTES_MAX.min(bytes)];
    file.file.read_exact_at(&mut sample, at.start).ok()?;
    let bytes = packing.unpack(&mut sample);
    sample.truncate(bytes);
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::http::request::Received;
    use crate::http::route::Route;
    use crate::http::{ASKING_NS, Asked, State};
    use crate::rig::Rig;

    #[test]
    fn a_look_that_panics_takes_neither_its_thread_with_it_nor_the_answer() {
        let queue = LookupQueue::default();
        queue.push(Lookup::List);
        queue.push(Lookup::List);
        let looked = Mutex::new(Vec::new());
        let finish = |one| {
            let mut looked = looked.lock().expect("a list");
            looked.push(one);
            if looked.len() == 2 {
                queue.end();
            }
        };
        queue.run(|_| panic!("a look panics, as it is to"), finish);
        let looked = looked.into_inner().expect("a list");
        assert!(looked.iter().all(|one| matches!(one, Looked::Nothing(Lookup::List))));
    }

    #[test]
    fn who_waits_for_a_look_that_failed_or_does_not_end_is_answered() {
        let mut rig = Rig::with(|_| {});
        let clients = [(false, "500"), (true, "503")].map(|(is_overdue, status)| {
            let client = rig.connect(None);
            (client, rig.serving.connections.newest_id(), is_overdue, status)
        });
        for (mut client, id, is_overdue, status) in clients {
            let request = "GET /?json HTTP/1.1\r\nHost: a\r\n\r\n";
            let received = Received::parse(request.as_bytes()).expect("a request").expect("all of it");
            let route = Route::of(&received.request.url).expect("a page");
            rig.serving.begin_http(id);
            let asked = Asked { received, route, user: None, waits_until_ns: None };
            rig.serving.web.connections.get_mut(&id).expect("a talk").state = State::Asking(Box::new(asked));
            rig.serving.web.list_waiters.push(id);
            rig.serving.refuse_overdue(clock::now_ns());
            assert!(matches!(rig.serving.web.connections[&id].state, State::Asking(_)), "it is not overdue");
            if is_overdue {
                rig.serving.refuse_overdue(clock::now_ns() + 2 * ASKING_NS);
            } else {
                rig.serving.looked(Looked::Nothing(Lookup::List));
            }
            let response = rig.ask(&mut client, "");
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        }
    }
}
