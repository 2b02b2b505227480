//! Options of `forebay serve`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_quantity::size;
use forebay_server::config::{address, memory, ports, seconds};

use crate::args::Cameras;

/// Options of `forebay serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct Serve {
    /// The folder with the media files; with several, the name of each begins its URLs
    #[arg(value_name = "DIR", required_unless_present_any = ["config", "check"])]
    pub folders: Vec<PathBuf>,
    /// Read settings from a TOML file; options on the command line override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check a settings file, and exit without serving
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub check: Option<PathBuf>,
    /// Listen here, such as 8555, 192.0.2.7:8554 or `[::1]:8554`; may be given more than once [default: 8554 on all addresses]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub listen: Vec<SocketAddr>,
    /// Send UDP packets from these ports, two for each local address that clients connect to [default: 6970-6999]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub udp_ports: Option<RangeInclusive<u16>>,
    /// Buffers of each session: with 1, reads and sends take turns; with 2, one is read while the other is sent [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub buffers: Option<u8>,
    /// Size of each buffer, such as 256K [default: the size that saves the most disk time]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer_size: Option<u64>,
    /// Memory for the buffers of all sessions, at least 16K [default: 72M]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Leave out pictures that wait longer than this for a slow client on TCP; sound may wait twice as long [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub late: Option<Duration>,
    /// Threads that read files [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub readers: Option<u16>,
    /// Serve links that lead out of DIR, such as to other disks
    #[arg(long)]
    pub follow_links: bool,
    /// Keep the indices of large files here for the next start [default: $XDG_CACHE_HOME/forebay]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Add a line for each session and each request over HTTP to this file, in the Common Log Format
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Show a status page at http://ADDRESS/, and metrics for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub status: Option<SocketAddr>,
    /// Switch to this user after binding ports (requires root)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Cameras instead of files
    #[command(flatten)]
    pub cameras: Cameras,
}

const SERVE_HELP: &str = r#"The server streams every file of DIR and its subfolders at
rtsp://HOST:8554/PATH. It reads MP4, MOV, Matroska, WebM, MPEG transport
streams, AVI, FLV, Ogg, WAV, raw H.264, H.265, AAC and MP3, and playlists of
them (.m3u). It skips names that begin with a dot and, without --follow-links,
links that lead out of DIR. With several DIRs, a URL is
rtsp://HOST:8554/NAME/PATH, where NAME is what the DIR is called.

A URL may end with ?loop (start again at the end), with ?start=SECONDS (skip
the beginning), with ?end=SECONDS (skip the rest), or with several of them,
joined by &. The streams of a transport stream are tracks; with ?raw it is sent
as it is. With ?text, subtitles are sent as text; ?text=red repeats each text.

A settings file has the names of the options, and more: folders with users of
their own, limits and TLS.
Its relative paths start at its own folder.

  folder = "films"
  memory = "64M"
  late = 2
  # The first of 256 groups, for clients that ask for multicast
  multicast = "239.255.42.0"
  multicast-ttl = 1

  # TLS, at rtsps://HOST:8322/PATH
  [tls]
  listen = [8322]
  certificate = "cert.pem"
  key = "key.pem"

  # Also: connections, connections-per-address, connects-per-second,
  # sessions-per-address, request-bytes, session-timeout-seconds
  [limits]
  sessions = 100

  # Instead of password: md5 and sha256, hashes of name:realm:password
  # Without paths, the user may watch every file
  [[users]]
  name = "ada"
  password = "lovelace"
  paths = ["holidays"]

In place of folder, the file may have several [[folders]], each with a name, a
path and, if not for all users, its users or public = true.

If one user has an md5 and no sha256, the server asks all clients for MD5,
which is weaker.

On SIGHUP, folders, users, limits and certificates are reloaded; settings that
need a restart are reported. On SIGTERM and Ctrl-C, the server tells clients
and ends.

Examples:
  forebay serve films
  forebay serve films /srv/music
  forebay serve --listen 127.0.0.1:8555 --memory 64M films
  forebay serve --cameras 100 --seed 7 --faults 10 film.mp4
  forebay serve --check serve.toml && forebay serve --config serve.toml
  ffplay 'rtsp://localhost:8554/film.mp4?start=90'"#;

#[cfg(test)]
mod tests {
    use forebay_server::Settings;

    use super::*;

    #[test]
    fn the_settings_in_the_help_are_read() {
        let lines = SERVE_HELP.lines().skip_while(|line| !line.starts_with("  folder"));
        let lines = lines.take_while(|line| line.is_empty() || line.starts_with("  "));
        let example: Vec<&str> = lines.map(|line| line.strip_prefix("  ").unwrap_or_default()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("serve.toml");
        std::fs::write(&file, example.join("\n")).expect("a file");
        let settings = Settings::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(settings.tls.is_some() && settings.multicast.is_some() && settings.users.len() == 1);
        assert_eq!(settings.sessions_max, 100);
    }
}
