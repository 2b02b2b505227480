//! Settings of the server, with their defaults.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use forebay_rtsp::authentication::{Secret, Users};

use crate::cameras::CameraSettings;

/// All of it, with what does for most.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The folder with the files.
    pub folder: PathBuf,
    /// Whether links in it may lead out of it.
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
    /// Cameras that films play, instead of the files of the folder.
    pub cameras: Option<CameraSettings>,
    /// Whom to become once ports are bound.
    pub run_as: Option<String>,
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
        Self {
            folder,
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

/// Users by their names.
pub(crate) struct UserList(pub Vec<User>);

impl Users for UserList {
    fn secret(&self, user: &str) -> Option<Secret> {
        self.0.iter().find(|one| one.name == user).map(|one| one.secret.clone())
    }

    fn all_have_sha256(&self) -> bool {
        self.0.iter().all(|one| !matches!(one.secret, Secret::Hashed { sha256: None, .. }))
    }

    fn may_watch(&self, user: &str, path: &str) -> bool {
        let is_in = |folder: &String| {
            let rest = path.strip_prefix(folder.trim_matches('/'));
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || folder.trim_matches('/').is_empty()
            })
        };
        let user = self.0.iter().find(|one| one.name == user);
        user.is_some_and(|user| user.paths.is_empty() || user.paths.iter().any(is_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_user_has_no_hash_of_is_offered_to_none() {
        let user = |md5: Option<&str>, sha256: Option<&str>| User {
            name: "ada".to_owned(),
            secret: Secret::Hashed { md5: md5.map(str::to_owned), sha256: sha256.map(str::to_owned) },
            paths: Vec::new(),
        };
        let bob = User { secret: Secret::Password("x".to_owned()), ..user(None, None) };
        let has_both = vec![user(Some("1"), Some("2")), bob.clone(), user(None, Some("2"))];
        assert!(UserList(has_both).all_have_sha256());
        assert!(!UserList(vec![bob, user(Some("1"), None)]).all_have_sha256());
    }

    #[test]
    fn users_see_their_folders_and_no_others() {
        let paths = vec!["films/old".to_owned(), "/news.mp4".to_owned()];
        let secret = Secret::Password("x".to_owned());
        let ada = User { name: "ada".to_owned(), secret: secret.clone(), paths };
        let bob = User { name: "bob".to_owned(), secret, paths: Vec::new() };
        let users = UserList(vec![ada, bob]);
        for (user, path, may) in [
            ("ada", "films/old/a.mp4", true),
            ("ada", "films/older.mp4", false),
            ("ada", "films/new/a.mp4", false),
            ("ada", "news.mp4", true),
            ("bob", "films/new/a.mp4", true),
            ("eve", "news.mp4", false),
        ] {
            assert_eq!(users.may_watch(user, path), may, "{user} {path}");
        }
    }
}
