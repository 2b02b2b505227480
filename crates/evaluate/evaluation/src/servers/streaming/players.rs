//! Players in a process of their own, on a processor of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_stream_clients::process::{Said, Told};
use forebay_stream_clients::{Gathered, Order, Outcome, Processors};
use rustix::process::{Pid, Signal, kill_process};

use crate::Error;

/// The command line of `forebay` that becomes the players.
const COMMAND: [&str; 2] = ["evaluate", "players"];
/// How often is looked for an interrupt, and whether the server is still there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What players of all sorts of servers take at most to come.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process of players. Dropped, they leave, and it ends.
pub(super) struct Players {
    child: Child,
    input: Option<ChildStdin>,
    told: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Players {
    pub(super) fn start(program: &Path, processor: Option<usize>) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the one who started all this, who lets them leave.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let line = || format!("{} {}", program.display(), COMMAND.join(" "));
        let mut child = Processors::on(processor, || command.spawn())
            .map_err(|source| Error::Start { command: line(), source })?;
        let (sender, told) = mpsc::channel();
        let output = child.stdout.take();
        let read = move || {
            let lines = output.map(|output| BufReader::new(output).lines().map_while(Result::ok));
            for line in lines.into_iter().flatten() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        };
        let reader = Some(std::thread::spawn(read));
        Ok(Self { input: child.stdin.take(), child, told, reader })
    }

    /// Has them come. `check` is asked now and then whether to go on.
    pub(super) fn play(
        &mut self,
        order: &Order,
        check: impl FnMut() -> Result<(), Error>,
    ) -> Result<Gathered, Error> {
        match self.ask(&Said::Play(order.clone()), PATIENCE, check)? {
            Told::Gathered(gathered) => Ok(gathered),
            other => Err(unexpected(other)),
        }
    }

    /// Has them watch for `seconds`, after `warm_up_s`.
    pub(super) fn watch(
        &mut self,
        warm_up_s: f64,
        seconds: f64,
        check: impl FnMut() -> Result<(), Error>,
    ) -> Result<Outcome, Error> {
        let patience = PATIENCE + Duration::from_secs_f64(warm_up_s + seconds);
        match self.ask(&Said::Watch { warm_up_s, seconds }, patience, check)? {
            Told::Outcome(outcome) => Ok(*outcome),
            other => Err(unexpected(other)),
        }
    }

    /// Has them be gone for the server, without a word to it.
    pub(super) fn vanish(&mut self) -> Result<(), Error> {
        match self.ask(&Said::Vanish, PATIENCE, || Ok(()))? {
            Told::Vanished => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Has them do nothing any more, not even read.
    pub(super) fn freeze(&mut self) -> Result<(), Error> {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::STOP)
            .map_err(|error| Error::Load(format!("players cannot be stopped: {error}")))
    }

    /// Ends them as a crash would: without a word to the server.
    pub(super) fn kill(mut self) {
        // That it has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn ask(
        &mut self,
        said: &Said,
        patience: Duration,
        mut check: impl FnMut() -> Result<(), Error>,
    ) -> Result<Told, Error> {
        let mut line = serde_json::to_vec(said).expect("orders have no maps with odd keys");
        line.push(b'\n');
        let ended = || Error::Load("the process of the players ended before its work was done".into());
        self.input.as_mut().and_then(|input| input.write_all(&line).ok()).ok_or_else(ended)?;
        let begun = Instant::now();
        loop {
            match self.told.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    return serde_json::from_str(&line)
                        .map_err(|error| Error::Load(format!("players tell what cannot be read: {error}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => check()?,
            }
            if begun.elapsed() > patience {
                return Err(Error::Load(format!("players did nothing within {patience:?}")));
            }
        }
    }
}

fn unexpected(told: Told) -> Error {
    match told {
        Told::Failed(why) => Error::Load(why),
        _ => Error::Load("players answered another question; run it again".into()),
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        self.input = None;
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that does not leave is made to.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
