//! Where the requests of a server are, by its connections: before it, behind it, or with another server that it asks.

use std::collections::{BTreeMap, BTreeSet};

use core::net::{IpAddr, SocketAddr};

use forebay_linux::{Connection, ConnectionState, Traffic};

/// Connections from clients, on the average over some looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clients {
    /// All of them.
    pub connections: f64,
    /// The server has not accepted these.
    pub not_accepted: f64,
    /// It has accepted these, and not read what they ask.
    pub unread: f64,
    /// How long those that are not accepted or not read have been so, in seconds.
    pub before_for_s: f64,
    /// The kernel has no room for these among those that wait to be accepted: each is asked for again, a second later or more.
    pub turned_away: f64,
    /// The share of the looks in which no more connections could wait to be accepted.
    pub queue_full: f64,
    /// So many connections waited to be accepted at one socket at most, and so many may.
    pub queue: (f64, f64),
    /// The least round trip of the links to them, in seconds; 0 where the kernel does not tell.
    pub round_trip_s: f64,
    /// Answers that the server has written are still on its side.
    pub sending: f64,
    /// Of those, the ones whose client has no room.
    pub client_full: f64,
    /// Of those, the ones whose rest waits for the client to acknowledge a part that it has.
    pub held_back: f64,
    /// Answers lie with the client, which has not read them.
    pub untaken: f64,
    /// Requests that the server has read, as far as the last that came over the connection is one.
    pub asking: f64,
}

/// Another server that this one asks, on the average over some looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// Its address, or what else tells it from others.
    pub name: String,
    /// Connections to it, or the most threads that waited for it at a time.
    pub connections: f64,
    /// Of those, the ones whose answer is due.
    pub waiting: f64,
    /// Whether it is a part of the server that is measured.
    pub own: bool,
    /// The least round trip of the link to it, in seconds; 0 where the kernel does not tell.
    pub round_trip_s: f64,
}

/// Sums over looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sockets {
    looks: f64,
    clients: Clients,
    /// Since when requests have been before the server: by the ends of the connection, and what has come over it.
    before: BTreeMap<(SocketAddr, SocketAddr, u64), f64>,
    dependencies: BTreeMap<String, Asked>,
    full: f64,
    /// At the listening socket where most waited: those, and those that may.
    queue: (u32, u32),
    round_trip_us: Option<u32>,
}

/// Sums of one dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Asked {
    connections: f64,
    waiting: f64,
    own: bool,
    round_trip_us: Option<u32>,
}

/// What has arrived is acknowledged within the machine in less than this, unless the acknowledgement is delayed.
const HELD_MS: u32 = 4;

/// A fact of one connection: what it says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    TurnedAway,
    NotAccepted,
    Unread,
    Untaken,
    Sending { client_full: bool, held_back: bool },
    Asking,
    Elsewhere,
}

impl Sockets {
    /// Adds a look `at` so many seconds at all connections of the machine, of which the server has those with the inodes that
    /// `is_own` knows.
    pub fn add(&mut self, at: f64, all: &[Connection], is_own: impl Fn(u32) -> bool) {
        self.looks += 1.0;
        let before = std::mem::take(&mut self.before);
        let own = |one: &Connection| one.inode != 0 && is_own(one.inode);
        let listening = |one: &&Connection| one.state == ConnectionState::Listening && own(one);
        let ports: BTreeSet<u16> = all.iter().filter(listening).map(|one| one.local.port()).collect();
        self.full += f64::from(u8::from(all.iter().filter(listening).any(Connection::is_full)));
        let queues = all.iter().filter(listening).filter_map(|one| Some((one.unread, one.backlog?)));
        self.queue = queues.fold(self.queue, |most, queue| if queue.0 >= most.0 { queue } else { most });
        let here: BTreeSet<IpAddr> = all.iter().map(|one| one.local.ip()).collect();
        let ends: BTreeMap<(SocketAddr, SocketAddr), &Connection> =
            all.iter().map(|one| ((one.local, one.remote), one)).collect();
        let is_connection = |one: &&Connection| one.state != ConnectionState::Listening;
        for one in all.iter().filter(is_connection) {
            let other_end = ends.get(&(one.remote, one.local)).copied();
            let other_is_own = other_end.is_some_and(own);
            let accepted = ports.contains(&one.local.port()) && !ports.contains(&one.remote.port());
            if accepted && (one.inode == 0 || own(one)) {
                let Some(place) = Place::of(one, other_end).filter(|_| !other_is_own) else { continue };
                self.clients.add(place);
                self.round_trip_us = self.round_trip_us.into_iter().chain(round_trip_us(one)).min();
                if matches!(place, Place::NotAccepted | Place::Unread) {
                    let come = one.traffic.map_or(0, |traffic| traffic.received);
                    let request = (one.local, one.remote, come);
                    let since = before.get(&request).copied().unwrap_or(at);
                    self.before.insert(request, since);
                    self.clients.before_for_s += at - since;
                }
            } else if own(one) {
                self.asks(one, ports.contains(&one.remote.port()) && other_is_own);
            } else if one.state == ConnectionState::Connecting
                && ports.contains(&one.remote.port())
                && here.contains(&one.remote.ip())
            {
                self.clients.add(Place::TurnedAway);
            }
        }
    }

    fn asks(&mut self, one: &Connection, own: bool) {
        let waits = match one.state {
            ConnectionState::Connecting => true,
            ConnectionState::Established => one.unread == 0 && one.traffic.is_some_and(is_due),
            _ => return,
        };
        let asked = self.dependencies.entry(one.remote.to_string()).or_default();
        asked.own |= own;
        asked.connections += 1.0;
        asked.waiting += f64::from(u8::from(waits));
        asked.round_trip_us = asked.round_trip_us.into_iter().chain(round_trip_us(one)).min();
    }

    /// What was seen, on the average; `None` before the first look.
    #[must_use]
    pub fn means(&self) -> Option<(Clients, Vec<Dependency>)> {
        if self.looks == 0.0 {
            return None;
        }
        let mean = |sum: f64| sum / self.looks;
        let sums = self.clients;
        let clients = Clients {
            connections: mean(sums.connections),
            not_accepted: mean(sums.not_accepted),
            unread: mean(sums.unread),
            before_for_s: sums.before_for_s / sums.before().max(1.0),
            turned_away: mean(sums.turned_away),
            queue_full: mean(self.full),
            queue: (self.queue.0.into(), self.queue.1.into()),
            round_trip_s: in_seconds(self.round_trip_us),
            sending: mean(sums.sending),
            client_full: mean(sums.client_full),
            held_back: mean(sums.held_back),
            untaken: mean(sums.untaken),
            asking: mean(sums.asking),
        };
        let dependency = |(name, asked): (&String, &Asked)| Dependency {
            name: name.clone(),
            connections: mean(asked.connections),
            waiting: mean(asked.waiting),
            own: asked.own,
            round_trip_s: in_seconds(asked.round_trip_us),
        };
        Some((clients, self.dependencies.iter().map(dependency).collect()))
    }
}

impl Dependency {
    /// Those of `loaded` with what waits beyond that `at_rest`: a connection may wait for news all the time.
    #[must_use]
    pub fn beyond(loaded: Vec<Self>, at_rest: &[Self]) -> Vec<Self> {
        let less = |one: Self| {
            let rest = at_rest.iter().find(|rest| rest.name == one.name).map_or(0.0, |rest| rest.waiting);
            let gone = rest.min(one.waiting);
            Self { waiting: one.waiting - gone, connections: one.connections - gone, ..one }
        };
        loaded.into_iter().map(less).collect()
    }
}

impl Clients {
    /// Requests that the server has not begun with.
    #[must_use]
    pub fn before(&self) -> f64 {
        self.not_accepted + self.unread
    }

    /// All connections, where most have a request under way: then those of the others are too fast to be seen. A load that keeps to
    /// a schedule has connections without one.
    #[must_use]
    pub fn all_under_way(self) -> Option<f64> {
        let seen = self.before() + self.turned_away + self.sending + self.untaken + self.asking;
        (seen > 0.0 && 2.0 * seen >= self.connections).then_some(self.connections)
    }

    fn add(&mut self, place: Place) {
        self.connections += 1.0;
        match place {
            Place::TurnedAway => self.turned_away += 1.0,
            Place::NotAccepted => self.not_accepted += 1.0,
            Place::Unread => self.unread += 1.0,
            Place::Untaken => self.untaken += 1.0,
            Place::Sending { client_full, held_back } => {
                self.sending += 1.0;
                self.client_full += f64::from(u8::from(client_full));
                self.held_back += f64::from(u8::from(held_back));
            }
            Place::Asking => self.asking += 1.0,
            Place::Elsewhere => {}
        }
    }
}

impl Place {
    /// By the server's end, and by the client's where that is on this machine; `None` of a connection that begins or ends.
    fn of(end: &Connection, client: Option<&Connection>) -> Option<Self> {
        let is_open = |one: &Connection| one.state == ConnectionState::Established;
        match end.state {
            ConnectionState::Established => Some(Self::of_open(end, client)),
            // The client has its answer to the first segment, and its own answer to that found no room.
            ConnectionState::Arriving => client.is_some_and(is_open).then_some(Self::TurnedAway),
            _ => None,
        }
    }

    fn of_open(end: &Connection, client: Option<&Connection>) -> Self {
        let traffic = end.traffic.unwrap_or_default();
        // The acknowledgement of what has come may be sent with the next request only.
        let arrived = client.and_then(|client| client.traffic).zip(traffic.sent);
        let arrived = arrived.is_some_and(|(client, sent)| client.received >= sent);
        let on_the_way = traffic.not_sent > 0 || (traffic.unacknowledged > 0 && !arrived);
        let untaken = traffic.not_sent == 0 && client.is_some_and(|client| client.unread > 0);
        match () {
            () if end.inode == 0 => Self::NotAccepted,
            () if end.unread > 0 => Self::Unread,
            () if untaken => Self::Untaken,
            () if on_the_way => {
                let client_full = traffic.receiver_full_us * 2 > traffic.busy_us;
                let is_small = traffic.not_sent > 0 && traffic.unacknowledged == 1;
                let held_back = is_small && arrived && !client_full && traffic.sent_ago >= HELD_MS;
                Self::Sending { client_full, held_back }
            }
            () if client.and_then(|client| client.traffic).map_or(is_last(traffic), is_due) => Self::Asking,
            () => Self::Elsewhere,
        }
    }
}

/// Of a connection over which something has come.
fn round_trip_us(one: &Connection) -> Option<u32> {
    one.traffic.filter(|traffic| traffic.segments_received > 0)?.round_trip_us
}

fn in_seconds(us: Option<u32>) -> f64 {
    us.map_or(0.0, |us| f64::from(us) / 1e6)
}

/// Whether the last that happened on a connection is that something came.
fn is_last(traffic: Traffic) -> bool {
    traffic.segments_received > 0 && (traffic.segments_sent == 0 || traffic.received_ago < traffic.sent_ago)
}

/// Whether the last that happened on a connection is that its program sent something. An answer acknowledges what it
/// answers, so what is not acknowledged is not answered. An acknowledgement after the last data is for a later question.
fn is_due(traffic: Traffic) -> bool {
    if traffic.segments_sent == 0 {
        return false;
    }
    traffic.segments_received == 0
        || traffic.unacknowledged > 0
        || traffic.not_sent > 0
        || traffic.acknowledged_ago < traffic.received_ago
        || traffic.sent_ago < traffic.received_ago
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: u16 = 80;
    const BACK_END: u16 = 5432;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn listener(port: u16, inode: u32) -> Connection {
        let (state, traffic) = (ConnectionState::Listening, None);
        Connection { state, local: at(port), remote: at(0), inode, unread: 0, backlog: Some(4), traffic }
    }

    fn end(local: u16, remote: u16, inode: u32, traffic: Traffic) -> Connection {
        let (local, remote, traffic) = (at(local), at(remote), Some(traffic));
        let state = ConnectionState::Established;
        Connection { state, local, remote, inode, unread: 0, backlog: None, traffic }
    }

    /// Its segments were sent and received in turn, and nothing is under way.
    const QUIET: Traffic = Traffic {
        unacknowledged: 0,
        not_sent: 0,
        sent_ago: 8,
        received_ago: 8,
        acknowledged_ago: 8,
        segments_received: 5,
        segments_sent: 5,
        busy_us: 100,
        receiver_full_us: 0,
        received: 500,
        sent: Some(5_000),
        round_trip_us: None,
    };

    /// The server's sockets have inodes below 100.
    fn look(connections: &[Connection]) -> (Clients, Vec<Dependency>) {
        let mut sockets = Sockets::default();
        let mut all = vec![listener(SERVER, 1)];
        all.extend(connections);
        sockets.add(0.0, &all, |inode| inode < 100);
        sockets.means().unwrap()
    }

    #[test]
    fn a_clients_connection_tells_where_its_request_is() {
        let unread = Connection { unread: 90, ..end(SERVER, 4001, 2, QUIET) };
        let held = Traffic { not_sent: 700, unacknowledged: 1, ..QUIET };
        let full = Traffic { receiver_full_us: 90, ..held };
        let (clients, dependencies) = look(&[
            unread,
            end(SERVER, 4000, 0, QUIET),
            end(SERVER, 4002, 3, held),
            end(SERVER, 4003, 4, full),
            end(SERVER, 4004, 5, QUIET),
            // The client has what was sent, and has not said so.
            end(SERVER, 4006, 7, Traffic { unacknowledged: 1, ..QUIET }),
            end(4006, SERVER, 902, Traffic { received: 5_000, ..QUIET }),
            // The client has what was sent, and the rest waits until it says so.
            end(SERVER, 4007, 8, held),
            end(4007, SERVER, 903, Traffic { received: 5_000, ..QUIET }),
            Connection { unread: 10, ..end(4005, SERVER, 901, QUIET) },
            end(SERVER, 4005, 6, Traffic { unacknowledged: 1, ..QUIET }),
        ]);
        let expected = Clients {
            connections: 8.0,
            not_accepted: 1.0,
            unread: 1.0,
            before_for_s: 0.0,
            sending: 3.0,
            client_full: 1.0,
            held_back: 1.0,
            untaken: 1.0,
            queue: (0.0, 4.0),
            ..Clients::default()
        };
        assert_eq!(clients, expected);
        assert_eq!((dependencies, clients.before()), (vec![], 2.0));
    }

    #[test]
    fn all_connections_have_a_request_where_most_are_seen_to() {
        let asking = end(SERVER, 4002, 2, Traffic { received_ago: 2, ..QUIET });
        let first = end(SERVER, 4003, 3, Traffic { segments_sent: 0, ..QUIET });
        let quiet = |number: u16| end(SERVER, 4000 + number, number.into(), QUIET);
        assert_eq!(look(&[asking, first, quiet(4)]).0.all_under_way(), Some(3.0));
        assert_eq!(look(&[asking, quiet(3), quiet(4)]).0.all_under_way(), None);
        assert_eq!(look(&[]).0.all_under_way(), None);
        // The client's end knows it, where that is of this machine.
        let due = end(4004, SERVER, 904, Traffic { unacknowledged: 1, received: 5_000, ..QUIET });
        let answered = end(4002, SERVER, 902, Traffic { received: 5_000, ..QUIET });
        assert_eq!(look(&[quiet(4), due]).0.all_under_way(), Some(1.0));
        assert_eq!(look(&[asking, answered]).0.all_under_way(), None);
    }

    #[test]
    fn a_request_is_before_the_server_from_the_first_look_that_found_it_there() {
        let mut sockets = Sockets::default();
        let listening = listener(SERVER, 1);
        let not_accepted = |port| end(SERVER, port, 0, QUIET);
        let unread = |received| {
            let traffic = Traffic { received, ..QUIET };
            Connection { unread: 90, ..end(SERVER, 4002, 2, traffic) }
        };
        // One waits all the time. Of the others each look finds another request, over new connections and over a kept one.
        for (at, other) in [(1.0, 5001), (2.0, 5002), (3.0, 5003)] {
            let all = [listening, not_accepted(4000), not_accepted(other), unread(other.into())];
            sockets.add(at, &all, |inode| inode < 100);
        }
        let (clients, _) = sockets.means().unwrap();
        assert_eq!((clients.before(), clients.before_for_s), (3.0, 1.0 / 3.0));
    }

    #[test]
    fn connections_that_find_no_room_in_a_full_queue_are_turned_away() {
        let connecting = |client, server| Connection {
            state: ConnectionState::Connecting,
            ..end(client, server, 900, Traffic::default())
        };
        let arriving = Connection { state: ConnectionState::Arriving, ..end(SERVER, 4002, 0, QUIET) };
        let all = [
            Connection { unread: 5, ..listener(SERVER, 1) },
            end(SERVER, 4000, 0, QUIET),
            connecting(4001, SERVER),
            arriving,
            end(4002, SERVER, 902, QUIET),
            // One that comes over a link, one to another server, and one of this server to another machine's port 80.
            Connection { state: ConnectionState::Arriving, ..end(SERVER, 4003, 0, QUIET) },
            connecting(4004, BACK_END),
            Connection { remote: "10.0.0.1:80".parse().unwrap(), ..connecting(4005, SERVER) },
        ];
        let mut sockets = Sockets::default();
        sockets.add(0.0, &all, |inode| inode < 100);
        sockets.add(1.0, &[listener(SERVER, 1)], |inode| inode < 100);
        let (clients, _) = sockets.means().unwrap();
        assert_eq!((clients.turned_away, clients.not_accepted, clients.connections), (1.0, 0.5, 1.5));
        assert_eq!((clients.queue_full, clients.queue), (0.5, (5.0, 4.0)));
    }

    #[test]
    fn the_least_round_trip_of_clients_that_asked_is_that_of_their_links() {
        let after = |us, segments_received| Traffic { round_trip_us: Some(us), segments_received, ..QUIET };
        let of = |connections: &[Connection]| look(connections).0.round_trip_s;
        let far = [end(SERVER, 4001, 2, after(40_000, 5)), end(SERVER, 4002, 3, after(41_000, 5))];
        assert_eq!((of(&far), of(&[end(SERVER, 4001, 2, QUIET)])), (0.04, 0.0));
        // A connection without a request, and one that is the server's own.
        let others = [end(SERVER, 4003, 4, after(20, 0)), end(4010, BACK_END, 10, after(30, 5))];
        let (clients, dependencies) = look(&[&far[..], &others[..]].concat());
        assert_eq!((clients.round_trip_s, dependencies[0].round_trip_s), (0.04, 30e-6));
    }

    #[test]
    fn an_answer_is_due_where_the_last_that_happened_is_a_question() {
        let traffic = |changed: fn(&mut Traffic)| {
            let mut traffic = QUIET;
            changed(&mut traffic);
            traffic
        };
        for due in [
            traffic(|one| one.unacknowledged = 1),
            traffic(|one| one.sent_ago = 2),
            traffic(|one| one.acknowledged_ago = 4),
            traffic(|one| one.segments_received = 0),
        ] {
            assert!(is_due(due), "{due:?}");
        }
        for not_due in [
            QUIET,
            traffic(|one| one.received_ago = 2),
            traffic(|one| (one.segments_sent, one.segments_received) = (0, 0)),
        ] {
            assert!(!is_due(not_due), "{not_due:?}");
        }
    }

    #[test]
    fn a_server_that_is_asked_is_named_and_an_answer_that_lies_there_is_not_waited_for() {
        let asking = Traffic { unacknowledged: 1, ..QUIET };
        let connecting =
            Connection { state: ConnectionState::Connecting, ..end(4013, BACK_END, 13, Traffic::default()) };
        let (_, dependencies) = look(&[
            end(4010, BACK_END, 10, asking),
            Connection { unread: 30, ..end(4011, BACK_END, 11, asking) },
            end(4012, BACK_END, 12, QUIET),
            connecting,
            // Of another program.
            end(4014, BACK_END, 990, asking),
        ]);
        let name = format!("127.0.0.1:{BACK_END}");
        let expected = Dependency { name, connections: 4.0, waiting: 2.0, ..Dependency::default() };
        assert_eq!(dependencies, [expected]);
    }

    #[test]
    fn a_server_that_asks_itself_is_no_client_of_its_own() {
        let asking = Traffic { unacknowledged: 1, ..QUIET };
        let (clients, dependencies) =
            look(&[listener(9000, 20), end(4020, 9000, 21, asking), end(9000, 4020, 22, QUIET)]);
        assert_eq!(clients, Clients { queue: (0.0, 4.0), ..Clients::default() });
        assert!(dependencies.len() == 1 && dependencies[0].own, "{dependencies:?}");
    }

    #[test]
    fn what_waits_for_news_without_a_load_waits_for_no_answer() {
        let waiting =
            |waiting| Dependency { name: "a".into(), connections: 4.0, waiting, ..Dependency::default() };
        let beyond = Dependency::beyond(vec![waiting(3.0)], &[waiting(1.0)]);
        assert_eq!((beyond[0].waiting, beyond[0].connections), (2.0, 3.0));
    }
}
