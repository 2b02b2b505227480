//! The servers that are compared: ours, with one buffer or more, and those that others have.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_players::Processors;

use super::loopback_port;
use super::media::{Container, Media};
use crate::Error;
use crate::interrupt::Interrupt;
use crate::server::process::{Process, free_pair};
use crate::server::{find_program, streaming as gstreamer};

/// How long ffmpeg may take to publish all files.
const FEED_LIMIT: Duration = Duration::from_secs(60);
/// No more files are published: each takes almost 1 % of the players' processor.
const FEEDS_MAX: u32 = 8;
/// Packets of this length MediaMTX passes on as they are.
const FEED_PACKET_BYTES: &str = "1440";

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// `forebay serve` with so many buffers for each session.
    Forebay {
        /// How many.
        buffers: u8,
    },
    /// GStreamer's, with a pipeline for each client.
    Gstreamer,
    /// MediaMTX, which ffmpeg feeds with a few of the files: all clients of a path see the same moment.
    Mediamtx,
    /// live555MediaServer, on Matroska files.
    Live555,
}

impl Subject {
    /// Those of others that are on this machine. GStreamer's is built here, and missed where it cannot be.
    #[must_use]
    pub fn peers() -> Vec<Self> {
        let found = |program: &str| find_program(program).is_some();
        let others = [(Self::Mediamtx, "mediamtx"), (Self::Live555, "live555MediaServer")];
        let others = others.into_iter().filter(|(_, program)| found(program)).map(|(subject, _)| subject);
        [Self::Gstreamer].into_iter().chain(others).collect()
    }

    /// What its files are.
    pub(super) fn container(self) -> Container {
        match self {
            Self::Live555 => Container::Matroska,
            Self::Forebay { .. } | Self::Gstreamer | Self::Mediamtx => Container::Mp4,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forebay { buffers: 1 } => f.pad("forebay, 1 buffer"),
            Self::Forebay { buffers } => f.pad(&format!("forebay, {buffers} buffers")),
            Self::Gstreamer => f.pad("gstreamer"),
            Self::Mediamtx => f.pad("mediamtx"),
            Self::Live555 => f.pad("live555"),
        }
    }
}

/// Says what is missing before anything is measured.
pub(super) fn check(subjects: &[Subject]) -> Result<(), Error> {
    if find_program("ffmpeg").is_none() {
        return Err(Error::Missing { program: "ffmpeg", package: "ffmpeg" });
    }
    if subjects.contains(&Subject::Gstreamer) {
        gstreamer::check()?;
    }
    if subjects.contains(&Subject::Live555) {
        loopback_port::check()?;
    }
    Ok(())
}

/// What it takes to start servers.
pub(super) struct Kitchen<'a> {
    /// Of `forebay`.
    pub(super) program: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) processors: Processors,
    pub(super) interrupt: &'a Interrupt,
}

/// A server that runs, with what feeds it. Dropped, it ends.
pub(super) struct Running {
    pub(super) server: Process,
    feeds: Vec<Process>,
    /// What clients play, below the address.
    pub(super) paths: Vec<String>,
}

impl Running {
    /// An error where it has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.server.check()?;
        self.feeds.iter_mut().try_for_each(Process::check)
    }
}

impl Kitchen<'_> {
    /// Starts a server of these media, on the servers' processor, in a folder of its own.
    pub(super) fn start(
        &self,
        subject: Subject,
        media: &Media,
        folder: &Path,
        address: SocketAddr,
        join: Option<&Path>,
    ) -> Result<Running, Error> {
        let (line, working, paths) = self.line(subject, media, folder, address)?;
        let start = || Process::start(&line, &working, join);
        let mut server = Processors::on(self.processors.server, start)?;
        server.wait_for(address, self.interrupt)?;
        let mut running = Running { server, feeds: vec![], paths };
        if subject == Subject::Mediamtx {
            running.feeds = self.feed(media, running.paths.len() as u32, folder, address)?;
            self.wait_for_feeds(&mut running, address)?;
        }
        Ok(running)
    }

    /// Its command line, where it runs, and what it calls the files.
    fn line(
        &self,
        subject: Subject,
        media: &Media,
        folder: &Path,
        address: SocketAddr,
    ) -> Result<(Vec<OsString>, PathBuf, Vec<String>), Error> {
        let numbers = |end: u32| (0..end).map(|number| number.to_string()).collect();
        let names = || (0..media.files).map(|number| subject.container().name(number)).collect();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        Ok(match subject {
            Subject::Forebay { buffers } => {
                let mut line = vec![self.program.into(), "serve".into(), media.folder.clone().into()];
                line.extend(words(&["--listen", &address.to_string(), "--buffers", &buffers.to_string()]));
                (line, folder.to_owned(), names())
            }
            Subject::Gstreamer => {
                let server = gstreamer::build(self.scratch, self.interrupt)?;
                let mut line = vec![server.into(), address.port().to_string().into()];
                line.extend((0..media.files).map(|number| media.path(number).into()));
                (line, folder.to_owned(), numbers(media.files))
            }
            Subject::Mediamtx => {
                let settings = folder.join("mediamtx.yml");
                let (rtp, rtcp) = free_pair()?;
                let text = format!(
                    "logLevel: warn\nrtspAddress: {address}\nrtpAddress: {rtp}\nrtcpAddress: {rtcp}\n\
                     rtmp: no\nhls: no\nwebrtc: no\nsrt: no\npaths:\n  all_others:\n"
                );
                fs::write(&settings, text).map_err(Error::file("write", &settings))?;
                // Settings with a name that a version does not know are an error in a file, and nothing in the environment.
                let mut line = words(&["env", "MTX_MOQ=no", "mediamtx"]);
                line.push(settings.into());
                (line, folder.to_owned(), numbers(media.files.min(FEEDS_MAX)))
            }
            Subject::Live555 => {
                // It serves the folder that it runs in, and writes nothing there.
                let run = "cd \"$1\" && shift && exec env \"$@\" live555MediaServer";
                let mut line = words(&["sh", "-c", run, "live555"]);
                line.push(media.folder.clone().into());
                line.extend(loopback_port::environment(self.scratch, address.port(), self.interrupt)?);
                (line, folder.to_owned(), names())
            }
        })
    }

    /// Waits until the server describes all that it is fed.
    fn wait_for_feeds(&self, running: &mut Running, address: SocketAddr) -> Result<(), Error> {
        let begun = Instant::now();
        let mut paths = running.paths.clone();
        while !paths.is_empty() {
            self.interrupt.check()?;
            running.check()?;
            paths.retain(|path| !describes(address, path));
            if begun.elapsed() > FEED_LIMIT {
                return Err(Error::Load(format!(
                    "ffmpeg could not publish to {address} within {FEED_LIMIT:?}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Has ffmpeg publish the first files, each again and again, on the players' processor.
    fn feed(
        &self,
        media: &Media,
        files: u32,
        folder: &Path,
        address: SocketAddr,
    ) -> Result<Vec<Process>, Error> {
        let feed = |number: u32| {
            let folder = folder.join(format!("feed-{number}"));
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            let (file, url) = (media.path(number), format!("rtsp://{address}/{number}"));
            let before = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i"].map(OsString::from);
            let after = ["-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp"].map(OsString::from);
            let after = after.into_iter().chain(["-pkt_size", FEED_PACKET_BYTES, &url].map(OsString::from));
            let line: Vec<_> = before.into_iter().chain([file.into()]).chain(after).collect();
            Processors::on(self.processors.players, || Process::start(&line, &folder, None))
        };
        (0..files).map(feed).collect()
    }
}

/// Whether a server has something to play there.
fn describes(address: SocketAddr, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let request = format!(
            "DESCRIBE rtsp://{address}/{path} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b"200"))
    };
    ask().unwrap_or(false)
}
