//! Every combination of levels, as something that can be run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::experiments::description::{
    Any, Attached, Connections, Description, Router, RouterLayout, RtspServer, Streaming, Web, WebServer,
};
use crate::experiments::levels::{AtLeastOne, Levels, Memory, Rate, TimeUnit};

/// One server under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The server's name in results.
    pub subject: String,
    /// The level of each factor.
    pub levels: Vec<Level>,
    /// What is measured.
    pub server: Server,
    /// What it has to do.
    pub load: Load,
    /// Bytes of memory that it has; `None` for all of the machine's.
    pub memory_bytes: Option<u64>,
}

impl Trial {
    /// The condition in results, e.g. `document 10 KiB/16 clients`.
    #[must_use]
    pub fn case(&self) -> String {
        self.levels.iter().map(|level| level.shown.as_str()).collect::<Vec<_>>().join("/")
    }

    /// The same with fewer of its clients; `None` where it has no two, or they keep to a schedule.
    #[must_use]
    pub fn with_fewer_clients(&self, fewer: Fewer) -> Option<Self> {
        let mut trial = self.clone();
        if let Load::Command { arguments, with_fewer_clients, .. } = &mut trial.load {
            *arguments = std::mem::take(with_fewer_clients).remove(&fewer)?;
            return Some(trial);
        }
        let (Load::Documents { clients, rate, .. } | Load::Address { clients, rate, .. }) = &mut trial.load
        else {
            return None;
        };
        if *rate != Rate::Most || *clients < 2 {
            return None;
        }
        *clients = fewer.of(*clients);
        Some(trial)
    }
}

/// Fewer clients than a server has, to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fewer {
    /// As many answers as before, or half as many, tell whether requests wait for each other.
    Half,
    /// Nobody is there to wait for or to be in the way of.
    One,
}

impl Fewer {
    pub(crate) const ALL: [Self; 2] = [Self::Half, Self::One];

    fn of(self, clients: u16) -> u16 {
        match self {
            Self::Half => clients / 2,
            Self::One => 1,
        }
    }
}

impl fmt::Display for Fewer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Half => "half the clients",
            Self::One => "one client",
        })
    }
}

/// A level of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The factor.
    pub factor: String,
    /// As results show it.
    pub shown: String,
}

impl Level {
    fn new(factor: &str, shown: impl Into<String>) -> Self {
        Self { factor: factor.to_owned(), shown: shown.into() }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Server {
    /// A web server with files.
    Web(WebServer),
    /// A streaming server with media.
    Rtsp(RtspServer),
    /// The kernel's forwarding.
    Forwarding(RouterLayout),
    /// A command line, with `{port}` in it.
    Command(Vec<String>),
    /// One that runs already.
    Attached(Attached),
}

/// What a server has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Files of one size, in no order.
    Documents {
        /// Size of each.
        bytes: u64,
        /// Of all together, at least.
        total_bytes: u64,
        /// Who asks for them.
        clients: u16,
        /// How often.
        rate: Rate,
        /// Over which connections.
        connections: Connections,
    },
    /// One address, with `{port}` in it.
    Address {
        /// An `http://` or `https://` one.
        url: String,
        /// With what.
        asked: Asked,
        /// Who asks for it.
        clients: u16,
        /// How often.
        rate: Rate,
        /// Over which connections.
        connections: Connections,
    },
    /// Media, each played from its beginning.
    Media {
        /// Of each stream.
        bits_per_second: u64,
        /// Who plays them.
        clients: u16,
        /// Files that the clients spread over.
        media: u16,
    },
    /// Messages through a router.
    Messages {
        /// Size of each.
        bytes: u64,
    },
    /// A command line, with `{port}` and `{seconds}` in it.
    Command {
        /// The program and its arguments.
        arguments: Vec<String>,
        /// The same for fewer clients; nothing where the command line does not name their number, or there are no two.
        with_fewer_clients: BTreeMap<Fewer, Vec<String>>,
        /// Where in its output its figures are.
        prints: Prints,
    },
}

/// Where a load prints its figures. Labels stand on the line of the number, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prints {
    /// Labels before its transactions a second.
    pub transactions_after: Vec<String>,
    /// What stands right behind those transactions.
    pub transactions_before: Option<String>,
    /// Labels before its p99.
    pub p99_after: Vec<String>,
    /// The unit of a p99 without one; else it is in seconds.
    pub p99_unit: Option<TimeUnit>,
}

impl Prints {
    /// Whether it says how many transactions it makes.
    #[must_use]
    pub fn transactions(&self) -> bool {
        !self.transactions_after.is_empty() || self.transactions_before.is_some()
    }
}

impl Load {
    /// Whether a load is one transaction, because it does not say how many it makes.
    #[must_use]
    pub fn is_one_transaction(&self) -> bool {
        matches!(self, Self::Command { prints, .. } if !prints.transactions())
    }
}

/// What a request has besides its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Such as `POST`.
    pub method: String,
    /// By their names.
    pub headers: BTreeMap<String, String>,
    /// Empty where there is none.
    pub body: String,
}

/// What asks for a document.
impl Default for Asked {
    fn default() -> Self {
        Self { method: "GET".to_owned(), headers: BTreeMap::new(), body: String::new() }
    }
}

impl Description {
    /// Every combination of levels, in the order of a round.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        let web = self.web.iter().flat_map(Web::trials);
        let streaming = self.streaming.iter().flat_map(Streaming::trials);
        let router = self.router.iter().flat_map(Router::trials);
        let any = self.any.iter().flat_map(Any::trials);
        web.chain(streaming).chain(router).chain(any).collect()
    }

    /// The address of a server that this one asks, where it is given.
    #[must_use]
    pub fn dependency(&self) -> Option<&str> {
        self.any.as_ref()?.dependency.as_deref()
    }

    /// What succeeds once the server can be asked, where that is given.
    #[must_use]
    pub fn ready(&self) -> Option<&[String]> {
        self.any.as_ref()?.ready.as_deref()
    }

    /// The folder of the files that the server reads, where it is given.
    #[must_use]
    pub fn files(&self) -> Option<&Path> {
        self.any.as_ref()?.files.as_deref()
    }

    /// The port that the server listens on, where it is given.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.any.as_ref()?.port.map(AtLeastOne::get)
    }
}

impl Web {
    fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for &document in self.document.iter() {
            for clients in self.clients.iter().map(|clients| clients.get()) {
                for &rate in self.rate.iter() {
                    for &memory in self.memory.iter() {
                        // The servers come last, so that what is compared is run one after the other.
                        trials.extend(self.servers.iter().map(|&server| {
                            let mut levels = vec![Level::new("document", document.in_bytes())];
                            levels.extend(offered(clients, rate));
                            levels.extend(limited(memory));
                            Trial {
                                subject: match server {
                                    WebServer::Nginx => "nginx".to_owned(),
                                    WebServer::Apache => "apache".to_owned(),
                                },
                                levels,
                                server: Server::Web(server),
                                load: Load::Documents {
                                    bytes: document.bytes(),
                                    total_bytes: self.documents.bytes(),
                                    clients,
                                    rate,
                                    connections: self.connections,
                                },
                                memory_bytes: bytes_of(memory),
                            }
                        }));
                    }
                }
            }
        }
        trials
    }
}

impl Streaming {
    fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for &bitrate in self.bitrate.iter() {
            for media in self.media.iter().map(|media| media.get()) {
                for clients in self.clients.iter().map(|clients| clients.get()) {
                    for &memory in self.memory.iter() {
                        trials.extend(self.servers.iter().map(|&server| {
                            let mut levels = vec![
                                Level::new("bitrate", bitrate.in_bits_per_second()),
                                Level::new("media", format!("{media} media")),
                                Level::new("clients", format!("{clients} clients")),
                            ];
                            levels.extend(limited(memory));
                            Trial {
                                subject: match server {
                                    RtspServer::Gstreamer => "gstreamer".to_owned(),
                                    RtspServer::Forebay => "forebay".to_owned(),
                                    RtspServer::Mediamtx => "mediamtx".to_owned(),
                                },
                                levels,
                                server: Server::Rtsp(server),
                                load: Load::Media { bits_per_second: bitrate.decimal(), clients, media },
                                memory_bytes: bytes_of(memory),
                            }
                        }));
                    }
                }
            }
        }
        trials
    }
}

impl Router {
    fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for &layout in self.layout.iter() {
            let name = match layout {
                RouterLayout::OneToOne => "one to one",
                RouterLayout::FullDuplex => "full duplex",
                RouterLayout::ManyToOne => "many to one",
            };
            trials.extend(self.message.iter().map(|message| Trial {
                subject: "forwarding".to_owned(),
                levels: vec![Level::new("layout", name), Level::new("message", message.in_bytes())],
                server: Server::Forwarding(layout),
                load: Load::Messages { bytes: message.bytes() },
                memory_bytes: None,
            }));
        }
        trials
    }
}

impl Any {
    fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for factors in combinations(&self.factors) {
            for clients in self.clients.iter().map(|clients| clients.get()) {
                for &rate in self.rate.iter() {
                    for &memory in self.memory.iter() {
                        let filled = |line: &[String]| -> Vec<String> {
                            line.iter().map(|word| fill(word, &factors, clients)).collect()
                        };
                        let mut levels: Vec<Level> = factors
                            .iter()
                            .map(|(name, level)| Level::new(name, format!("{name} {level}")))
                            .collect();
                        levels.extend(offered(clients, rate));
                        levels.extend(limited(memory));
                        trials.push(Trial {
                            subject: self.name.clone(),
                            levels,
                            server: self.target(filled),
                            load: match (&self.url, &self.load) {
                                (Some(url), _) => Load::Address {
                                    url: fill(url, &factors, clients),
                                    asked: self.asked(|text| fill(text, &factors, clients)),
                                    clients,
                                    rate,
                                    connections: self.connections,
                                },
                                (None, load) => {
                                    let words = load.as_deref().unwrap_or_default();
                                    self.command(
                                        words,
                                        |word, clients| fill(word, &factors, clients),
                                        clients,
                                    )
                                }
                            },
                            memory_bytes: bytes_of(memory),
                        });
                    }
                }
            }
        }
        trials
    }

    fn asked(&self, filled: impl Fn(&str) -> String) -> Asked {
        let method = self.method.as_deref().unwrap_or(if self.body.is_empty() { "GET" } else { "POST" });
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), filled(value)));
        Asked { method: filled(method), headers: headers.collect(), body: filled(&self.body) }
    }

    /// The load with this command line.
    fn command(&self, words: &[String], filled: impl Fn(&str, u16) -> String, clients: u16) -> Load {
        let for_clients = |clients| words.iter().map(|word| filled(word, clients)).collect::<Vec<_>>();
        let arguments = for_clients(clients);
        let with_fewer = |fewer: Fewer| (fewer, for_clients(fewer.of(clients)));
        let told =
            Fewer::ALL.map(with_fewer).into_iter().filter(|(_, other)| clients >= 2 && *other != arguments);
        Load::Command { with_fewer_clients: told.collect(), arguments, prints: self.prints() }
    }

    pub(super) fn prints(&self) -> Prints {
        let labels =
            |labels: &Option<Levels<String>>| labels.iter().flat_map(Levels::iter).cloned().collect();
        Prints {
            transactions_after: labels(&self.transactions_after),
            transactions_before: self.transactions_before.clone(),
            p99_after: labels(&self.p99_after),
            p99_unit: self.p99_unit,
        }
    }

    fn target(&self, filled: impl Fn(&[String]) -> Vec<String>) -> Server {
        let process = self.pid.map(Attached::Process);
        let unit = || self.unit.clone().map(Attached::Unit);
        let cgroup = || self.cgroup.clone().map(Attached::Cgroup);
        let command = || Server::Command(filled(self.server.as_deref().unwrap_or_default()));
        process.or_else(unit).or_else(cgroup).map_or_else(command, Server::Attached)
    }
}

fn combinations(factors: &BTreeMap<String, Levels<String>>) -> Vec<Vec<(&str, &str)>> {
    factors.iter().fold(vec![vec![]], |combined, (name, levels)| {
        let with = |levels_so_far: &Vec<_>, level| [&levels_so_far[..], &[(name.as_str(), level)]].concat();
        combined
            .iter()
            .flat_map(|so_far| levels.iter().map(move |level| with(so_far, level.as_str())))
            .collect()
    })
}

fn fill(word: &str, factors: &[(&str, &str)], clients: u16) -> String {
    let filled = factors
        .iter()
        .fold(word.to_owned(), |word, (name, level)| word.replace(&format!("{{{name}}}"), level));
    filled.replace("{clients}", &clients.to_string())
}

fn offered(clients: u16, rate: Rate) -> Vec<Level> {
    let clients = Level::new("clients", format!("{clients} clients"));
    match rate {
        Rate::Most => vec![clients],
        Rate::PerSecond(rate) => vec![clients, Level::new("rate", format!("rate {rate}"))],
    }
}

fn limited(memory: Memory) -> Option<Level> {
    match memory {
        Memory::All => None,
        Memory::Limited(amount) => Some(Level::new("memory", format!("memory {}", amount.in_bytes()))),
    }
}

fn bytes_of(memory: Memory) -> Option<u64> {
    match memory {
        Memory::All => None,
        Memory::Limited(amount) => Some(amount.bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_clients_are_some_and_keep_to_no_schedule() {
        let asked = Asked { method: "GET".into(), headers: BTreeMap::new(), body: String::new() };
        let load = |clients, rate| Load::Address {
            url: "u".into(),
            asked: asked.clone(),
            clients,
            rate,
            connections: Connections::Kept,
        };
        let trial = |clients, rate| Trial {
            subject: "s".into(),
            levels: vec![],
            server: Server::Command(vec!["s".into()]),
            load: load(clients, rate),
            memory_bytes: None,
        };
        let fewer =
            |clients, rate, fewer| trial(clients, rate).with_fewer_clients(fewer).map(|trial| trial.load);
        assert_eq!(fewer(9, Rate::Most, Fewer::Half), Some(load(4, Rate::Most)));
        assert_eq!(fewer(9, Rate::Most, Fewer::One), Some(load(1, Rate::Most)));
        assert_eq!(fewer(1, Rate::Most, Fewer::One), None);
        assert_eq!(fewer(9, Rate::PerSecond(5.0), Fewer::Half), None);
    }

    #[test]
    fn every_combination_is_tried_once_with_the_servers_side_by_side() {
        let text = "title = \"t\"\n[web]\nservers = [\"nginx\", \"apache\"]\ndocument = [\"1K\", \"10K\"]\nclients = [1, 4]\n\
                    memory = [\"all\", \"32M\"]\ndocuments = \"1M\"\n";
        let trials = Description::read(text, &[]).unwrap().trials();
        assert_eq!(trials.len(), 16);
        let names: std::collections::BTreeSet<_> =
            trials.iter().map(|trial| (trial.subject.clone(), trial.case())).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(trials[0].case(), trials[1].case());
        assert_eq!((trials[0].subject.as_str(), trials[1].subject.as_str()), ("nginx", "apache"));
        assert_eq!(trials[2].case(), "1 KiB/1 clients/memory 32 MiB");
        assert_eq!(trials[2].memory_bytes, Some(32 << 20));
    }

    #[test]
    fn levels_are_filled_into_command_lines() {
        let text = "title = \"t\"\n[any]\nname = \"mine\"\nserver = [\"serve\", \"-p\", \"{port}\", \"--cache={cache}\"]\n\
                    load = [\"ask\", \"-c\", \"{clients}\"]\nclients = [3]\n[any.factors]\ncache = [\"on\", \"off\"]\n";
        let trials = Description::read(text, &[]).unwrap().trials();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(trials.len(), 2);
        assert_eq!(trials[1].server, Server::Command(words(&["serve", "-p", "{port}", "--cache=off"])));
        assert_eq!(
            trials[1].load,
            Load::Command {
                arguments: words(&["ask", "-c", "3"]),
                with_fewer_clients: Fewer::ALL.map(|fewer| (fewer, words(&["ask", "-c", "1"]))).into(),
                prints: Prints::default(),
            }
        );
        let half = trials[1].with_fewer_clients(Fewer::Half).unwrap();
        let Load::Command { arguments, .. } = &half.load else { panic!("{half:?}") };
        assert_eq!((arguments, half.with_fewer_clients(Fewer::Half)), (&words(&["ask", "-c", "1"]), None));
        for (from, to) in [("[3]", "[1]"), ("{clients}", "3")] {
            let trial = Description::read(&text.replace(from, to), &[]).unwrap().trials().remove(0);
            assert_eq!(trial.with_fewer_clients(Fewer::One), None);
        }
        assert_eq!(trials[1].case(), "cache off/3 clients");
    }

    #[test]
    fn requests_have_what_is_described_with_levels_filled_in() {
        let described = |lines: &str| {
            let text = format!(
                "title = \"t\"\n[any]\nname = \"n\"\npid = 1\nurl = \"http://[::1]/{{kind}}\"\n{lines}\n\
                 [any.factors]\nkind = [\"a\"]\n"
            );
            let load = Description::read(&text, &[]).unwrap().trials().remove(0).load;
            let Load::Address { url, asked, connections, .. } = load else { panic!("{load:?}") };
            (url, asked, connections)
        };
        assert_eq!(described(""), ("http://[::1]/a".into(), Asked::default(), Connections::Kept));
        let (_, asked, connections) =
            described("connections = \"new\"\nbody = \"{kind}!\"\nheaders = { A = \"{kind}\" }");
        let headers = [("A".to_owned(), "a".to_owned())].into();
        assert_eq!(asked, Asked { method: "POST".into(), headers, body: "a!".into() });
        assert_eq!(connections, Connections::New);
        assert_eq!(described("method = \"PUT\"\nbody = \"b\"").1.method, "PUT");
    }
}
