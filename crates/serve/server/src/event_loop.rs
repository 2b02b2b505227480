//! The thread that has all connections and sessions.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use forebay_rtsp::key::Key as Secret;
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::{ConnectionId, Server};
use rustix::event::{Timespec, epoll};

use crate::access_log::Appended;
use crate::buffer_allocation::Buffers;
use crate::cameras::{Cameras, Shown};
use crate::catalog::Catalog;
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::error::{Error, Result, to};
use crate::events::{Events, Stopper};
use crate::folders::Roots;
use crate::http::Web;
use crate::index_cache::IndexCache;
use crate::log::{self, Log};
use crate::readers::{Destination, Done, Readers};
use crate::reload::{Reload, config, guard};
use crate::rtcp_reports::Reports;
use crate::session_control::Control;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::token::Token;
use crate::transmit::Transmitter;
use crate::{clock, descriptors, encryption, listeners, privileges};

const EVENTS_MAX: usize = 256;
/// How often the loop looks for what is of no more use.
const SWEEP_NS: u64 = 10 * SECOND_NS;
/// How long clients may take what was sent, at the end.
const FAREWELL_NS: u64 = SECOND_NS;

/// The server.
pub struct Serving {
    pub(crate) settings: Settings,
    /// The RTSP machine.
    pub(crate) server: Server,
    pub(crate) control: Control,
    pub(crate) cameras: Option<Box<Cameras>>,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    /// What is asked for over HTTP.
    pub(crate) web: Web,
    pub(crate) buffers: Buffers,
    pub(crate) readers: Readers,
    pub(crate) transmitter: Transmitter,
    pub(crate) reports: Reports,
    pub(crate) events: Events,
    pub(crate) log: Log,
    /// A line for each session that ended, and for each request over HTTP.
    pub(crate) access_log: Option<Log>,
    pub(crate) secret: Secret,
    pub(crate) reload: Option<Reload>,
    pub(crate) is_over: bool,
    shown: Option<Shown>,
    done: Vec<Done>,
    swept_ns: u64,
    dated_ns: u64,
}

impl Serving {
    /// Listens; nothing is served before [`Serving::run`].
    pub fn new(mut settings: Settings) -> Result<Self> {
        let allowed = descriptors::allow(settings.connections_max);
        settings.connections_max = allowed.connections;
        let listeners = listeners::listen_on_all(&settings)?;
        let identity = settings.tls.as_ref().map(encryption::identity).transpose()?;
        let onvif = settings.cameras.as_ref().and_then(|cameras| cameras.onvif);
        let onvif = onvif.map(listeners::listen).transpose()?;
        if let Some(user) = &settings.run_as {
            privileges::become_user(user)?;
        }
        let log = Log::start(std::io::stderr(), log::PREFIX)?;
        let (catalog, remark) = catalog(&settings, allowed.files)?;
        let access_log = settings.access_log.as_ref().map(|path| access_log(path)).transpose()?;
        let cameras =
            settings.cameras.as_ref().map(|one| Cameras::load(one, settings.packet_bytes)).transpose()?;
        let (cameras, remarks) = cameras.unzip();
        settings.users.extend(cameras.iter().flat_map(Cameras::users));
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| to("random numbers")(std::io::Error::other(error)))?;
        let secret = Secret(secret);
        let mut serving = Self {
            server: Server::new(config(&settings, &secret), guard(&settings, &secret)),
            control: Control::default(),
            cameras: cameras.map(Box::new),
            connections: Connections::new(listeners, identity),
            sessions: Sessions::new(),
            web: Web::default(),
            buffers: Buffers::new(settings.memory_bytes, settings.buffers, settings.buffer_bytes),
            readers: Readers::start(Arc::new(catalog), settings.readers)?,
            transmitter: Transmitter::new(Datagrams::new(settings.udp_ports.clone())),
            reports: Reports::default(),
            events: Events::new()?,
            log,
            access_log,
            secret,
            reload: None,
            is_over: false,
            shown: None,
            done: Vec::new(),
            swept_ns: clock::now_ns(),
            dated_ns: 0,
            settings,
        };
        remark
            .into_iter()
            .chain(remarks.into_iter().flatten())
            .for_each(|remark| serving.log.say(clock::now_ns(), &remark));
        if let (Some(cameras), Some(of_cameras), Some(listener)) =
            (&serving.cameras, &serving.settings.cameras, onvif)
            && let Some(rtsp) = serving.connections.addresses().first()
        {
            let shown = cameras.show(of_cameras, listener, *rtsp, serving.readers.mailbox())?;
            serving.shown = Some(shown);
        }
        serving.events.watch(serving.readers.bell(), Token::Readers).map_err(to("epoll"))?;
        serving.connections.watch_listeners(&serving.events)?;
        Ok(serving)
    }

    /// Whether the folders, the certificate and the key of settings can be read.
    pub fn check(settings: &Settings) -> Result<()> {
        Roots::open(&settings.folders, settings.follow_links)?;
        settings.tls.as_ref().map(encryption::identity).transpose()?;
        Ok(())
    }

    /// SIGTERM and SIGINT end the server from now on, and SIGHUP does what [`Serving::reload_with`] says. All threads have to
    /// block them, so no thread but this one may have been started before [`Serving::block_signals`].
    pub fn heed_signals(&mut self) -> Result<()> {
        self.events.heed_signals()
    }

    /// Blocks those signals until the server heeds them.
    pub fn block_signals() -> Result<()> {
        Events::block_signals()
    }

    /// Where ONVIF clients of cameras are answered.
    pub fn onvif(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// Where it listens: for RTSP, for RTSP over TLS, for HTTP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.connections.addresses()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.events.stopper()
    }

    /// Serves until it is stopped.
    pub fn run(&mut self) -> Result<()> {
        Events::sharpen_timers();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.is_over {
            self.turn(&mut events, None)?;
        }
        self.end_all();
        let end_ns = clock::now_ns() + FAREWELL_NS;
        while clock::now_ns() < end_ns && !self.connections.are_drained() {
            self.turn(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 }))?;
        }
        Ok(())
    }

    /// Waits for something to do, and does it.
    pub(crate) fn turn(&mut self, events: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> Result<()> {
        self.events.set_timer(self.next_ns())?;
        self.events.wait(events, timeout)?;
        for event in events.iter() {
            self.handle(*event);
        }
        let now_ns = clock::now_ns();
        if self.server.next_deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            let actions = self.server.elapsed(now_ns);
            self.act(actions, ConnectionId(0));
        }
        if self.connections.paused_until_ns().is_some_and(|until_ns| until_ns <= now_ns) {
            self.connections.resume(&self.events);
        }
        if self.reports.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.read_reports(now_ns);
        }
        self.send_due(now_ns);
        self.send_of_cameras(now_ns);
        self.buffers.allocate(&mut self.sessions, &self.readers);
        self.look_at_recordings(now_ns);
        self.feed_downloads();
        if now_ns - self.swept_ns > SWEEP_NS {
            self.sweep(now_ns);
        }
        Ok(())
    }

    /// When there is something to do next, if no event comes earlier.
    fn next_ns(&self) -> u64 {
        let due_ns = self.sessions.next_due_ns().map(|due_ns| self.transmitter.gathered_ns(due_ns));
        let next = [
            due_ns,
            self.server.next_deadline_ns(),
            self.cameras.as_ref().and_then(|cameras| cameras.next_ns()),
            self.buffers.urgent_ns(),
            self.reports.due_ns(),
            self.connections.paused_until_ns(),
            self.web.due_ns(),
            Some(self.swept_ns + SWEEP_NS + 1),
        ];
        next.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    fn handle(&mut self, event: epoll::Event) {
        match Token::of(event.data) {
            Token::Timer => self.events.clear_timer(),
            Token::Readers => {
                let mut done = std::mem::take(&mut self.done);
                self.readers.take_done(&mut done);
                for one in done.drain(..) {
                    match one {
                        Done::Opened(question, result) => {
                            if let Some(result) = self.opened_for_http(question, result) {
                                self.opened(question, result);
                            }
                        }
                        Done::Filled(filled) => match filled.destination {
                            Destination::Session(key) => self.filled(key, *filled),
                            Destination::Download(number) => self.filled_for_http(number, *filled),
                        },
                        Done::Lookup(done) => self.looked(done),
                        Done::Guessed(guess) => self.note_guess(&guess),
                    }
                }
                self.done = done;
                self.send_prepared();
            }
            Token::Signals => self.heed_signal(),
            Token::Stop => self.is_over = true,
            Token::Listener(number) => self.accept(number),
            Token::Connection(number) => self.serve_connection(ConnectionId(number), event.flags),
        }
    }

    /// Responses have the date, which changes once a second.
    pub(crate) fn set_date(&mut self, now_ns: u64) {
        if now_ns - self.dated_ns >= SECOND_NS {
            self.dated_ns = now_ns;
            let time = std::time::SystemTime::now();
            self.server.set_date(httpdate::fmt_http_date(time));
        }
    }

    /// Forgets what is of no more use.
    fn sweep(&mut self, now_ns: u64) {
        self.swept_ns = now_ns;
        self.buffers.sweep(&self.sessions);
        for id in self.connections.sweep(now_ns, now_ns.saturating_sub(SWEEP_NS)) {
            self.tend(id);
        }
        for id in self.web.sweep(now_ns) {
            self.break_off(id);
            self.tend(id);
        }
        self.refuse_overdue(now_ns);
        self.control.sweep();
        self.forget_blocked();
    }
}

/// The catalog that settings describe, and what the operator should know of it.
fn catalog(settings: &Settings, files_max: usize) -> Result<(Catalog, Option<String>)> {
    let catalog = Catalog::new(Roots::open(&settings.folders, settings.follow_links)?, files_max);
    let cache = settings.cache.clone().map(|folder| (IndexCache::new(folder.clone()), folder));
    Ok(match cache {
        Some((Ok(cache), _)) => (catalog.with_cache(Some(cache)), None),
        Some((Err(error), folder)) => {
            let remark = format!("{}: {error}: large files are read again after a restart", folder.display());
            (catalog, Some(remark))
        }
        None => (catalog, None),
    })
}

fn access_log(path: &Path) -> Result<Log> {
    let file = Appended::new(path.to_owned());
    Log::start(file.map_err(|source| Error::AccessLog { path: path.to_owned(), source })?, "")
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::rig::{Rig, SETUP, UDP};

    #[test]
    fn datagrams_of_strangers_do_not_wake_the_event_loop() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let response = rig.ask(&mut client, &SETUP.replace("RTP/AVP/TCP;interleaved=0-1", UDP));
        assert!(response.starts_with("RTSP/1.0 200"), "{response}");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        for port in <[u16; 2]>::from(rig.serving.transmitter.datagrams.pair(0).ports) {
            stranger.send_to(b"rubbish", ("127.0.0.1", port)).expect("the server is there");
        }
        let end_ns = clock::now_ns() + 200_000_000;
        while clock::now_ns() < end_ns {
            rig.turn_within(10_000_000);
            assert!(rig.events.iter().all(|event| Token::of(event.data) == Token::Timer));
        }
    }
}
