//! The owner's side: starts a cleanup process, gives it orders, and makes sure of the end.

use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;

use super::protocol::{Answer, Layer, Order, decode_answer, encode_order};
use super::{ASKED, leftovers};
use crate::rig::Stats;
use crate::{Error, Profile};

/// Longer than any order takes: formatting, making an image of a folder, or waiting for the users of a disk and writing it
/// back.
const ANSWER_PATIENCE: Duration = Duration::from_secs(300);
const EXIT_PATIENCE: Duration = Duration::from_secs(10);

/// A cleanup process and its rig. Dropping it takes both down and waits for that.
#[derive(Debug)]
pub(crate) struct CleanupProcess {
    process: Child,
    socket: Mutex<BufReader<UnixStream>>,
    layer: Layer,
    folder: Option<PathBuf>,
    mount_point: PathBuf,
    device: Option<PathBuf>,
}

impl CleanupProcess {
    /// Starts a cleanup process with a rig, which has no latency yet. Its folder is a new one in `parent`.
    pub(crate) fn start(
        layer: Layer,
        profile: Profile,
        size_bytes: u64,
        parent: &Path,
    ) -> Result<Self, Error> {
        let order = Order::Start { layer, profile, size_bytes, parent: parent.to_owned() };
        let (ours, theirs) = UnixStream::pair().map_err(|error| Error::io("make a socket", error))?;
        ours.set_read_timeout(Some(ANSWER_PATIENCE)).map_err(|error| Error::io("set up a socket", error))?;
        let process = Command::new("/proc/self/exe")
            .arg0("forebay-rig")
            // What a test program understands: should it not become a cleanup process, it runs no test and ends.
            .args(["--exact", "forebay-rig"])
            .env(ASKED, std::process::id().to_string())
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Error::io("start this program again", error))?;
        // Owned from here on, so that it is waited for whatever happens next.
        let mut cleanup = Self {
            process,
            socket: Mutex::new(BufReader::new(ours)),
            layer,
            folder: None,
            mount_point: PathBuf::new(),
            device: None,
        };
        match cleanup.ask(order) {
            Ok(Answer::Started { folder, device }) => {
                cleanup.mount_point = folder
                    .as_deref()
                    .map_or_else(PathBuf::new, |folder| leftovers::mount_point(layer, folder));
                cleanup.folder = folder;
                cleanup.device = device;
                Ok(cleanup)
            }
            Ok(_) => Err(Error::Cleanup("it did not say what it started".into())),
            Err(error) if cleanup.has_exited() => Err(match error {
                Error::Cleanup(_) => Error::Cleanup(
                    "this program does not become a cleanup process when asked: its main must begin with \
                     forebay_lab::cleanup::enter_if_asked(), and tests need the feature before-main"
                        .into(),
                ),
                other => other,
            }),
            Err(error) => Err(error),
        }
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn ask(&self, order: Order) -> Result<Answer, Error> {
        let order = encode_order(&order)?;
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = String::new();
        let received = send(socket.get_ref(), order.as_bytes()).and_then(|()| socket.read_line(&mut answer));
        match received {
            Ok(0) => Err(Error::Cleanup(format!("its process {} is gone", self.process.id()))),
            Ok(_) => decode_answer(&answer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Cleanup(format!(
                "its process {} did not answer within {} s",
                self.process.id(),
                ANSWER_PATIENCE.as_secs()
            ))),
            Err(error) => Err(Error::Cleanup(format!("its process {} is gone: {error}", self.process.id()))),
        }
    }

    pub(crate) fn stats(&self) -> Result<Stats, Error> {
        match self.ask(Order::Stats)? {
            Answer::Counted(stats) => Ok(stats),
            _ => Err(Error::Cleanup("it did not say what it counted".into())),
        }
    }

    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    pub(crate) fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process ends within a moment.
    fn has_exited(&mut self) -> bool {
        let give_up = Instant::now() + Duration::from_secs(2);
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }

    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        let give_up = Instant::now() + EXIT_PATIENCE;
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => {
                    // It is ours and does not do its work; with its threads ends what keeps the rig alive.
                    let _ = self.process.kill();
                    return self.process.wait().ok();
                }
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }
}

impl Drop for CleanupProcess {
    fn drop(&mut self) {
        let stopped = self.ask(Order::Stop);
        let removed = if self.wait_for_exit().is_some_and(|status| status.success()) {
            stopped
        } else {
            // It was killed, or did not manage to end: the same from here.
            leftovers::remove(self.layer, self.folder.as_deref(), self.device.as_deref())
                .map(|()| Answer::Done)
        };
        if let Err(error) = removed {
            eprintln!("forebay: {error}");
        }
    }
}

/// Writes without the SIGPIPE that the death of a cleanup process would mean to a program that has not blocked it.
fn send(socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}
