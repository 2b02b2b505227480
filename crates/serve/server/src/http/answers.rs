//! What is answered to a request that was let in: the list, a page, a playlist, or a part of a film. What that takes to find out is
//! done by other threads meanwhile.

use std::sync::Arc;

use forebay_hls::{Film, Presence, Segment, Unplayable};
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::{ConnectionId, QuestionId};

use super::download::{self, Download, Extent};
use super::films::{Due, Found, PATIENCE_NS, Screened};
use super::listing::{self, Listing, Place};
use super::lookups::{Looked, Lookup};
use super::ranges::Wanted;
use super::request::Received;
use super::response::{JSON, M3U, MP4, PLAYLIST, Response};
use super::route::{Form, Route, What};
use super::{Asked, State, busy, pages};
use crate::catalog::{self, Failure, Opened};
use crate::clock;
use crate::event_loop::Serving;
use crate::folders::no_folder;
use crate::openers::Opening;

/// For how long a list is what the folder has.
const LISTED_NS: u64 = 5 * SECOND_NS;

impl Serving {
    pub(super) fn serve_route(&mut self, id: ConnectionId, asked: Asked) {
        let now_ns = clock::now_ns();
        match &asked.route {
            Route::Asset(_) => {}
            Route::List { .. } => match &self.web.listing {
                Some((listing, listed_ns)) if now_ns.saturating_sub(*listed_ns) < LISTED_NS => {
                    let listing = listing.clone();
                    self.show_list(id, &asked, &listing);
                }
                _ => {
                    // One walk is for all who ask while it lasts.
                    if self.web.list_waiters.is_empty() {
                        self.readers.look_up(Lookup::List);
                    }
                    self.web.list_waiters.push(id);
                    self.set_state(id, State::Asking(Box::new(asked)));
                }
            },
            Route::Film { path, query, what } => {
                let has_to_be_fresh = !matches!(what, What::Init(_) | What::Segment(..) | What::Part(..));
                match self.web.films.find(&(path.clone(), query.clone()), has_to_be_fresh, now_ns) {
                    Found::Film(screened) => self.show_film(id, &asked, &screened),
                    Found::Grown => self.await_more(id, &asked),
                    Found::Nothing => self.ask_to_open(id, asked),
                }
            }
        }
    }

    fn ask_to_open(&mut self, id: ConnectionId, asked: Asked) {
        let (Route::Film { path, query, .. }, Some(connection)) = (&asked.route, self.connections.get(id))
        else {
            return;
        };
        let question = self.server.question();
        let client = connection.client.ip();
        // A playlist names all segments.
        let (path, query, extent) = (path.clone(), query.clone(), catalog::Extent::Whole);
        let opening = Opening { question, client, path, query, extent };
        if self.readers.open(opening) {
            self.web.questions.insert(question, id);
            self.set_state(id, State::Asking(Box::new(asked)));
        } else {
            self.respond(id, &asked.received, &busy("too many files wait to be opened"));
        }
    }

    /// A file that was asked for by a number of [`Serving::ask_to_open`] is open, or is not. Returns what is of others.
    pub(crate) fn opened_for_http(
        &mut self,
        question: QuestionId,
        result: Result<Arc<Opened>, Failure>,
    ) -> Option<Result<Arc<Opened>, Failure>> {
        let Some(id) = self.web.questions.remove(&question) else { return Some(result) };
        match result {
            Ok(opened) => {
                opened.take_remarks().for_each(|remark| self.log.say(clock::now_ns(), &remark));
                self.screen(id, opened);
            }
            Err(Failure { status, sentence }) => {
                self.log.say(clock::now_ns(), &sentence);
                if let Some(asked) = self.take_asked(id) {
                    self.respond(id, &asked.received, &Response::refusal(status.code(), &sentence));
                }
            }
        }
        self.go_on_http(id);
        self.tend(id);
        None
    }

    /// Shows a film that is known, or has it looked at.
    fn screen(&mut self, id: ConnectionId, opened: Arc<Opened>) {
        let Some(asked) = self.take_asked(id) else { return };
        let Route::Film { path, query, .. } = &asked.route else { return };
        let name = (path.clone(), query.clone());
        match self.web.films.renew(&name, &opened, clock::now_ns()) {
            Some(screened) => self.show_film(id, &asked, &screened),
            None => {
                self.set_state(id, State::Asking(Box::new(asked)));
                let lookup = self.web.films.ask(&name, &opened, id);
                lookup.into_iter().for_each(|lookup| self.readers.look_up(lookup));
            }
        }
    }

    /// Another thread has looked something up.
    pub(crate) fn looked(&mut self, done: Looked) {
        let now_ns = clock::now_ns();
        match done {
            // A walk through folders that are not served any more.
            Looked::List(_, roots) if !Arc::ptr_eq(&roots, &self.readers.catalog().roots()) => {
                self.readers.look_up(Lookup::List);
            }
            Looked::List(listing, _) => {
                self.web.listing = Some((listing.clone(), now_ns));
                for id in std::mem::take(&mut self.web.list_waiters) {
                    if let Some(asked) = self.take_asked(id) {
                        self.show_list(id, &asked, &listing);
                    }
                    self.go_on_http(id);
                    self.tend(id);
                }
            }
            Looked::Film(name, opened, film) => {
                let askers = self.web.films.take_askers(&name, &opened);
                if askers.is_empty() {
                    return;
                }
                let screened = Screened { opened, film };
                let waiting = self.web.films.insert(name, screened.clone(), now_ns);
                self.show_to_all(askers, &screened);
                self.serve_again(waiting);
            }
            Looked::Growth(name, before, grown) => {
                let grown = self.web.films.put_grown(&name, &before, grown, now_ns);
                let Some((screened, waiting)) = grown else { return };
                self.show_to_all(waiting, &screened);
            }
            Looked::Nothing(lookup) => {
                let what = match &lookup {
                    Lookup::List => "the folders",
                    Lookup::Film(_, opened) => &opened.path,
                    Lookup::Growth((path, _), _) => path,
                };
                let sentence = format!("{what}: a look at it broke off, which is a fault of the server");
                self.log.say(now_ns, &sentence);
                let waiting = match lookup {
                    Lookup::List => std::mem::take(&mut self.web.list_waiters),
                    Lookup::Film(name, opened) => self.web.films.take_askers(&name, &opened),
                    Lookup::Growth(name, film) => self.web.films.forget(&name, &film),
                };
                self.refuse(waiting, &Response::refusal(500, "the server failed to look at it"));
            }
        }
    }

    /// Shows a film to all who have waited for it, even if it has grown further meanwhile.
    fn show_to_all(&mut self, all: Vec<ConnectionId>, screened: &Screened) {
        for id in all {
            if let Some(asked) = self.take_asked(id) {
                self.show_film(id, &asked, screened);
            }
            self.go_on_http(id);
            self.tend(id);
        }
    }

    /// Takes the requests of connections as if they had just come.
    pub(super) fn serve_again(&mut self, all: Vec<ConnectionId>) {
        for id in all {
            if let Some(asked) = self.take_asked(id) {
                self.serve_route(id, asked);
            }
            self.go_on_http(id);
            self.tend(id);
        }
    }

    /// Answers connections that wait for something that does not come.
    fn refuse(&mut self, all: Vec<ConnectionId>, response: &Response) {
        for id in all {
            if let Some(asked) = self.take_asked(id) {
                self.respond(id, &asked.received, response);
            }
            self.go_on_http(id);
            self.tend(id);
        }
    }

    /// Answers connections that have waited for too long. They end, so that a late answer is not taken for that of another request.
    pub(crate) fn refuse_overdue(&mut self, now_ns: u64) {
        let overdue = self.web.overdue(now_ns);
        self.refuse(overdue, &busy("it takes too long to find that out"));
    }

    fn show_list(&mut self, id: ConnectionId, asked: &Asked, listing: &Listing) {
        let Route::List { folder, form, .. } = &asked.route else { return };
        let place = self.place(id, asked);
        let may_watch = |file: &&listing::Listed| self.server.may_watch(asked.user.as_deref(), &file.path);
        let files = listing.below(folder).filter(may_watch);
        let response = match form {
            Form::Json => Response::new(JSON, listing::json(files, listing.is_cut, &place)),
            Form::M3u => Response::new(M3U, listing::m3u(files, &place)),
            Form::Page => {
                let can_sign_in = self.server.has_users() && asked.user.is_none();
                Response::page(pages::POLICY, pages::list(folder, files, listing.is_cut, can_sign_in))
            }
        };
        self.respond(id, &asked.received, &response);
    }

    fn show_film(&mut self, id: ConnectionId, asked: &Asked, screened: &Screened) {
        let Route::Film { path, query, what } = &asked.route else { return };
        // The folders may have changed while the file was opened.
        if !self.may_go_on(asked.user.as_deref(), &screened.opened) {
            let Failure { status, sentence } = no_folder(path);
            return self.respond(id, &asked.received, &Response::refusal(status.code(), &sentence));
        }
        let missing = || Response::refusal(404, "the film has no such part");
        let response = match (&screened.film, what) {
            (film, What::Page) => {
                let film = film.as_ref().map_err(|unplayable| why(*unplayable));
                let page = pages::film(path, query, &film, &self.place(id, asked).rtsp(path));
                Response::page(pages::POLICY, page)
            }
            (Err(unplayable), _) => Response::refusal(415, why(*unplayable)),
            (Ok(film), What::Master) => Response::new(PLAYLIST, film.master(query)),
            (Ok(film), What::Media(tracks, reload)) => match film.presence_in_playlist(*reload) {
                Presence::Next => return self.await_more(id, asked),
                Presence::Missing => Response::refusal(400, "the film is far from having that"),
                Presence::There => match film.media(tracks, query, *reload) {
                    Some(playlist) => Response::new(PLAYLIST, playlist),
                    None => missing(),
                },
            },
            (Ok(film), What::Init(tracks)) => match film.init(tracks) {
                Some(init) => Response::new(MP4, init),
                None => missing(),
            },
            (Ok(film), What::Segment(number, tracks)) => match film.segment(tracks, *number) {
                Some(segment) => return self.send_segment(id, asked, screened, film, tracks, segment),
                None => missing(),
            },
            (Ok(film), What::Part(number, part, tracks)) => match film.part(tracks, *number, *part) {
                Some(segment) => return self.send_segment(id, asked, screened, film, tracks, segment),
                None if film.presence(*number, Some(*part)) == Presence::Next => {
                    return self.await_more(id, asked);
                }
                None => missing(),
            },
        };
        self.respond(id, &asked.received, &response);
    }

    /// Sends a segment of a film, or a part of one.
    fn send_segment(
        &mut self,
        id: ConnectionId,
        asked: &Asked,
        Screened { opened, .. }: &Screened,
        film: &Arc<Film>,
        tracks: &[usize],
        segment: Segment,
    ) {
        let Received { keeps_alive, is_1_1, .. } = asked.received;
        if asked.received.is_head() {
            let head = download::whole(is_1_1).head(None, None, keeps_alive);
            self.answered(id, 200, 0);
            return self.send_body(id, head.into_bytes(), keeps_alive);
        }
        // Nothing may have been recorded for as long as a part lasts.
        if segment.clone().next().is_none() {
            return self.respond(id, &asked.received, &Response::new(MP4, ""));
        }
        let Some(share) = self.buffers.admit(opened, tracks) else {
            return self.respond(id, &asked.received, &busy("buffers have no more memory"));
        };
        // From the first byte on it is the whole, which need not be measured.
        let wanted = Wanted::of(&asked.received).filter(|wanted| *wanted != Wanted::From(0, None));
        let extent = wanted.map_or(Extent::Whole, |wanted| Extent::Measured(wanted, 0));
        let (film, opened) = (film.clone(), opened.clone());
        let download = Download::new(film, opened, tracks.to_vec(), segment, share, extent, is_1_1);
        self.set_state(id, State::Segment(Box::new(download), Box::new(asked.clone())));
        self.want_buffer(id);
    }

    /// Has a request wait for what is recorded next.
    fn await_more(&mut self, id: ConnectionId, asked: &Asked) {
        let Route::Film { path, query, .. } = &asked.route else { return };
        let now_ns = clock::now_ns();
        let until_ns = asked.waits_until_ns.unwrap_or(now_ns + PATIENCE_NS);
        let asked = Asked { waits_until_ns: Some(until_ns), ..asked.clone() };
        let lookup = self.web.films.wait(&(path.clone(), query.clone()), id, until_ns, now_ns);
        self.set_state(id, State::Asking(Box::new(asked)));
        lookup.into_iter().for_each(|lookup| self.readers.look_up(lookup));
    }

    /// Has films looked at that have been recorded further, and answers requests that have waited for long.
    pub(crate) fn look_at_recordings(&mut self, now_ns: u64) {
        let Due { lookups, over } = self.web.films.take_due(now_ns);
        lookups.into_iter().for_each(|lookup| self.readers.look_up(lookup));
        self.refuse(over, &busy("nothing more has been recorded for a while"));
    }

    /// Where the server is, as a client knows it.
    fn place(&self, id: ConnectionId, asked: &Asked) -> Place {
        let connection = self.connections.get(id);
        let is_host = |host: &&str| {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            !host.is_empty() && host.len() < 256 && host.bytes().all(is_sign)
        };
        let named = asked.received.request.headers.get("Host").filter(is_host).map(str::to_owned);
        let host = named.or_else(|| connection.map(|one| one.host.to_string())).unwrap_or_default();
        Place { host, is_encrypted: connection.is_some_and(|one| one.is_encrypted()) }
    }
}

fn why(unplayable: Unplayable) -> &'static str {
    match unplayable {
        Unplayable::Endless => "browsers play what has an end: leave out ?loop",
        Unplayable::Codecs => {
            "browsers play H.264, H.265, AV1, VP9, AAC, Opus, MP3 and AC-3, and this file has none of them: players of RTSP play it"
        }
    }
}
