//! Options of `forebay serve`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use forebay_quantity::size;
use forebay_server::config::{address, ports};

/// Options of `forebay serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct Serve {
    /// The folder with the files
    #[arg(value_name = "DIR", required_unless_present_any = ["config", "check"])]
    pub folder: Option<PathBuf>,
    /// Take settings from a file in TOML; what is given here comes before them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say whether a file of settings is right, and serve nothing
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub check: Option<PathBuf>,
    /// Where to listen, such as 8555, 192.0.2.7:8554 or `[::1]:8554`; may be given more than once; 8554 on all addresses if not
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub listen: Vec<SocketAddr>,
    /// Ports that packets over UDP come from, two for each address that clients come to [default: 6970-6999]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub udp_ports: Option<RangeInclusive<u16>>,
    /// Buffers of each session: 1 is read and sent in turns, 2 have one read while the other is sent [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub buffers: Option<u8>,
    /// Size of each buffer, such as 256K; what saves most of the disk's time if not given
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer_size: Option<u64>,
    /// Memory for the buffers of all sessions [default: 72M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Threads that read files [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub readers: Option<u16>,
    /// Show what is going on at http://ADDRESS/, and at http://ADDRESS/metrics for Prometheus
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub status: Option<SocketAddr>,
    /// Become this user once ports are bound; for who starts it as root
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

const SERVE_HELP: &str = r#"Every file of the folder and of those in it is at rtsp://HOST:8554/PATH: MP4, MOV, Matroska, WebM, MPEG transport streams,
raw H.264, H.265, AAC and MP3, and playlists of them (.m3u). Files and folders whose names begin with a dot are not served,
nor is what links lead to outside of the folder.

A URL may end with ?loop, to begin again at the end, and with ?start=SECONDS, to leave out what is before;
both with & between them.

A file of settings can say the same and more: who may watch what, limits, and TLS. Names are those of the options.

  folder = "films"              # seen from where the file is
  memory = "64M"
  multicast = "239.255.42.0"    # the first of 256 groups, for clients that ask for one; multicast-ttl = 1
  [tls]                         # rtsps://HOST:8322/PATH
  listen = [8322]
  certificate = "cert.pem"
  key = "key.pem"
  [limits]                      # connections, connections-per-address, connects-per-second, sessions,
  sessions = 100                # sessions-per-address, request-bytes, session-timeout-seconds
  [[users]]                     # md5 and sha256, of name:realm:password, may stand for a password
  name = "ada"
  password = "lovelace"
  paths = ["holidays"]          # everything without

Where one user has an md5 and no sha256, all are asked for MD5, which is weaker.

SIGHUP has users, limits and certificates taken over from the file again, and says what needs another start. SIGTERM and Ctrl-C end the server, when clients have been told.

Examples:
  forebay serve films
  forebay serve --listen 127.0.0.1:8555 --memory 64M films
  forebay serve --check serve.toml && forebay serve --config serve.toml
  ffplay 'rtsp://localhost:8554/film.mp4?start=90'"#;
