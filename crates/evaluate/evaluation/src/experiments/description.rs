//! What an experiment file says.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::experiments::Prints;
use crate::experiments::levels::{Amount, AtLeastOne, Levels, Memory, Rate, TimeUnit};

/// An experiment. Exactly one of the sections is there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What it is about, in one line.
    pub title: String,
    /// How often each combination of levels is measured, in turn with the others.
    #[serde(default = "three", deserialize_with = "at_least_one")]
    pub runs: u16,
    /// How long a load lasts while it is measured.
    #[serde(default = "three_seconds", deserialize_with = "an_hour_at_most")]
    pub seconds: f64,
    /// How long it lasts before that.
    #[serde(default = "one_second", deserialize_with = "ten_minutes_at_most")]
    pub warm_up: f64,
    /// Static files over HTTP.
    pub web: Option<Web>,
    /// Media over RTSP.
    pub streaming: Option<Streaming>,
    /// Packets from one network namespace to another.
    pub router: Option<Router>,
    /// A server of the user's own.
    pub any: Option<Any>,
}

/// Static files over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// The servers that are compared.
    pub servers: Levels<WebServer>,
    /// Size of a document.
    pub document: Levels<Amount>,
    /// Connections that make requests at the same time.
    pub clients: Levels<AtLeastOne>,
    /// Requests a second.
    #[serde(default = "as_fast_as_it_goes")]
    pub rate: Levels<Rate>,
    /// Memory of the server.
    #[serde(default = "all_memory")]
    pub memory: Levels<Memory>,
    /// Whether a connection serves one request or many.
    #[serde(default)]
    pub connections: Connections,
    /// All documents together; they are asked for in no order.
    pub documents: Amount,
}

/// A web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebServer {
    /// nginx: few processes, events.
    Nginx,
    /// Apache: processes with threads (the event module).
    Apache,
}

/// What becomes of a connection when its request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// The next request goes over it.
    #[default]
    Kept,
    /// The next request has a new one.
    New,
}

/// Media over RTSP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streaming {
    /// The servers that are compared.
    pub servers: Levels<RtspServer>,
    /// Bits a second of a stream.
    pub bitrate: Levels<Amount>,
    /// Clients at the same time.
    pub clients: Levels<AtLeastOne>,
    /// Files that the clients spread over.
    pub media: Levels<AtLeastOne>,
    /// Memory of the server.
    #[serde(default = "all_memory")]
    pub memory: Levels<Memory>,
}

/// A streaming server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RtspServer {
    /// GStreamer's.
    Gstreamer,
    /// `forebay serve`.
    Forebay,
    /// MediaMTX, fed by ffmpeg; left out where it is not installed, if others are there.
    Mediamtx,
}

/// Packets from one network namespace to another, through one that forwards them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Who sends to whom.
    pub layout: Levels<RouterLayout>,
    /// Size of a message.
    pub message: Levels<Amount>,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterLayout {
    /// One sends, one receives.
    OneToOne,
    /// Two send to each other.
    FullDuplex,
    /// Three send to one.
    ManyToOne,
}

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
    #[serde(default = "as_fast_as_it_goes")]
    pub rate: Levels<Rate>,
    /// Memory of the server.
    #[serde(default = "all_memory")]
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

fn three() -> u16 {
    3
}

fn three_seconds() -> f64 {
    3.0
}

fn one_second() -> f64 {
    1.0
}

fn at_least_one<'de, D: Deserializer<'de>>(value: D) -> Result<u16, D::Error> {
    within(value, 1..=u16::MAX, "runs is from 1 to 65535")
}

fn an_hour_at_most<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(value, 0.1..=3600.0, "seconds is from 0.1 to 3600")
}

fn ten_minutes_at_most<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    within(value, 0.0..=600.0, "warm_up is from 0 to 600")
}

/// A number within bounds. The error is the text's, and so has line and column.
fn within<'de, D: Deserializer<'de>, T: Deserialize<'de> + PartialOrd>(
    value: D,
    bounds: RangeInclusive<T>,
    what: &str,
) -> Result<T, D::Error> {
    let number = T::deserialize(value)?;
    if bounds.contains(&number) { Ok(number) } else { Err(D::Error::custom(what)) }
}

fn eight() -> Levels<AtLeastOne> {
    Levels::one("8".parse().expect("8 is at least one"))
}

fn as_fast_as_it_goes() -> Levels<Rate> {
    Levels::one(Rate::Most)
}

fn all_memory() -> Levels<Memory> {
    Levels::one(Memory::All)
}

/// Why a description makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No TOML, or not what belongs there. Has line and column.
    #[error(transparent)]
    Text(#[from] toml::de::Error),
    /// A `--set` that does not fit.
    #[error("--set {what}: {why}")]
    Set {
        /// As given.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no section, or more than one.
    #[error("an experiment has one of the sections [web], [streaming], [router] and [any]")]
    Sections,
    /// `[any]` has no server, or more than one.
    #[error("[any] has one of server (a command line), pid, unit and cgroup")]
    Servers,
    /// `[any]` has no load, or two.
    #[error("[any] has either url (for clients of forebay's own) or load (a command line)")]
    Loads,
    /// A request is described, and `load` makes requests of its own.
    #[error("method, headers, body and connections are of forebay's own clients; give url instead of load")]
    RequestsOfLoad,
    /// What a load prints is described, and there is none.
    #[error(
        "transactions_after, transactions_before, p99_after and p99_unit are of what a load prints; give load instead of url"
    )]
    PrintsOfNoLoad,
    /// The unit of a p99 that is not looked for.
    #[error("p99_unit is of the number behind p99_after; give that too")]
    UnitOfNothing,
    /// A command line is empty.
    #[error("a command line has at least the program")]
    NoCommand,
    /// When it is ready is asked of a server that runs already.
    #[error("ready is of a server that forebay starts; give server")]
    ReadyOfOthers,
    /// A name in braces stands for nothing.
    #[error(
        "{{{name}}} in {place} stands for nothing; there may stand {}, and a factor that is given under [any.factors]",
        allowed.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
    )]
    NoName {
        /// As it is in the braces.
        name: String,
        /// The key of the text that has it.
        place: &'static str,
        /// What may stand there.
        allowed: Vec<&'static str>,
    },
    /// A factor has the name of something else.
    #[error("[any.factors] cannot have {0}, which is a name of forebay's own; give the factor another name")]
    TakenName(String),
    /// Memory is limited of a server that runs already.
    #[error("memory can be limited of a server that forebay starts; give server")]
    MemoryOfOthers,
}

impl Description {
    /// Reads an experiment file, with the levels of `set` (`clients=4,16`) instead of its own.
    ///
    /// # Errors
    /// What is wrong, with line and column where it is the text.
    pub fn read(text: &str, set: &[String]) -> Result<Self, Error> {
        let described: Self = toml::from_str(text)?;
        let described = if set.is_empty() { described } else { with(text, set)? };
        described.check()?;
        Ok(described)
    }

    fn check(&self) -> Result<(), Error> {
        let sections =
            [self.web.is_some(), self.streaming.is_some(), self.router.is_some(), self.any.is_some()];
        if sections.into_iter().filter(|there| *there).count() != 1 {
            return Err(Error::Sections);
        }
        self.any.as_ref().map_or(Ok(()), Any::check)
    }
}

impl Any {
    fn check(&self) -> Result<(), Error> {
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
        let is_taken = |name: &&String| FILLED.contains(&name.as_str()) || ANY.contains(&name.as_str());
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

/// What forebay fills into command lines.
const FILLED: [&str; 6] = ["port", "clients", "seconds", "files", "dependency", "dependency_port"];
/// Factors of each section, which have levels.
const WEB: [&str; 5] = ["servers", "document", "clients", "rate", "memory"];
const STREAMING: [&str; 5] = ["servers", "bitrate", "clients", "media", "memory"];
const ROUTER: [&str; 2] = ["layout", "message"];
const ANY: [&str; 3] = ["clients", "rate", "memory"];

/// The factors of an experiment.
fn factors_of(described: &Description) -> Vec<&str> {
    let of = |there: bool, factors: &'static [&'static str]| if there { factors } else { &[] };
    let built_in = [
        of(described.web.is_some(), &WEB),
        of(described.streaming.is_some(), &STREAMING),
        of(described.router.is_some(), &ROUTER),
        of(described.any.is_some(), &ANY),
    ];
    let own = described.any.iter().flat_map(|any| any.factors.keys().map(String::as_str));
    built_in.concat().into_iter().chain(own).collect()
}

/// The experiment with other levels.
fn with(text: &str, set: &[String]) -> Result<Description, Error> {
    let mut table: toml::Table = toml::from_str(text)?;
    let described = Description::deserialize(table.clone())?;
    let own = described.any.as_ref().map(|any| &any.factors);
    for what in set {
        let wrong = |why: String| Error::Set { what: what.clone(), why };
        let (name, levels) =
            what.split_once('=').ok_or_else(|| wrong("give NAME=LEVEL or NAME=LEVEL,LEVEL".into()))?;
        // A factor of one's own is text for the command lines.
        let own = match name.strip_prefix("factors.") {
            Some(name) if own.is_some() => Some(name),
            _ => Some(name).filter(|name| own.is_some_and(|own| own.contains_key(*name))),
        };
        let level =
            |level| if own.is_some() { toml::Value::String(String::from(level)) } else { value(level) };
        let list = || levels.split(',').map(level).collect();
        let levels = if levels.contains(',') { toml::Value::Array(list()) } else { level(levels) };
        let of_all = ["title", "runs", "seconds", "warm_up"].contains(&name);
        let section = table.iter_mut().find_map(|(_, value)| value.as_table_mut()).filter(|_| !of_all);
        let place = match (section, own) {
            (Some(section), Some(_)) => {
                let factors = section.entry("factors").or_insert_with(|| toml::Table::new().into());
                factors.as_table_mut().expect("the text has been read")
            }
            (Some(section), None) => section,
            (None, _) => &mut table,
        };
        place.insert(own.unwrap_or(name).to_owned(), levels);
        // Each by itself, so that the error names the right one.
        Description::deserialize(table.clone()).map_err(|error| match error.message() {
            unknown if unknown.starts_with("unknown field") => {
                wrong(format!("there is no factor {name}; there are {}", factors_of(&described).join(", ")))
            }
            message => wrong(message.to_owned()),
        })?;
    }
    Ok(Description::deserialize(table)?)
}

/// A number where it is one.
fn value(level: &str) -> toml::Value {
    let integer = level.parse().map(toml::Value::Integer);
    let number = integer.or_else(|_| level.parse().map(toml::Value::Float));
    number.unwrap_or_else(|_| toml::Value::String(level.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES_OVER_HTTP: &str = "title = \"t\"\n[web]\nservers = [\"nginx\"]\ndocument = [\"10K\"]\nclients = [4]\ndocuments = \"1M\"\n";

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_column() {
        let error =
            Description::read(&FILES_OVER_HTTP.replace("clients", "cleints"), &[]).unwrap_err().to_string();
        assert!(error.contains("line 5, column 1") && error.contains("cleints"), "{error}");
    }

    #[test]
    fn a_factor_without_levels_is_told_with_its_line_and_column() {
        let error = Description::read(&FILES_OVER_HTTP.replace("[4]", "[]"), &[]).unwrap_err().to_string();
        assert!(error.contains("line 5, column 11") && error.contains("at least one"), "{error}");
    }

    #[test]
    fn a_level_that_makes_no_sense_is_told_with_its_line() {
        let error =
            Description::read(&FILES_OVER_HTTP.replace("\"10K\"", "\"10KB\""), &[]).unwrap_err().to_string();
        assert!(error.contains("line 4") && error.contains("such as 64M"), "{error}");
    }

    #[test]
    fn numbers_out_of_bounds_are_told_with_their_line_and_column() {
        let bad =
            [("runs", "0"), ("seconds", "0.0"), ("seconds", "nan"), ("seconds", "3601"), ("warm_up", "-1")];
        for (key, value) in bad {
            let text = FILES_OVER_HTTP.replace("[web]", &format!("{key} = {value}\n[web]"));
            let error = Description::read(&text, &[]).unwrap_err().to_string();
            let place = format!("line 2, column {}", key.len() + 4);
            assert!(error.contains(&place) && error.contains(&format!("{key} is from")), "{error}");
            let error =
                Description::read(FILES_OVER_HTTP, &[format!("{key}={value}")]).unwrap_err().to_string();
            assert!(error.contains(&format!("--set {key}={value}: {key} is from")), "{error}");
        }
    }

    #[test]
    fn a_level_that_is_there_twice_is_told_with_its_line() {
        for (from, to) in [
            ("[4]", "[4, 4]"),
            ("[\"10K\"]", "[\"10K\", \"10K\"]"),
            ("[\"nginx\"]", "[\"nginx\", \"nginx\"]"),
        ] {
            let error = Description::read(&FILES_OVER_HTTP.replace(from, to), &[]).unwrap_err().to_string();
            assert!(error.contains("line ") && error.contains("give each level once"), "{error}");
        }
        let error = Description::read(FILES_OVER_HTTP, &["clients=2,2".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--set clients=2,2: level 2 of this factor"), "{error}");
    }

    #[test]
    fn a_number_that_leaves_nothing_to_measure_is_told_with_its_line() {
        let streaming = "title = \"t\"\n[streaming]\nservers = [\"forebay\"]\nbitrate = [\"1M\"]\nclients = [1]\nmedia = [1]\n";
        let any = "title = \"t\"\n[any]\nname = \"n\"\nserver = [\"s\"]\nurl = \"http://localhost/\"\nport = 1\nrate = 1\n";
        for (text, from, to, line) in [
            (FILES_OVER_HTTP, "[4]", "[0]", 5),
            (FILES_OVER_HTTP, "[4]", "-1", 5),
            (FILES_OVER_HTTP, "[4]", "65536", 5),
            (streaming, "clients = [1]", "clients = 0", 5),
            (streaming, "media = [1]", "media = [2, 0]", 6),
            (any, "port = 1", "port = 0", 6),
            (any, "rate = 1", "rate = 0", 7),
            (any, "rate = 1", "rate = 1e-300", 7),
        ] {
            assert!(Description::read(text, &[]).is_ok());
            let error = Description::read(&text.replace(from, to), &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}")) && error.contains("give "), "{error}");
        }
    }

    #[test]
    fn exactly_one_kind_of_experiment_is_described() {
        let error = Description::read("title = \"t\"", &[]).unwrap_err();
        assert!(error.to_string().contains("[router]"), "{error}");
    }

    #[test]
    fn levels_are_set_from_the_command_line() {
        let set = ["clients=1,2", "document=5", "memory=24M", "runs=7", "connections=new", "seconds=0.5"];
        let described = Description::read(FILES_OVER_HTTP, &set.map(str::to_owned)).unwrap();
        let web = described.web.unwrap();
        assert_eq!((described.runs, described.seconds, web.connections), (7, 0.5, Connections::New));
        assert_eq!(web.clients.iter().map(|clients| clients.get()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(web.document, Levels::one("5".parse().unwrap()));
        assert_eq!(web.memory, Levels::one(Memory::Limited("24M".parse().unwrap())));
    }

    const OF_ONES_OWN: &str = "title = \"t\"\n[any]\nname = \"n\"\nserver = [\"s\", \"{mode}\", \"{port}\"]\n\
                       url = \"http://localhost:{port}/\"\n[any.factors]\nmode = [\"a\", \"b\"]\n";

    #[test]
    fn a_factor_of_ones_own_is_set_as_text() {
        for set in ["mode=1,2", "factors.mode=1,2"] {
            let any = Description::read(OF_ONES_OWN, &[set.to_owned()]).unwrap().any.unwrap();
            assert_eq!(any.factors["mode"].iter().collect::<Vec<_>>(), ["1", "2"], "{set}");
        }
        let without = OF_ONES_OWN.replace("[any.factors]\nmode = [\"a\", \"b\"]\n", "");
        assert!(Description::read(&without, &["factors.mode=a".to_owned()]).is_ok());
        let error = Description::read(OF_ONES_OWN, &["mood=1".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "--set mood=1: there is no factor mood; there are clients, rate, memory, mode");
    }

    #[test]
    fn a_name_in_braces_that_stands_for_nothing_is_told() {
        let any = |lines: &str| {
            Description::read(&format!("title = \"t\"\n[any]\nname = \"n\"\n{lines}"), &[]).map(|_| ())
        };
        for (lines, says) in [
            ("server = [\"s\", \"-{nosuch}\"]\nurl = \"http://localhost/\"", "{nosuch} in server"),
            ("server = [\"s\", \"{files}\"]\nurl = \"http://localhost/\"", "{files} in server"),
            ("server = [\"s\", \"{dependency}\"]\nurl = \"http://localhost/\"", "{dependency} in server"),
            (
                "server = [\"s\"]\nready = [\"r\", \"{clients}\"]\nurl = \"http://localhost/\"",
                "{clients} in ready",
            ),
            ("pid = 1\nurl = \"http://localhost:{port}/\"", "{port} in url"),
            ("pid = 1\nload = [\"l\", \"{nosuch}\"]", "{nosuch} in load"),
        ] {
            let error = any(lines).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("stands for nothing"), "{error}");
        }
        for lines in [
            "server = [\"s\", \"{files}\", \"{dependency_port}\"]\nfiles = \"/\"\ndependency = \"a:1\"\nurl = \"http://a/\"",
            "pid = 1\nport = 80\nload = [\"sh\", \"-c\", \"x ${HOME} {} {print $1} {a,b} {port} {seconds}\"]",
        ] {
            assert_eq!(any(lines), Ok(()), "{lines}");
        }
    }

    #[test]
    fn a_factor_does_not_take_the_name_of_another_thing() {
        for name in ["port", "clients", "memory", "seconds"] {
            let error =
                Description::read(&OF_ONES_OWN.replace("mode =", &format!("{name} =")), &[]).unwrap_err();
            assert_eq!(error, Error::TakenName(name.to_owned()));
        }
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        for (set, says) in [("cleints=1", "cleints"), ("clients", "NAME=LEVEL"), ("clients=many", "many")] {
            let error = Description::read(FILES_OVER_HTTP, &[set.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("--set {set}")) && error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_server_of_the_users_own_has_one_target_and_one_load() {
        let any =
            |lines: &str| Description::read(&format!("title = \"t\"\n[any]\nname = \"n\"\n{lines}"), &[]);
        assert!(any("pid = 1\nurl = \"http://localhost/\"").is_ok());
        for (lines, says) in [
            ("url = \"u\"", "one of server"),
            ("pid = 1\ncgroup = \"/x\"\nurl = \"u\"", "one of server"),
            ("pid = 1", "either url"),
            ("pid = 1\nload = [\"x\"]\nbody = \"b\"", "give url"),
            ("pid = 1\nurl = \"u\"\np99_after = \"99%\"", "give load"),
            ("pid = 1\nload = [\"x\"]\np99_unit = \"ms\"", "p99_after; give that too"),
            ("pid = 1\nload = [\"x\"]\np99_after = \"99%\"\np99_unit = \"parsec\"", "no unit of time"),
            ("server = []\nurl = \"u\"", "at least the program"),
            ("pid = 1\nurl = \"u\"\nready = [\"true\"]", "ready is of a server that forebay starts"),
            ("pid = 1\nurl = \"u\"\nmemory = [\"1M\"]", "forebay starts"),
        ] {
            let error = any(lines).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
