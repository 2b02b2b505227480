//! Reads settings from a TOML file. An error has its line and column, and what was expected there.

#[cfg(test)]
pub(crate) mod any_text;
mod members;

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_quantity::size;
use serde::de::{Deserialize, Deserializer, Error as _};
use toml::Spanned;

use self::members::{FolderTable, Members, UserTable};
use crate::error::{Error, Result};
use crate::settings::{Settings, Tls};

/// As it stands in the file. Relative paths are seen from the folder that the file is in.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    folder: Option<PathBuf>,
    #[serde(default)]
    folders: Vec<Spanned<FolderTable>>,
    #[serde(default)]
    follow_links: bool,
    cache: Option<PathBuf>,
    access_log: Option<PathBuf>,
    #[serde(default)]
    listen: Vec<Address>,
    tls: Option<TlsTable>,
    status: Option<Address>,
    udp_ports: Option<Ports>,
    multicast: Option<Groups>,
    multicast_ttl: Option<Within<1, 255>>,
    buffers: Option<Within<1, 16>>,
    buffer_size: Option<Size>,
    memory: Option<Memory>,
    late: Option<Seconds>,
    readers: Option<Within<1, 256>>,
    packet_size: Option<Within<200, 65_000>>,
    user: Option<String>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    authentication: AuthenticationTable,
    #[serde(default)]
    users: Vec<UserTable>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TlsTable {
    listen: Vec<Address>,
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LimitsTable {
    connections: Option<Within<1, 1_000_000>>,
    connections_per_address: Option<Within<1, 1_000_000>>,
    connects_per_second: Option<Within<1, 1_000_000>>,
    sessions: Option<Within<1, 1_000_000>>,
    sessions_per_address: Option<Within<1, 1_000_000>>,
    request_bytes: Option<Within<1_000, 60_000>>,
    session_timeout_seconds: Option<Within<10, 86_400>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AuthenticationTable {
    realm: Option<String>,
    #[serde(default)]
    allow_basic_in_the_clear: bool,
}

/// A port, or an address with its port.
#[derive(Clone, Copy, Debug)]
struct Address(SocketAddr);

/// Two ports.
#[derive(Clone, Debug)]
struct Ports(RangeInclusive<u16>);

/// The first of 256 groups.
#[derive(Clone, Copy, Debug)]
struct Groups(Ipv4Addr);

/// A number of bytes.
#[derive(Clone, Copy, Debug)]
struct Size(u64);

/// A number of bytes for all buffers.
#[derive(Clone, Copy, Debug)]
struct Memory(u64);

/// A time in seconds.
#[derive(Clone, Copy, Debug)]
struct Seconds(Duration);

/// A number between two others.
#[derive(Clone, Copy, Debug)]
struct Within<const MIN: u64, const MAX: u64>(u64);

/// A number or a text.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a number or a text is wanted")]
enum Value {
    Number(u64),
    Text(String),
}

impl Display for Value {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(to),
            Self::Text(text) => text.fmt(to),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        address(&Value::deserialize(from)?.to_string()).map(Address).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        ports(&Value::deserialize(from)?.to_string()).map(Ports).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let group = String::deserialize(from)?.parse().ok().filter(Ipv4Addr::is_multicast);
        let wanted = "the first of 256 groups is wanted, such as 239.255.42.0";
        group.filter(|group| group.octets()[3] == 0).map(Groups).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        size(&Value::deserialize(from)?.to_string()).map(Size).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        memory(&Value::deserialize(from)?.to_string()).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        seconds(&f64::deserialize(from)?.to_string()).map(Self).map_err(D::Error::custom)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Within<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(from)?;
        let is_in = (MIN..=MAX).contains(&value);
        is_in
            .then_some(Self(value))
            .ok_or_else(|| D::Error::custom(format!("a number from {MIN} to {MAX} is wanted")))
    }
}

/// A port is one of all addresses.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.trim_start_matches(':').parse::<u16>().ok();
    let address = port.map(|port| SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    let wanted = "a port, or an address with its port, is wanted, such as 8554, 192.0.2.7:8554 or [::1]:8554";
    address.or_else(|| text.parse().ok()).ok_or_else(|| wanted.to_owned())
}

/// The least memory for buffers: what one session begins with.
const MEMORY_BYTES_MIN: u64 = 16 << 10;

/// A size that is enough for the buffers of a session.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text).map_err(|error| error.to_string())?;
    let is_enough = bytes >= MEMORY_BYTES_MIN;
    is_enough.then_some(bytes).ok_or_else(|| "at least 16K is wanted, or no session can begin".to_owned())
}

/// A number of seconds, up to an hour.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds is wanted, from 0 to 3600".to_owned())
}

/// The first and the last of them.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, ""));
    let both = first.trim().parse::<u16>().ok().zip(last.trim().parse::<u16>().ok());
    let (first, last) = both
        .filter(|(first, last)| *first > 0 && first < last)
        .ok_or("two ports are wanted, the first and the last, such as 6970-6999")?;
    Ok(first..=last)
}

impl Settings {
    /// What a file says.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |source| Error::Config {
            path: path.to_owned(),
            at: None,
            why: format!("it cannot be read: {source}"),
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(path, &text)
    }

    /// What a text says that is in a file at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = toml::from_str(text).map_err(|error| Fault {
            at: error.span().map_or(0, |span| span.start),
            why: error.message().to_owned(),
        });
        file.and_then(|file: File| file.into_settings(folder)).map_err(|Fault { at, why }| {
            let before = text.get(..at).unwrap_or(text);
            let (line, rest) = (before.matches('\n').count() + 1, before.rsplit('\n').next());
            let column = rest.map_or(0, |rest| rest.chars().count()) + 1;
            Error::Config { path: path.to_owned(), at: Some((line, column)), why }
        })
    }
}

/// What is wrong, and at which byte of the file.
struct Fault {
    at: usize,
    why: String,
}

fn fault<T>(at: usize, why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, why: why.into() })
}

impl File {
    fn into_settings(self, beside: &Path) -> Result<Settings, Fault> {
        fn set<T>(to: &mut T, value: Option<T>) {
            value.into_iter().for_each(|value| *to = value);
        }
        let Members { folders, users } = Members::of(self.folder, self.folders, self.users, beside)?;
        let mut settings = Settings::of(folders);
        let addresses = |all: Vec<Address>| all.into_iter().map(|address| address.0).collect::<Vec<_>>();
        if !self.listen.is_empty() {
            settings.listen = addresses(self.listen);
        }
        settings.tls = self.tls.map(|tls| Tls {
            listen: addresses(tls.listen),
            certificate: beside.join(tls.certificate),
            key: beside.join(tls.key),
        });
        settings.follow_links = self.follow_links;
        settings.cache = self.cache.map(|path| beside.join(path));
        settings.access_log = self.access_log.map(|path| beside.join(path));
        settings.multicast = self.multicast.map(|groups| groups.0);
        set(&mut settings.multicast_ttl, self.multicast_ttl.map(|number| number.0 as u8));
        settings.status = self.status.map(|address| address.0);
        settings.buffer_bytes = self.buffer_size.map(|size| size.0);
        settings.run_as = self.user;
        settings.users = users;
        settings.is_basic_allowed = self.authentication.allow_basic_in_the_clear;
        set(&mut settings.udp_ports, self.udp_ports.map(|ports| ports.0));
        set(&mut settings.buffers, self.buffers.map(|number| number.0 as usize));
        set(&mut settings.memory_bytes, self.memory.map(|size| size.0));
        set(&mut settings.late, self.late.map(|seconds| seconds.0));
        set(&mut settings.readers, self.readers.map(|number| number.0 as usize));
        set(&mut settings.packet_bytes, self.packet_size.map(|number| number.0 as usize));
        set(&mut settings.realm, self.authentication.realm);
        let limits = self.limits;
        set(&mut settings.connections_max, limits.connections.map(|number| number.0 as usize));
        set(
            &mut settings.connections_per_address,
            limits.connections_per_address.map(|number| number.0 as usize),
        );
        set(&mut settings.connects_per_second, limits.connects_per_second.map(|number| number.0 as f64));
        set(&mut settings.sessions_max, limits.sessions.map(|number| number.0 as usize));
        set(&mut settings.sessions_per_address, limits.sessions_per_address.map(|number| number.0 as usize));
        set(&mut settings.request_bytes, limits.request_bytes.map(|number| number.0 as usize));
        let timeout = limits.session_timeout_seconds.map(|number| Duration::from_secs(number.0));
        set(&mut settings.session_timeout, timeout);
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use forebay_rtsp::authentication::Secret;

    use super::*;
    use crate::settings::Folder;

    const FULL: &str = r#"
folder = "films"
listen = [8554, "127.0.0.1:9000"]
status = "127.0.0.1:9554"
udp-ports = "7000-7009"
buffers = 3
buffer-size = "256K"
memory = "64M"
user = "nobody"

[tls]
listen = [8322]
certificate = "cert.pem"
key = "/keys/key.pem"

[limits]
connections = 100
sessions-per-address = 7
session-timeout-seconds = 30

[authentication]
realm = "home"

[[users]]
name = "ada"
password = "lovelace"
paths = ["old"]

[[users]]
name = "bob"
md5 = "0123456789abcdef0123456789abcdef"
"#;

    fn parse(text: &str) -> Result<Settings> {
        Settings::parse(Path::new("/etc/forebay/serve.toml"), text)
    }

    #[test]
    fn all_that_can_be_chosen_is_read() {
        let settings = parse(FULL).expect("settings");
        assert_eq!(settings.folders, [Folder::sole("/etc/forebay/films".into())]);
        assert_eq!(settings.listen, [address("8554").expect("one"), "127.0.0.1:9000".parse().expect("one")]);
        assert_eq!(
            (settings.buffers, settings.buffer_bytes, settings.memory_bytes),
            (3, Some(256 << 10), 64 << 20)
        );
        let tls = settings.tls.expect("TLS");
        assert_eq!((tls.certificate, tls.key), ("/etc/forebay/cert.pem".into(), "/keys/key.pem".into()));
        assert_eq!((settings.connections_max, settings.session_timeout), (100, Duration::from_secs(30)));
        assert_eq!(settings.sessions_per_address, 7);
        assert_eq!(settings.users[0].paths, ["old"]);
        assert!(matches!(&settings.users[1].secret, Secret::Hashed { md5: Some(_), sha256: None }));
        assert_eq!(settings.udp_ports, 7000..=7009);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_was_expected() {
        for (text, line, words) in [
            ("", 1, "folder"),
            ("folder = \"a\"\nlisten = [\"localhost\"]\n", 2, "8554, 192.0.2.7:8554"),
            ("folder = \"a\"\n\nbuffers = 17\n", 3, "from 1 to 16"),
            ("folder = \"a\"\nmemory = \"64 MB\"\n", 2, "such as 64M"),
            ("folder = \"a\"\nmemory = \"1K\"\n", 2, "at least 16K"),
            ("folder = \"a\"\nlate = -1\n", 2, "number of seconds"),
            ("folder = \"a\"\nudp-ports = 7000\n", 2, "6970-6999"),
            ("folder = \"a\"\nmulticast = \"10.0.0.0\"\n", 2, "239.255.42.0"),
            ("folder = \"a\"\n[limits]\nconections = 3\n", 3, "connections"),
            ("folder = \"a\"\n[[users]]\nname = \"ada\"\n", 2, "password or hashes"),
            ("folder = \"a\"\n[[users]]\nname = \"a\"\nmd5 = \"12\"\n", 2, "32"),
            ("folder = \"a\nlisten = 1\n", 1, "string"),
        ] {
            let error = parse(text).expect_err("it is wrong").to_string();
            assert!(error.starts_with(&format!("/etc/forebay/serve.toml:{line}:")), "{text}: {error}");
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_and_ports_are_read() {
        let all = |port| SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        assert_eq!(address("8555"), Ok(all(8555)));
        assert_eq!(address(":8555"), Ok(all(8555)));
        assert!(address("localhost:8554").is_err());
        assert_eq!(ports("6970-6971"), Ok(6970..=6971));
        for nonsense in ["", "6970", "6971-6970", "0-5", "6970-70000"] {
            assert!(ports(nonsense).is_err(), "{nonsense}");
        }
    }
}
