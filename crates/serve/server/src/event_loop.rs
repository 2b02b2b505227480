//! The thread that has all connections and sessions.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use forebay_rtsp::key::Key as Secret;
use forebay_rtsp::server::{ConnectionId, QuestionId, Server, SessionId};
use forebay_streaming::buffer::Scratch;
use forebay_streaming::depth::Budget;
use forebay_streaming::lateness::Lateness;
use forebay_streaming::pool::Pool;
use forebay_streaming::stream::Counts;
use forebay_streaming::wheel::Wheel;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use slab::Slab;

use crate::admission::Admission;
use crate::backlog::Backlogs;
use crate::batch::{Spare, Tally};
use crate::buffer_allocation::Want;
use crate::catalog::{Catalog, Opened};
use crate::clock;
use crate::connection::Connection;
use crate::connections::{HEAR_NS, HttpRequest, Kind};
use crate::datagrams::Datagrams;
use crate::encryption::Identity;
use crate::error::{Result, to};
use crate::listeners;
use crate::log::Log;
use crate::readers::{Done, Filling, Readers};
use crate::reload::{config, guard};
use crate::session::{Key, Session};
use crate::settings::Settings;
use crate::token::Token;
use crate::{descriptors, encryption, privileges};

const EVENTS_MAX: usize = 256;
const SECOND_NS: u64 = 1_000_000_000;
/// The least time from one turn of sending to the next: what falls due meanwhile goes in one, with as many system calls as for
/// one session. So thousands of sessions do not wake this thread for every packet.
const GATHER_NS: u64 = 500_000;
/// How often what nobody needs is looked for.
const SWEEP_NS: u64 = 10 * SECOND_NS;
/// How long connections have to take what was sent, at the end.
const FAREWELL_NS: u64 = SECOND_NS;

/// The server.
pub struct Serving {
    pub(crate) settings: Settings,
    pub(crate) server: Server,
    pub(crate) connections: HashMap<ConnectionId, Connection>,
    pub(crate) backlogs: Backlogs,
    pub(crate) sessions: Slab<Session>,
    pub(crate) places: HashMap<SessionId, usize>,
    /// On whose behalf questions were asked.
    pub(crate) askers: HashMap<QuestionId, ConnectionId>,
    /// What clients have been shown, by where its description lies.
    pub(crate) shown: HashMap<usize, Arc<Opened>>,
    /// Whose reports come from where.
    pub(crate) reporters: HashMap<SocketAddr, SessionId>,
    pub(crate) devices: HashMap<u64, usize>,
    pub(crate) budget: Budget,
    pub(crate) pool: Pool,
    pub(crate) scratch: Scratch,
    pub(crate) datagrams: Datagrams,
    pub(crate) wheel: Wheel<Key>,
    pub(crate) readers: Readers,
    pub(crate) log: Log,
    pub(crate) lateness: Lateness,
    pub(crate) tally: Tally,
    /// How many reports of tracks have come from clients.
    pub(crate) heard: u64,
    /// What happened to sessions that have ended.
    pub(crate) ended: Counts,
    pub(crate) last_life: u64,
    pub(crate) name: String,
    pub(crate) spare: Spare,
    pub(crate) actions: VecDeque<(forebay_rtsp::server::Action, ConnectionId)>,
    pub(crate) due: Vec<(u64, Key)>,
    pub(crate) sending: Vec<usize>,
    /// Who wants a buffer.
    pub(crate) wanting: Vec<Want>,
    /// Who was stopped, the first ones first; some go on again.
    pub(crate) stopped: VecDeque<SessionId>,
    /// Buffers that are to be filled, for the readers at the end of this turn.
    pub(crate) fillings: Vec<Filling>,
    /// Spreads reports; nobody need be kept from guessing it.
    pub(crate) chance: fastrand::Rng,
    /// When clients are let in again; `None` while they are.
    pub(crate) rested_ns: Option<u64>,
    /// When reports were last heard.
    pub(crate) heard_ns: u64,
    /// When something was last due.
    pub(crate) sent_ns: u64,
    pub(crate) frames: Vec<[u8; 4]>,
    done: Vec<Done>,
    pub(crate) epoll: OwnedFd,
    timer: OwnedFd,
    timer_ns: u64,
    stop: Arc<OwnedFd>,
    pub(crate) signals: Option<SignalFd>,
    pub(crate) listeners: Vec<(TcpListener, Kind)>,
    /// What status pages were asked for, as far as it has come.
    pub(crate) http_requests: HashMap<ConnectionId, HttpRequest>,
    pub(crate) admission: Admission,
    pub(crate) secret: Secret,
    pub(crate) identity: Option<Identity>,
    pub(crate) reload: Option<Reload>,
    pub(crate) last_connection: u64,
    swept_ns: u64,
    dated_ns: u64,
    pub(crate) is_over: bool,
}

/// Finds out what settings are now; the error is a sentence.
pub type Reload = Box<dyn FnMut() -> Result<Settings, String> + Send>;

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Has [`Serving::run`] return, soon.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Serving {
    /// Listens; nothing is served before [`Serving::run`].
    pub fn new(mut settings: Settings) -> Result<Serving> {
        let allowed = descriptors::allow(settings.connections_max);
        settings.connections_max = allowed.connections;
        let listeners = listen(&settings)?;
        let identity = settings.tls.as_ref().map(encryption::identity).transpose()?;
        if let Some(user) = &settings.run_as {
            privileges::become_user(user)?;
        }
        let catalog = Arc::new(Catalog::new(&settings.folder, allowed.files)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(to("epoll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(to("a timer"))?;
        let stop = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(to("eventfd"))?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| to("random numbers")(std::io::Error::other(error)))?;
        let secret = Secret(secret);
        let mut serving = Serving {
            server: Server::new(config(&settings, &secret), guard(&settings, &secret)),
            connections: HashMap::new(),
            backlogs: Backlogs::default(),
            sessions: Slab::new(),
            places: HashMap::new(),
            askers: HashMap::new(),
            shown: HashMap::new(),
            reporters: HashMap::new(),
            devices: HashMap::new(),
            budget: Budget::new(settings.memory_bytes, settings.buffers),
            pool: Pool::new(settings.memory_bytes),
            scratch: Scratch::default(),
            datagrams: Datagrams::new(settings.udp_ports.clone()),
            wheel: Wheel::default(),
            readers: Readers::start(catalog, settings.readers)?,
            log: Log::start(std::io::stderr())?,
            lateness: Lateness::default(),
            tally: Tally::default(),
            heard: 0,
            ended: Counts::default(),
            last_life: 0,
            name: format!("forebay@{}", rustix::system::uname().nodename().to_string_lossy()),
            spare: Spare::default(),
            actions: VecDeque::new(),
            due: Vec::new(),
            sending: Vec::new(),
            wanting: Vec::new(),
            stopped: VecDeque::new(),
            fillings: Vec::new(),
            chance: fastrand::Rng::new(),
            rested_ns: None,
            heard_ns: 0,
            sent_ns: 0,
            frames: Vec::new(),
            done: Vec::new(),
            epoll,
            timer,
            timer_ns: 0,
            stop: Arc::new(stop),
            signals: None,
            listeners,
            http_requests: HashMap::new(),
            admission: Admission::default(),
            secret,
            identity,
            reload: None,
            last_connection: 0,
            swept_ns: clock::now_ns(),
            dated_ns: 0,
            is_over: false,
            settings,
        };
        serving.watch_all()?;
        Ok(serving)
    }

    /// Whether settings lead anywhere: the folder, certificate and key.
    pub fn check(settings: &Settings) -> Result<()> {
        Catalog::new(&settings.folder, 0)?;
        settings.tls.as_ref().map(encryption::identity).transpose()?;
        Ok(())
    }

    fn watch_all(&mut self) -> Result<()> {
        let add = |source: &dyn AsFd, token: Token| {
            epoll::add(&self.epoll, source.as_fd(), token.to_data(), epoll::EventFlags::IN)
                .map_err(to("epoll"))
        };
        add(&self.timer, Token::Timer)?;
        add(&self.readers.bell(), Token::Readers)?;
        add(&*self.stop, Token::Stop)?;
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            add(listener, Token::Listener(number))?;
        }
        Ok(())
    }

    /// Has SIGTERM and SIGINT end the server, and SIGHUP do what [`Serving::reload_with`] says. They have to be blocked in all threads, so no thread but this one may have
    /// been started before [`Serving::block_signals`].
    pub fn heed_signals(&mut self) -> Result<()> {
        let signals = SignalFd::with_flags(&signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(to("signalfd"))?;
        epoll::add(&self.epoll, &signals, Token::Signals.to_data(), epoll::EventFlags::IN)
            .map_err(to("epoll"))?;
        self.signals = Some(signals);
        Ok(())
    }

    /// Has signals wait until they are heeded.
    pub fn block_signals() -> Result<()> {
        signals().thread_block().map_err(to("signals"))
    }

    /// Where it listens: for RTSP, for RTSP over TLS, for HTTP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Serves until it is stopped.
    pub fn run(&mut self) -> Result<()> {
        // Timers of this thread are to come when they are due; the least that the kernel has is a nanosecond.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.is_over {
            self.turn(&mut events, None)?;
        }
        self.listeners.clear();
        self.say_goodbye();
        let end_ns = clock::now_ns() + FAREWELL_NS;
        while clock::now_ns() < end_ns && self.connections.values().any(|one| one.backlog_bytes() > 0) {
            self.turn(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 }))?;
        }
        Ok(())
    }

    /// Waits for something to do, and does it.
    pub(crate) fn turn(&mut self, events: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> Result<()> {
        self.set_timer()?;
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(to("epoll")(error)),
        }
        for event in events.iter() {
            self.handle(*event);
        }
        let now_ns = clock::now_ns();
        if self.server.next_deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            let actions = self.server.elapsed(now_ns);
            self.act(actions, ConnectionId(0));
        }
        if self.rested_ns.is_some_and(|rested_ns| rested_ns <= now_ns) {
            self.let_in_again();
        }
        if !self.reporters.is_empty() && now_ns - self.heard_ns >= HEAR_NS {
            self.hear_reports(now_ns);
        }
        self.send_due(now_ns);
        self.lend();
        if now_ns - self.swept_ns > SWEEP_NS {
            self.sweep(now_ns);
        }
        Ok(())
    }

    /// The timer is set when that is to change only: most turns are made because it rang.
    fn set_timer(&mut self) -> Result<()> {
        let due_ns = self.wheel.next_due_ns().map(|due_ns| due_ns.max(self.sent_ns + GATHER_NS));
        let swept_ns = self.swept_ns + SWEEP_NS + 1;
        let heard_ns = (!self.reporters.is_empty()).then_some(self.heard_ns + HEAR_NS);
        let deadline_ns = self.server.next_deadline_ns();
        let next = [due_ns, deadline_ns, self.urgent_ns(), heard_ns, self.rested_ns, Some(swept_ns)];
        // What is past is due at once; 0 would be never.
        let next_ns = next.into_iter().flatten().min().unwrap_or(u64::MAX).max(1);
        if next_ns != self.timer_ns {
            let at = Timespec { tv_sec: (next_ns / SECOND_NS) as i64, tv_nsec: (next_ns % SECOND_NS) as i64 };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = Itimerspec { it_interval: never, it_value: at };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).map_err(to("a timer"))?;
            self.timer_ns = next_ns;
        }
        Ok(())
    }

    fn handle(&mut self, event: epoll::Event) {
        match Token::of(event.data) {
            Token::Timer => {
                let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                self.timer_ns = 0;
            }
            Token::Readers => {
                let mut done = std::mem::take(&mut self.done);
                self.readers.take_done(&mut done);
                for one in done.drain(..) {
                    match one {
                        Done::Opened(question, result) => self.opened(question, result),
                        Done::Filled(filled) => self.filled(*filled),
                    }
                }
                self.done = done;
                self.send_prepared();
            }
            Token::Signals => self.heed(),
            Token::Stop => self.is_over = true,
            Token::Listener(number) => self.accept(number),
            Token::Connection(number) => self.converse(ConnectionId(number), event.flags),
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

    /// Forgets files that nobody watches.
    fn sweep(&mut self, now_ns: u64) {
        self.swept_ns = now_ns;
        self.admission.sweep(now_ns);
        self.sweep_stopped();
        let is_slow = |http_request: &HttpRequest| now_ns.saturating_sub(http_request.came_ns) > SWEEP_NS;
        let slow: Vec<_> =
            self.http_requests.iter().filter(|(_, one)| is_slow(one)).map(|(id, _)| *id).collect();
        for id in slow {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.is_broken = true;
            }
            self.tend(id);
        }
        self.shown
            .retain(|_, opened| Arc::strong_count(opened) > 1 || Arc::strong_count(&opened.presentation) > 1);
    }
}

/// Those that are heeded.
fn signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect()
}

fn listen(settings: &Settings) -> Result<Vec<(TcpListener, Kind)>> {
    let encrypted = settings.tls.iter().flat_map(|tls| &tls.listen);
    let all = settings.listen.iter().map(|address| (address, Kind::Plain));
    let all = all.chain(encrypted.map(|address| (address, Kind::Encrypted)));
    let all = all.chain(settings.status.iter().map(|address| (address, Kind::Status)));
    all.map(|(address, kind)| Ok((listeners::listen(*address)?, kind))).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::UdpSocket;

    use super::*;
    use crate::rig::{Rig, SETUP, session};

    const UDP: &str = "RTP/AVP;unicast;client_port=5000-5001";

    #[test]
    fn datagrams_that_nobody_asked_for_wake_nobody() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let response = rig.ask(&mut client, &SETUP.replace("RTP/AVP/TCP;interleaved=0-1", UDP));
        assert!(response.starts_with("RTSP/1.0 200"), "{response}");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        for port in <[u16; 2]>::from(rig.serving.datagrams.pair(0).ports) {
            stranger.send_to(b"rubbish", ("127.0.0.1", port)).expect("the server is there");
        }
        let end_ns = clock::now_ns() + SECOND_NS / 5;
        while clock::now_ns() < end_ns {
            rig.turn_within(10_000_000);
            assert!(rig.events.iter().all(|event| Token::of(event.data) == Token::Timer));
        }
    }

    #[test]
    fn nobody_is_remembered_who_went_before_the_answer() {
        let mut rig = Rig::with(|_| {});
        let mut stream = rig.connect(None);
        let response = rig.ask(&mut stream, SETUP);
        let session = session(&response);
        write!(stream, "PLAY rtsp://h/a.aac RTSP/1.0\r\nCSeq: 2\r\nSession: {session}\r\n\r\n")
            .expect("a request");
        drop(stream);
        while !rig.serving.connections.is_empty() {
            rig.turn();
        }
        assert_eq!((rig.serving.sessions.len(), rig.serving.askers.len()), (0, 0));
    }

    #[test]
    fn the_reports_of_a_new_session_on_old_ports_are_heard() {
        let mut rig = Rig::with(|settings| settings.udp_ports = 30_000..=39_999);
        let mut client = rig.connect(None);
        let udp = SETUP.replace("RTP/AVP/TCP;interleaved=0-1", UDP);
        let [old, new] = [(); 2].map(|()| rig.ask(&mut client, &udp));
        let end = |response: &str| {
            let session = session(response);
            format!("TEARDOWN rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n")
        };
        rig.ask(&mut client, &end(&old));
        assert_eq!(rig.serving.reporters.values().copied().collect::<Vec<_>>(), [SessionId(2)]);
        rig.ask(&mut client, &end(&new));
        assert!(rig.serving.reporters.is_empty());
    }

    #[test]
    fn who_would_play_without_memory_is_told_so_and_who_plays_goes_on() {
        // The least that a session has is a buffer of a tenth of a second, and what is left when it asks for another: 5.7 KB.
        let mut rig = Rig::with(|settings| settings.memory_bytes = 15_000);
        let mut clients: Vec<_> = (0..3).map(|_| rig.connect(None)).collect();
        let sessions: Vec<String> =
            clients.iter_mut().map(|client| session(&rig.ask(client, SETUP)).to_owned()).collect();
        let play = |session: &str, more: &str| {
            format!("PLAY rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\nRange: npt=0-\n{more}\n")
        };
        for (number, status) in [(0, "200"), (1, "200"), (2, "453")] {
            let response = rig.ask(&mut clients[number], &play(&sessions[number], ""));
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{number}: {response}");
        }
        let mut late = rig.connect(None);
        assert!(rig.ask(&mut late, SETUP).starts_with("RTSP/1.0 453 "));
        let share = rig.serving.sessions[0].share;
        clients[0]
            .write_all(play(&sessions[0], "Speed: 16\n").replace('\n', "\r\n").as_bytes())
            .expect("a request");
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("RTSP/1.0 453 ") {
            rig.turn();
            let mut buffer = [0; 2000];
            let count = clients[0].read(&mut buffer).unwrap_or_default();
            said.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(rig.serving.sessions[0].share, share);
        assert!(rig.serving.sessions[0].stream.position_ns(0).is_some(), "it plays as before");
    }

    #[test]
    fn a_track_that_is_set_up_again_and_again_is_one_track() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let first = rig.ask(&mut client, SETUP);
        let session = format!("CSeq: 2\nSession: {}\n", session(&first));
        let of_session = |request: &str| request.replace("CSeq: 1\n", &session);
        let play = of_session("PLAY rtsp://h/a.aac?loop RTSP/1.0\nCSeq: 1\nRange: npt=0-\n\n");
        let pause = of_session("PAUSE rtsp://h/a.aac RTSP/1.0\nCSeq: 1\n\n");
        for request in [&of_session(SETUP), &of_session(SETUP), &play, &pause, &of_session(SETUP), &play] {
            let mut said = rig.ask(&mut client, request);
            // Packets may come before.
            while !said.contains("RTSP/1.0 200 OK") {
                assert!(!said.contains("RTSP/1.0 4"), "{said}");
                said += &rig.ask(&mut client, "");
            }
            assert_eq!(rig.serving.sessions[0].stream.senders().len(), 1);
        }
        assert!(rig.serving.sessions[0].stream.position_ns(0).is_some(), "it plays");
    }

    #[test]
    fn one_address_has_so_many_sessions_and_others_have_theirs() {
        let mut rig = Rig::with(|settings| settings.sessions_per_address = 2);
        let mut one = rig.connect(Some("192.0.2.1:1000"));
        let first = rig.ask(&mut one, SETUP);
        let unsupported = SETUP.replace("RTP/AVP/TCP;interleaved=0-1", "RTP/AVP;multicast");
        for (request, status) in [(&*unsupported, "461"), (SETUP, "200"), (SETUP, "453")] {
            let response = rig.ask(&mut one, request);
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{response}");
        }
        let mut other = rig.connect(Some("192.0.2.2:1000"));
        assert!(rig.ask(&mut other, SETUP).starts_with("RTSP/1.0 200 "));
        let session = session(&first);
        let end = format!("TEARDOWN rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n");
        assert!(rig.ask(&mut one, &end).starts_with("RTSP/1.0 200 "));
        assert!(rig.ask(&mut one, SETUP).starts_with("RTSP/1.0 200 "));
    }
}
