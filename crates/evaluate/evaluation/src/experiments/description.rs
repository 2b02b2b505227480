//! What an experiment file says.

mod any;
mod set;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::experiments::levels::{Amount, AtLeastOne, Levels, Memory, Rate};
pub use any::{Any, Attached};

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
        let described = if set.is_empty() { described } else { set::with(text, set)? };
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
