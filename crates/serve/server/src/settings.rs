//! Settings of the server, with their defaults.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rtsp::authentication::Secret;
use forebay_rtsp::target::text_of;

use crate::cameras::CameraSettings;

/// All of it, with what does for most.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The folders with the files: one without a name, or several with names.
    pub folders: Vec<Folder>,
    /// Whether links in them may lead out of them.
    pub follow_links: bool,
    /// Where indices of large files are kept; nowhere without it.
    pub cache: Option<PathBuf>,
    /// Where the access log is written, if there is one.
    pub access_log: Option<PathBuf>,
    /// Where to listen for RTSP.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for RTSP on encrypted connections, and with what.
    pub tls: Option<Tls>,
    /// Where the status page and the metrics are.
    pub status: Option<SocketAddr>,
    /// From which ports packets are sent over UDP: pairs, the first of which is even.
    pub udp_ports: RangeInclusive<u16>,
    /// The first of 256 groups that packets are sent to for clients that ask for multicast; none of those without.
    pub multicast: Option<Ipv4Addr>,
    /// How many routers those may pass.
    pub multicast_ttl: u8,
    /// Buffers of each session.
    pub buffers: usize,
    /// Bytes of each buffer; without it, what [`forebay_streaming::depth`] finds best.
    pub buffer_bytes: Option<u64>,
    /// Bytes of all buffers together.
    pub memory_bytes: u64,
    /// How late a picture may be that waits for a slow client on TCP; sound may be twice as late.
    pub late: Duration,
    /// Threads that fill buffers.
    pub readers: usize,
    /// The largest RTP packet, in bytes.
    pub packet_bytes: usize,
    /// How many connections there may be.
    pub connections_max: usize,
    /// How many there may be from one address; the loopback is not counted.
    pub connections_per_address: usize,
    /// How many may come from one address in a second, after a burst of ten times as many.
    pub connects_per_second: f64,
    /// How many sessions there may be.
    pub sessions_max: usize,
    /// How many there may be of one address; the loopback is not counted.
    pub sessions_per_address: usize,
    /// The longest head of a request, in bytes.
    pub request_bytes: usize,
    /// After how long without a sign of life a session ends.
    pub session_timeout: Duration,
    /// Users and what each may watch; without users, every client may watch everything.
    pub users: Vec<User>,
    /// What users see that their password is for.
    pub realm: String,
    /// Whether passwords may come in the clear.
    pub is_basic_allowed: bool,
    /// Cameras that films play, instead of the files of folders.
    pub cameras: Option<CameraSettings>,
    /// Whom to become once ports are bound.
    pub run_as: Option<String>,
}

/// A folder whose files are served, with those in its subfolders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The first part of paths in URLs; empty for the only folder.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether clients without a password may watch it.
    pub is_public: bool,
    /// The users that may watch it; all users without it.
    pub users: Option<Vec<String>>,
}

impl Folder {
    /// The only one.
    pub fn sole(path: PathBuf) -> Self {
        Self { name: String::new(), path, is_public: false, users: None }
    }

    /// One of several, called as on the disk. The error is a sentence.
    pub fn called_as_it_is(path: PathBuf) -> Result<Self, String> {
        let own = |path: &Path| path.file_name().map(|name| text_of(name.as_bytes()));
        let name = own(&path).or_else(|| path.canonicalize().ok().as_deref().and_then(own));
        let name = name.filter(|name| is_name(name)).ok_or_else(|| {
            format!("{}: the folder has no name for URLs: name it in a settings file", path.display())
        })?;
        Ok(Self { name, ..Self::sole(path) })
    }
}

/// Whether a folder may be called so.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '?', '#', '\0'])
}

/// Encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Where to listen.
    pub listen: Vec<SocketAddr>,
    /// A file with the certificate and those that vouch for it, in PEM.
    pub certificate: PathBuf,
    /// A file with its private key, in PEM.
    pub key: PathBuf,
}

/// A user that may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that clients give.
    pub name: String,
    /// What proves that a client is this user.
    pub secret: Secret,
    /// Folders and files that the user may watch; all without any.
    pub paths: Vec<String>,
}

/// The port that RTSP has where 554 is for root.
pub const PORT: u16 = 8554;

impl Settings {
    /// For a folder.
    pub fn new(folder: PathBuf) -> Self {
        Self::of(vec![Folder::sole(folder)])
    }

    /// For several folders.
    pub fn of(folders: Vec<Folder>) -> Self {
        Self {
            folders,
            follow_links: false,
            cache: None,
            access_log: None,
            listen: vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT)],
            tls: None,
            status: None,
            udp_ports: 6970..=6999,
            multicast: None,
            multicast_ttl: 1,
            buffers: 2,
            buffer_bytes: None,
            memory_bytes: 72 << 20,
            late: Duration::from_secs(2),
            readers: 16,
            // An Ethernet frame with IPv6, UDP and room for a tunnel.
            packet_bytes: 1400,
            connections_max: 20_000,
            connections_per_address: 1_000,
            connects_per_second: 50.0,
            sessions_max: 10_000,
            sessions_per_address: 1_000,
            request_bytes: 16 << 10,
            session_timeout: Duration::from_secs(60),
            users: Vec::new(),
            realm: "forebay".to_owned(),
            is_basic_allowed: false,
            cameras: None,
            run_as: None,
        }
    }
}
