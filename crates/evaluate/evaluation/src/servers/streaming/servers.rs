//! The servers that are compared: ours, with one buffer or more, and those that others have.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_stream_clients::Processors;

use super::films::Films;
use super::loopback_port;
use super::media::{Container, File, Media};
use crate::Error;
use crate::harness::interrupt::Interrupt;
use crate::servers::mediamtx;
use crate::servers::server::process::Process;
use crate::servers::server::{find_program, streaming as gstreamer};

/// No more files are published: each takes almost 1 % of the players' processor.
const FEEDS_MAX: usize = 8;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// `forebay serve` with so many buffers for each session.
    Forebay {
        /// How many.
        buffers: u8,
    },
    /// `forebay serve --cameras`, with a camera for each client. All cameras play the same few films, each from a place of its own.
    Cameras,
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
        let live555 = find_program("live555MediaServer").is_some();
        let others = [(Self::Mediamtx, mediamtx::is_there()), (Self::Live555, live555)];
        let others = others.into_iter().filter(|(_, is_there)| *is_there).map(|(subject, _)| subject);
        [Self::Gstreamer].into_iter().chain(others).collect()
    }

    /// What its files are in: made ones in one container, real ones in all that it reads.
    pub(super) fn containers(self, films: Films) -> &'static [Container] {
        match (films, self) {
            (Films::Made, Self::Live555) => &[Container::Matroska],
            (Films::Made, _) => &[Container::Mp4],
            (Films::Real, Self::Live555) => &[Container::Matroska, Container::TransportStream],
            (Films::Real, _) => &Container::ALL,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forebay { buffers: 1 } => f.pad("forebay, 1 buffer"),
            Self::Forebay { buffers } => f.pad(&format!("forebay, {buffers} buffers")),
            Self::Cameras => f.pad("forebay, cameras"),
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
    pub(super) films: Films,
    pub(super) clients: u32,
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
    /// Bits a second of each of these.
    pub(super) rates: Vec<f64>,
    /// How much faster than time the clock of each of these runs; empty where none does.
    pub(super) drifts: Vec<f64>,
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
        let mut files = media.of(subject.containers(self.films));
        if subject == Subject::Mediamtx {
            files.truncate(FEEDS_MAX);
        }
        let (line, working, paths) = self.line(subject, media, &files, folder, address)?;
        let drifts = if subject == Subject::Cameras { drifts(&line)? } else { vec![] };
        let start = || Process::start(&line, &working, join);
        let mut server = Processors::on(self.processors.server, start)?;
        server.wait_for(&[address], self.interrupt)?;
        // Camera n plays the film with n modulo their number.
        let rates = files.iter().cycle().take(paths.len()).map(|file| media.bits_of(file)).collect();
        let mut running = Running { server, feeds: vec![], paths, rates, drifts };
        if subject == Subject::Mediamtx {
            let files: Vec<_> = files.iter().map(|file| media.path(file)).collect();
            let feed = || mediamtx::feed(&files, folder, address, self.interrupt, || running.server.check());
            running.feeds = Processors::on(self.processors.players, feed)?;
        }
        Ok(running)
    }

    /// Its command line, where it runs, and what it calls the files.
    fn line(
        &self,
        subject: Subject,
        media: &Media,
        files: &[&File],
        folder: &Path,
        address: SocketAddr,
    ) -> Result<(Vec<OsString>, PathBuf, Vec<String>), Error> {
        let numbers = || (0..files.len()).map(|number| number.to_string()).collect();
        let names = || files.iter().map(|file| file.name.clone()).collect();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        Ok(match subject {
            Subject::Forebay { buffers } => {
                let mut line = vec![self.program.into(), "serve".into(), media.folder.clone().into()];
                line.extend(words(&["--listen", &address.to_string(), "--buffers", &buffers.to_string()]));
                (line, folder.to_owned(), names())
            }
            Subject::Cameras => {
                let mut line = vec![self.program.into(), "serve".into()];
                line.extend(files.iter().map(|file| media.path(file).into()));
                line.extend(words(&[
                    "--listen",
                    &address.to_string(),
                    "--cameras",
                    &self.clients.to_string(),
                ]));
                let names = (1..=self.clients).map(|number| format!("camera-{number}")).collect();
                (line, folder.to_owned(), names)
            }
            Subject::Gstreamer => {
                let server = gstreamer::build(self.scratch, self.interrupt)?;
                let mut line = vec![server.into(), address.port().to_string().into()];
                line.extend((self.films == Films::Real).then(|| gstreamer::WITH_SOUND.into()));
                line.extend(files.iter().map(|file| media.path(file).into()));
                (line, folder.to_owned(), numbers())
            }
            Subject::Mediamtx => {
                let line = mediamtx::command_line(folder, address)?;
                (line, folder.to_owned(), numbers())
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
}

/// How far the clocks of a server's cameras run away, which it lists instead of serving them.
fn drifts(line: &[OsString]) -> Result<Vec<f64>, Error> {
    let [program, arguments @ ..] = line else { return Ok(vec![]) };
    let mut command = Command::new(program);
    command.args(arguments).arg("--list-cameras");
    let name = format!("{command:?}");
    let output = command.output().map_err(|source| Error::Start { command: name.clone(), source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed { command: name, status: output.status.to_string(), stderr });
    }
    listed_drifts(&String::from_utf8_lossy(&output.stdout))
}

/// Of a list that has a line for each camera.
fn listed_drifts(list: &str) -> Result<Vec<f64>, Error> {
    let of_camera = |line: &str| {
        // The name of a film comes before, and may have anything.
        let ppm = line.rsplit(' ').find_map(|word| word.strip_prefix("drift=")?.strip_suffix("ppm"));
        let ppm: Option<f64> = ppm.and_then(|ppm| ppm.parse().ok());
        ppm.map(|ppm| ppm / 1e6)
            .ok_or_else(|| Error::Load(format!("a camera is listed without its clock: {line}")))
    };
    list.lines().map(of_camera).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cameras_tells_how_far_each_clock_runs_away() {
        let list = "camera-1 user=- film=a.mp4 phase=1.000s clock=+0.020s drift=-12.5ppm faults=-\n\
                    camera-2 user=- film=a drift=9ppm.mp4 phase=0.5s clock=-0.1s drift=+50.0ppm faults=loss\n";
        assert_eq!(listed_drifts(list).unwrap(), [-12.5e-6, 50e-6]);
        assert!(listed_drifts("camera-1 user=-\n").is_err());
    }
}
