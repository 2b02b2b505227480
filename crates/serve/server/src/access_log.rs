//! The access log: a line for each session that ended, for each request over HTTP, and for each other request that was refused.
//!
//! Lines begin as in the Common Log Format of web servers, with the client's program behind it. What streams have beside that
//! follows as `name=value`:
//!
//! ```text
//! 192.0.2.7 - ada [26/Nov/2026:17:01:53 +0000] "PLAY /a.mp4?loop RTSP/1.0" 200 7340032 "-" "Lavf61" \
//!     transport=TCP duration=12.480 packets=5420 dropped=3 dropped_sound=0 late=0.612 stalls=0
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use forebay_rtsp::target::bytes_of;
use forebay_streaming::stream::Counts;

/// What players of streams speak.
pub(crate) const RTSP: &str = "RTSP/1.0";

/// What browsers, and clients of ONVIF, speak.
pub(crate) const HTTP: &str = "HTTP/1.1";

/// What a line says of a session or a request.
pub(crate) struct Access<'a> {
    pub client: IpAddr,
    pub user: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub method: &'a str,
    /// What is asked for, as in a URL.
    pub target: &'a str,
    /// What the client speaks, with its version.
    pub protocol: &'a str,
    pub status: u16,
    /// What the client was sent, without heads.
    pub bytes: u64,
    /// Of a session: how its packets went, for how long it was there, and what happened.
    pub session: Option<(&'static str, Duration, Counts)>,
}

impl Access<'_> {
    /// The line, of a session or request that ended at `now`.
    pub fn line(&self, now: SystemTime) -> String {
        let Self { client, user, agent, method, target, protocol, status, bytes, session } = self;
        let user = user.map_or("-".to_owned(), |user| quoted(user).replace(' ', "_"));
        let agent = agent.map_or("-".to_owned(), quoted);
        let mut line = format!(
            "{client} - {user} [{}] \"{method} {} {protocol}\" {status} {bytes} \"-\" \"{agent}\"",
            date(now),
            quoted(target),
        );
        if let Some((transport, duration, counts)) = session {
            line += &format!(
                " transport={transport} duration={:.3} packets={} dropped={} dropped_sound={} late={:.3} stalls={}",
                duration.as_secs_f64(),
                counts.packets,
                counts.dropped,
                counts.dropped_sound,
                counts.late_ns_max as f64 / 1e9,
                counts.stalls,
            );
        }
        line
    }
}

/// What is asked for by a path and a query.
pub(crate) fn target(path: &str, query: &str) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    format!("/{}{mark}{query}", escaped(path))
}

/// `26/Nov/2026:17:01:53 +0000`, from `Thu, 26 Nov 2026 17:01:53 GMT`.
fn date(now: SystemTime) -> String {
    let date = httpdate::fmt_http_date(now);
    let mut words = date.split(' ').skip(1);
    let mut word = || words.next().unwrap_or_default();
    format!("{}/{}/{}:{} +0000", word(), word(), word(), word())
}

/// Without what would end a field.
fn quoted(text: &str) -> String {
    text.replace(|sign: char| sign.is_control() || sign == '"' || sign == '\\', "_")
}

/// A path as in a URL.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    let write = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes_of(path).into_iter().map(write).collect()
}

/// A file that lines are added to. Once another file has its name, or none, the next line goes to a new one: so a program that
/// moves logs away need not tell the server.
pub(crate) struct Appended {
    path: PathBuf,
    file: File,
}

impl Appended {
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self { path, file })
    }

    fn is_there(&self) -> io::Result<bool> {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let named = std::fs::metadata(&self.path).map(identity);
        Ok(named.is_ok_and(|named| self.file.metadata().map(identity).is_ok_and(|own| own == named)))
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_there()? {
            self.file = open(&self.path)?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_form_that_programs_for_web_logs_read() {
        let counts = Counts {
            packets: 5420,
            bytes: 7_340_032,
            dropped: 3,
            late_ns_max: 612_000_000,
            ..Counts::default()
        };
        let access = Access {
            client: "192.0.2.7".parse().expect("an address"),
            user: Some("ada l"),
            agent: Some("a \"b\"\n"),
            method: "PLAY",
            target: &target("old films/a\u{F7E9}.mp4", "loop"),
            protocol: RTSP,
            status: 200,
            bytes: counts.bytes,
            session: Some(("TCP", Duration::from_millis(12_480), counts)),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_712_513);
        assert_eq!(
            access.line(now),
            "192.0.2.7 - ada_l [26/Nov/2026:17:01:53 +0000] \"PLAY /old%20films/a%E9.mp4?loop RTSP/1.0\" 200 7340032 \
             \"-\" \"a _b__\" transport=TCP duration=12.480 packets=5420 dropped=3 dropped_sound=0 late=0.612 stalls=0"
        );
    }

    #[test]
    fn lines_go_to_the_file_that_has_the_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.log");
        let mut log = Appended::new(path.clone()).expect("a log");
        log.write_all(b"one\n").expect("a line");
        std::fs::rename(&path, folder.path().join("old.log")).expect("it is moved");
        log.write_all(b"two\n").expect("a line");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!((read("old.log"), read("access.log")), ("one\n".to_owned(), "two\n".to_owned()));
    }
}
