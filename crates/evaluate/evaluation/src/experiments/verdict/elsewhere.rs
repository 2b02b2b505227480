//! Servers whose threads have nothing to do while requests are under way: what else holds the requests up.
//!
//! Each cause has its share of the requests, counted by itself. One that has a half of them is named.

use forebay_quantity::percent;

use super::{
    GENERATOR_FULL, HOLDERS_MIN, HOLDERS_WAIT, MOST, REFAULTED, STARVED, TIMER_PER_REQUEST, Verdict, WAITS,
    has_several, load_s, mostly_waits, own_share, takes_more_than_load,
};
use crate::experiments::evidence::{LINK_S_MIN, names};
use crate::experiments::{Dependency, DiskQueue, Evidence, Fewer, Limit, Threads};

/// A pool of connections is taken where this share of it waits.
const POOL_TAKEN: f64 = 0.85;
/// And where so few of the requests have a connection.
const POOL_SMALL: f64 = 0.6;
/// A disk is at its limit where it has something to do for this share of the time.
const DISK_FULL: f64 = 0.8;
/// A disk's work is the server's where the server moved this share of its bytes.
const DISK_OWN: f64 = 0.5;
/// Timers pace the requests where so many threads wait for one.
const TIMERS_MIN: f64 = 0.5;
/// So few requests at a time are turns that server and load take.
const FEW: f64 = 2.5;

impl Verdict {
    pub(super) fn held_up_elsewhere(
        &mut self,
        evidence: &Evidence,
        threads: Threads,
        (busy, could_be): (f64, f64),
        generator: Option<f64>,
    ) -> Limit {
        let under_way =
            evidence.under_way().map(|requests| format!("{requests:.1} requests were under way, but "));
        self.says(format!(
            "{}those of its threads that could be busy were idle for {}",
            under_way.unwrap_or_default(),
            percent(1.0 - busy)
        ));
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        let ours = own_share(evidence) >= MOST;
        match generator {
            Some(_) if ours && takes_more_than_load(evidence, machine_s) => {
                self.says(
                    "the server and the load together had all of the machine's processors, the server more"
                        .into(),
                );
                return self.processor_or_caches(evidence);
            }
            Some(share) if share >= GENERATOR_FULL => {
                self.says(format!("the load generator ran or wanted to for {}", percent(share)));
                return Limit::LoadGenerator;
            }
            _ => {}
        }
        let Some(requests) = evidence.under_way().filter(|requests| *requests > 0.0) else {
            self.undecided.push("how many requests were under way, and where they were held up".into());
            return Limit::Undecided;
        };
        self.clients(evidence, requests)
            .or_else(|| self.asks_another(evidence, requests))
            .or_else(|| {
                // All that could be busy waits for another program, however few that is.
                let asked = evidence.late_dependencies().filter(|_| threads.other >= MOST * could_be)?;
                self.blocks_on(&asked, (requests - threads.other).max(0.0))
            })
            .or_else(|| self.waits_for_a_disk(evidence, requests))
            .or_else(|| self.accepts_too_slowly(evidence, requests))
            .or_else(|| self.takes_turns(evidence, requests))
            .or_else(|| self.waits_for_a_timer(evidence, threads))
            .or_else(|| self.asks_itself(evidence, requests))
            .unwrap_or_else(|| self.waits_unknown(evidence, threads))
    }

    /// Connections that wait before the server all the time, while others are served.
    pub(super) fn takes_no_more(&mut self, evidence: &Evidence) -> Option<Limit> {
        let (clients, requests) = (evidence.clients?, evidence.under_way()?);
        let answer_s = evidence.latency_s();
        let before = clients.before() + clients.turned_away;
        if before < MOST * requests || clients.before_for_s < STARVED * answer_s {
            return None;
        }
        self.says(format!(
            "{before:.1} of {requests:.1} requests lie before it and have waited {:.2} s so far, while it answers others: all \
             that may serve a connection have one",
            clients.before_for_s
        ));
        Some(Limit::Workers)
    }

    /// Threads that wait for one that waits for another server.
    pub(super) fn holder_asks_another(&mut self, evidence: &Evidence, threads: Threads) -> Option<Limit> {
        let behind = threads.lock;
        let rest = threads.busy() - behind;
        let asked = evidence.late_dependencies()?;
        let holds = asked.waiting >= HOLDERS_MIN && asked.waiting >= HOLDERS_WAIT * (rest + asked.waiting);
        if behind < rest || !holds {
            return None;
        }
        self.asks_another(evidence, evidence.under_way()?).or_else(|| self.blocks_on(&asked, behind))
    }

    /// Threads that wait for another program themselves, and all the others for them.
    fn blocks_on(&mut self, asked: &Dependency, behind: f64) -> Option<Limit> {
        self.says(format!(
            "{:.1} of its threads wait for {}, and {behind:.1} requests for those",
            asked.waiting, asked.name
        ));
        self.name = Some(asked.name.clone());
        Some(Limit::Dependency)
    }

    /// Answers that the clients have not taken.
    fn clients(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let clients = evidence.clients?;
        if clients.untaken >= MOST * requests {
            self.says(format!("{:.1} answers lie with the load, which has not read them", clients.untaken));
            if own_share(evidence) < MOST {
                let what = "whether the load could ask faster: other programs have most of the processors";
                self.undecided.push(what.to_owned());
                return Some(Limit::Undecided);
            }
            return Some(Limit::LoadGenerator);
        }
        if evidence.on_the_link() >= MOST * requests {
            self.says(format!(
                "the link to its clients takes {:.1} ms for a round trip at least, and a request takes {:.1} ms in all: most \
                 requests and answers are on their way",
                clients.round_trip_s * 1e3,
                evidence.latency_s() * 1e3
            ));
            self.name = Some("(latency of the link)".to_owned());
            return Some(Limit::Network);
        }
        if clients.sending < MOST * requests {
            return None;
        }
        self.says(format!("{:.1} answers were written and not delivered", clients.sending));
        if clients.client_full >= MOST * clients.sending {
            self.says(format!("of those {:.1} had a client without room for more", clients.client_full));
        }
        if clients.held_back >= MOST * clients.sending {
            self.says(format!(
                "of those {:.1} had a rest that the kernel keeps until the client acknowledges the part that it has, which \
                 clients delay (Nagle's algorithm): set TCP_NODELAY, or write each answer with one call",
                clients.held_back
            ));
            self.name = Some("(delayed acknowledgements)".to_owned());
        }
        Some(Limit::Network)
    }

    /// Requests that wait for another server, or for a connection to it.
    fn asks_another(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let (latest, all) = (evidence.latest_dependency(false), evidence.late_dependencies());
        let mut late = [latest, all.as_ref()].into_iter().flatten();
        if let Some(late) = late.find(|one| one.waiting >= MOST * requests) {
            self.says(format!("{:.1} requests wait for the answer of {}", late.waiting, late.name));
            if late.round_trip_s >= LINK_S_MIN {
                self.says(format!(
                    "the link to it takes {:.1} ms for a round trip at least, which is a part of that",
                    late.round_trip_s * 1e3
                ));
            }
            self.name = Some(late.name.clone());
            return Some(Limit::Dependency);
        }
        self.pools_are_taken(evidence, requests)
    }

    /// Requests that wait for a part of the server itself, where nothing tells what that waits for.
    fn asks_itself(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let late = evidence.latest_dependency(true).filter(|one| one.waiting >= MOST * requests)?;
        self.says(format!(
            "{:.1} requests wait for the answer of {}, which is a part of the server itself",
            late.waiting, late.name
        ));
        self.name = Some(format!("{}, which is its own", late.name));
        Some(Limit::Dependency)
    }

    /// Requests that wait for a connection to another server, all of which are taken.
    fn pools_are_taken(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let is_taken =
            |one: &&Dependency| one.waiting >= POOL_TAKEN * one.connections && one.waiting >= POOL_TAKEN;
        let (mut taken, others): (Vec<_>, Vec<_>) = evidence.dependencies.iter().partition(is_taken);
        taken.sort_by(|one, other| other.waiting.total_cmp(&one.waiting));
        let name = names(&taken)?;
        let connections: f64 = taken.iter().map(|one| one.connections).sum();
        let waiting: f64 = taken.iter().map(|one| one.waiting).sum();
        let with_others: f64 = others.iter().filter(|one| !one.own).map(|one| one.waiting).sum();
        if connections + with_others > POOL_SMALL * requests {
            return None;
        }
        let before = evidence.clients.map_or(0.0, |clients| clients.before());
        self.says(format!("{waiting:.1} requests wait for the answer of {name}"));
        self.says(format!(
            "those are all {:.0} that may ask it at a time, and {:.1} requests wait until one of them is free",
            connections.ceil(),
            (requests - waiting - with_others).max(before)
        ));
        self.name = Some(format!("that ask {name}"));
        Some(Limit::Workers)
    }

    /// Reads and writes of a disk that no thread waits for, as those of io_uring.
    fn waits_for_a_disk(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let disk = own_disk(evidence)?;
        if disk.under_way < MOST * requests && disk.busy < DISK_FULL {
            return None;
        }
        let moved = moved_bytes(evidence);
        self.says(format!(
            "disk {} had {:.1} requests under way and was busy for {}; each answer moved {:.0} B",
            disk.name,
            disk.under_way,
            percent(disk.busy),
            moved / evidence.requests
        ));
        let again = evidence.refault_share().unwrap_or(0.0);
        if again >= REFAULTED && evidence.mostly_reads() {
            self.says(format!("{} of what was read from disks had been in memory before", percent(again)));
            return Some(Limit::VirtualMemory);
        }
        self.name = Some(disk.name.clone());
        Some(Limit::Disk)
    }

    /// Connections that wait until it accepts them, and others that the kernel does not even let wait.
    fn accepts_too_slowly(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let clients = evidence.clients?;
        let waiting = clients.not_accepted + clients.turned_away;
        let (is_full, is_short) = (clients.queue_full >= MOST, clients.turned_away >= MOST * requests);
        if waiting < MOST * requests || !(is_full || is_short) {
            return None;
        }
        let meaning = if is_full {
            "it accepts too slowly"
        } else {
            "its backlog is too short for connections that come at a time"
        };
        self.says(format!(
            "its accept queue was full for {}: {:.1} connections waited in it, and {:.1} found no room and try again after a \
             second or more",
            percent(clients.queue_full),
            clients.not_accepted,
            clients.turned_away
        ));
        self.says(format!(
            "{meaning}: up to {:.0} connections waited at a time, and its backlog is {:.0}",
            clients.queue.0, clients.queue.1
        ));
        Some(Limit::AcceptQueue)
    }

    /// So few clients that each waits while the other end computes.
    fn takes_turns(&mut self, evidence: &Evidence, requests: f64) -> Option<Limit> {
        let both_s = evidence.processor_s? + evidence.generator.map(|_| load_s(evidence))?;
        if requests > FEW || both_s < MOST * requests * evidence.seconds {
            return None;
        }
        self.says(format!(
            "server and load computed for {} of the time of each request, in turn: more clients would get more",
            percent(both_s / (requests * evidence.seconds))
        ));
        Some(Limit::LoadGenerator)
    }

    /// Threads that wait for events until a time of their own choice, which is about as long as a request takes.
    fn waits_for_a_timer(&mut self, evidence: &Evidence, threads: Threads) -> Option<Limit> {
        evidence.in_flight?;
        let longest_s = TIMER_PER_REQUEST * evidence.latency_s();
        let paced = evidence.timeouts.within(longest_s, &evidence.timeouts_at_rest);
        if paced < TIMERS_MIN {
            return None;
        }
        self.says(format!(
            "{paced:.1} of its threads wait for a timer of their own, of at most {:.1} ms",
            longest_s * 1e3
        ));
        self.asks_for = (has_several(evidence) && mostly_waits(evidence, threads)).then_some(Fewer::Half);
        Some(Limit::Sleep)
    }

    /// What is known of a wait whose cause is not.
    fn waits_unknown(&mut self, evidence: &Evidence, threads: Threads) -> Limit {
        let before = evidence.clients.map_or(0.0, |clients| clients.before());
        let mut seen = Vec::new();
        if before >= 0.05 {
            seen.push(format!("{before:.1} requests lie before it"));
        }
        if let Some(asked) = evidence.late_dependencies().filter(|asked| asked.waiting >= 0.05) {
            seen.push(format!("{:.1} wait for {}", asked.waiting, asked.name));
        }
        if threads.parked >= 0.05 {
            seen.push(format!("{:.1} of its threads wait for other threads, each alone", threads.parked));
        }
        if !evidence.leads.is_empty() {
            seen.push(format!("it also has {}", evidence.leads.join(", ")));
        }
        let seen = if seen.is_empty() { String::new() } else { format!("; {}", seen.join("; ")) };
        self.undecided.push(format!("{WAITS}{seen}"));
        self.asks_for = (has_several(evidence) && mostly_waits(evidence, threads)).then_some(Fewer::Half);
        Limit::Undecided
    }
}

fn moved_bytes(evidence: &Evidence) -> f64 {
    evidence.disk_read_bytes.unwrap_or(0.0) + evidence.disk_written_bytes.unwrap_or(0.0)
}

/// The busiest disk, where what it moves is the server's.
pub(super) fn own_disk(evidence: &Evidence) -> Option<&DiskQueue> {
    let moved = moved_bytes(evidence);
    evidence.disk.as_ref().filter(|disk| moved > 0.0 && moved >= DISK_OWN * disk.bytes)
}
