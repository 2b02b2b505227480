//! A server of the user's own, with its load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Connections, Error, set};
use crate::experiments::Prints;
use crate::experiments::levels::{AtLeastOne, Levels, Memory, Rate, TimeUnit};

/// What forebay fills into command lines.
const FILLED: [&str; 6] = ["port", "clients", "seconds", "files", "dependency", "dependency_port"];

/// A server of the user's own. In command lines `{port}` is a free port and `{NAME}` the level of that factor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Any {
    /// What it is called in results.
    pub name: String,
    /// Its command line; or one of the other three, for a server that runs already.
    pub server: Option<Vec<String>>,
    /// Command line that succeeds once the server can be asked, where that is later than it takes connections.
    pub ready: Option<Vec<String>>,
    /// Number of the process; its children count as well.
    pub pid: Option<u32>,
    /// Unit of systemd.
    pub unit: Option<String>,
    /// Folder of a control group.
    pub cgroup: Option<PathBuf>,
    /// The port that it listens on, where that is not for forebay to choose.
    pub port: Option<AtLeastOne>,
    /// Address of a server that it asks, such as `127.0.0.1:5432`, for `{dependency}` and `{dependency_port}` in command lines.
    pub dependency: Option<String>,
    /// Folder of the files that it reads, for `{files}` in its command line.
    pub files: Option<PathBuf>,
    /// Address that is asked for over HTTP or HTTPS, for clients of forebay's own; or `load`.
    pub url: Option<String>,
    /// Method of the requests for `url`: `GET`, or `POST` where there is a body.
    pub method: Option<String>,
    /// Headers of the requests for `url`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body of the requests for `url`.
    #[serde(default)]
    pub body: String,
    /// Whether a connection for `url` serves one request or many.
    #[serde(default)]
    pub connections: Connections,
    /// Command line of a load, which is done when it ends.
    pub load: Option<Vec<String>>,
    /// What the load prints before its transactions a second, one behind the other on its line.
    pub transactions_after: Option<Levels<String>>,
    /// What it prints right behind them. Without either a load is one transaction.
    pub transactions_before: Option<String>,
    /// What the load prints before its p99, one behind the other on its line.
    pub p99_after: Option<Levels<String>>,
    /// The unit of a p99 that is printed without one.
    pub p99_unit: Option<TimeUnit>,
    /// Connections that ask for `url`.
    #[serde(default = "eight")]
    pub clients: Levels<AtLeastOne>,
    /// Requests a second for `url`.
    #[serde(default = "super::as_fast_as_it_goes")]
    pub rate: Levels<Rate>,
    /// Memory of the server.
    #[serde(default = "super::all_memory")]
    pub memory: Levels<Memory>,
    /// More factors, for the command lines.
    #[serde(default)]
    pub factors: BTreeMap<String, Levels<String>>,
}

/// A server that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// A process and its children.
    Process(u32),
    /// A unit of systemd.
    Unit(String),
    /// A control group.
    Cgroup(PathBuf),
}

fn eight() -> Levels<AtLeastOne> {
    Levels::one("8".parse().expect("8 is at least one"))
}

impl Any {
    pub(super) fn check(&self) -> Result<(), Error> {
        let targets = [self.server.is_some(), self.pid.is_some(), self.unit.is_some(), self.cgroup.is_some()];
        if targets.into_iter().filter(|there| *there).count() != 1 {
            return Err(Error::Servers);
        }
        if self.url.is_some() == self.load.is_some() {
            return Err(Error::Loads);
        }
        let asks = self.method.is_some() || !self.headers.is_empty() || !self.body.is_empty();
        if self.url.is_none() && (asks || self.connections != Connections::default()) {
            return Err(Error::RequestsOfLoad);
        }
        if self.load.is_none() && self.prints() != Prints::default() {
            return Err(Error::PrintsOfNoLoad);
        }
        if self.p99_after.is_none() && self.p99_unit.is_some() {
            return Err(Error::UnitOfNothing);
        }
        if [&self.server, &self.ready, &self.load].into_iter().flatten().any(Vec::is_empty) {
            return Err(Error::NoCommand);
        }
        if self.server.is_none() && self.ready.is_some() {
            return Err(Error::ReadyOfOthers);
        }
        if self.server.is_none() && self.memory.iter().any(|memory| *memory != Memory::All) {
            return Err(Error::MemoryOfOthers);
        }
        let is_taken = |name: &&String| FILLED.contains(&name.as_str()) || set::ANY.contains(&name.as_str());
        if let Some(name) = self.factors.keys().find(is_taken) {
            return Err(Error::TakenName(name.clone()));
        }
        self.check_names()
    }

    /// An error where a name in braces would go to a program as it is.
    fn check_names(&self) -> Result<(), Error> {
        let port = (self.server.is_some() || self.port.is_some()).then_some("port");
        let files = self.files.is_some().then_some("files");
        let dependency = self.dependency.iter().flat_map(|_| ["dependency", "dependency_port"]);
        let of_all = || port.into_iter().chain(["clients"]);
        let url = self.url.as_ref().map(std::slice::from_ref);
        // What comes before the load has no level of a factor.
        let places = [
            ("server", self.server.as_deref(), of_all().chain(files).chain(dependency).collect::<Vec<_>>()),
            ("ready", self.ready.as_deref(), port.into_iter().collect()),
            ("url", url, of_all().collect()),
            ("load", self.load.as_deref(), of_all().chain(["seconds"]).collect()),
        ];
        for (place, words, allowed) in places {
            let is_factor = |name: &str| place != "ready" && self.factors.contains_key(name);
            let mut names = words.unwrap_or_default().iter().flat_map(|word| names_in(word));
            if let Some(name) = names.find(|name| !allowed.contains(name) && !is_factor(name)) {
                return Err(Error::NoName { name: name.to_owned(), place, allowed });
            }
        }
        Ok(())
    }
}

/// Names that stand in braces, such as `{port}`; `${HOME}` is a shell's.
fn names_in(word: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        name.starts_with(|char: char| char.is_ascii_alphabetic())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
    };
    let behind = word.match_indices('{').filter(|(place, _)| !word[..*place].ends_with('$'));
    behind
        .filter_map(move |(place, _)| word[place + 1..].split_once('}').map(|(name, _)| name))
        .filter(is_name)
}
