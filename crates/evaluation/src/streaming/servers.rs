//! The servers that are compared: ours, with one buffer or more, and those that others have.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_players::Processors;

use super::media::{Media, remux};
use crate::Error;
use crate::interrupt::Interrupt;
use crate::server::process::Process;
use crate::server::{find_program, streaming as gstreamer};

/// How long ffmpeg may take to publish all files.
const FEED_LIMIT: Duration = Duration::from_secs(60);

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
    /// MediaMTX, which ffmpeg feeds: all clients of a path see the same moment.
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
            running.feeds = self.feed(media, folder, address)?;
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
        let port = address.port().to_string();
        let names = |extension: &str| (0..media.files).map(|number| format!("{number}{extension}")).collect();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        Ok(match subject {
            Subject::Forebay { buffers } => {
                let mut line = vec![self.program.into(), "serve".into(), media.folder.clone().into()];
                line.extend(words(&["--listen", &address.to_string(), "--buffers", &buffers.to_string()]));
                (line, folder.to_owned(), names(".mp4"))
            }
            Subject::Gstreamer => {
                let server = gstreamer::build(self.scratch, self.interrupt)?;
                let mut line = vec![server.into(), port.into()];
                line.extend((0..media.files).map(|number| media.folder.join(Media::name(number)).into()));
                (line, folder.to_owned(), names(""))
            }
            Subject::Mediamtx => {
                let settings = folder.join("mediamtx.yml");
                let text = format!(
                    "logLevel: warn\nrtspAddress: {address}\nrtmp: no\nhls: no\nwebrtc: no\nsrt: no\npaths:\n  all_others:\n"
                );
                fs::write(&settings, text).map_err(Error::file("write", &settings))?;
                (vec!["mediamtx".into(), settings.into()], folder.to_owned(), names(""))
            }
            Subject::Live555 => {
                remux(media, "mkv", self.interrupt)?;
                // It serves the folder that it runs in, and writes nothing there.
                let run = "cd \"$1\" && exec live555MediaServer -p \"$2\"";
                let mut line = words(&["sh", "-c", run, "live555"]);
                line.extend([media.folder.clone().into(), port.into()]);
                (line, folder.to_owned(), names(".mkv"))
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

    /// Has ffmpeg publish each file again and again, on the players' processor.
    fn feed(&self, media: &Media, folder: &Path, address: SocketAddr) -> Result<Vec<Process>, Error> {
        let feed = |number: u32| {
            let folder = folder.join(format!("feed-{number}"));
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            let (file, url) = (media.folder.join(Media::name(number)), format!("rtsp://{address}/{number}"));
            let before = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i"].map(OsString::from);
            let after = ["-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp", &url].map(OsString::from);
            let line: Vec<_> = before.into_iter().chain([file.into()]).chain(after).collect();
            Processors::on(self.processors.players, || Process::start(&line, &folder, None))
        };
        (0..media.files).map(feed).collect()
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
