//! Players in a process of their own: orders come in as lines of JSON, and what came of them goes out so.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::crowd::{Crowd, Gathered};
use crate::order::Order;
use crate::outcome::Outcome;

/// How long players play on between looks at whether they are to be watched.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What players are told. When nothing can be told any more, they leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// Come, and play.
    Play(Order),
    /// What you see from then on, for so long, counts.
    Watch {
        /// In seconds from now.
        warm_up_s: f64,
        /// In seconds.
        seconds: f64,
    },
    /// Be gone for the server, without a word to it.
    Vanish,
}

/// What players tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// They have come.
    Gathered(Gathered),
    /// What they saw.
    Outcome(Box<Outcome>),
    /// They are gone.
    Vanished,
    /// Why there is nothing to tell.
    Failed(String),
}

/// Is the players of whoever speaks on `input`, until that ends. They write to `output`.
///
/// # Errors
/// Nobody hears what they tell.
pub fn serve(input: impl BufRead + Send + 'static, output: &mut impl Write) -> std::io::Result<()> {
    let (sender, orders) = mpsc::channel();
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&over);
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str::<Said>(&line)).is_err() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut tell = |told: &Told| -> std::io::Result<()> {
        serde_json::to_writer(&mut *output, told)?;
        output.write_all(b"\n")?;
        output.flush()
    };
    let mut crowd = None;
    loop {
        let said = match crowd.as_mut() {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => orders.recv_timeout(LOOK_EVERY),
        };
        match said {
            Ok(Ok(said)) => {
                tell(&obey(said, &mut crowd, &over).unwrap_or_else(|error| Told::Failed(error.to_string())))?
            }
            Ok(Err(error)) => {
                tell(&Told::Failed(format!("players cannot read what they are told: {error}")))?
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(Err(error)) = crowd.as_mut().map(|crowd| crowd.play_for(LOOK_EVERY, &over)) {
                    tell(&Told::Failed(error.to_string()))?;
                }
            }
        }
    }
}

fn obey(said: Said, crowd: &mut Option<Crowd>, over: &AtomicBool) -> Result<Told, Error> {
    match said {
        Said::Play(order) => {
            // Those of before leave first.
            *crowd = None;
            let crowd = crowd.insert(Crowd::new(order)?);
            crowd.gather(over).map(Told::Gathered)
        }
        Said::Vanish => {
            let crowd = crowd
                .as_mut()
                .ok_or(Error::Order("players vanish from what they play: let them play first"))?;
            crowd.vanish().map(|()| Told::Vanished)
        }
        Said::Watch { warm_up_s, seconds } => {
            let crowd =
                crowd.as_mut().ok_or(Error::Order("players watch what they play: let them play first"))?;
            let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
            crowd.watch(time(warm_up_s), time(seconds), over).map(|outcome| Told::Outcome(Box::new(outcome)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::order::{Start, Transport};

    #[test]
    fn what_is_said_is_answered_line_by_line() {
        let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let order = Order {
            address: nowhere,
            paths: vec!["film".into()],
            links: vec![],
            drifts: vec![],
            players: 2,
            transport: Transport::Tcp,
            ramp_per_second: 100.0,
            start: Start::Beginning,
            needed_s: 1.0,
            seek_every_s: None,
            stay_s: None,
            late_s: 0.1,
            seed: 1,
        };
        let lines = [
            serde_json::to_string(&Said::Play(order)).unwrap(),
            serde_json::to_string(&Said::Watch { warm_up_s: 0.0, seconds: 0.01 }).unwrap(),
            "nonsense".into(),
        ];
        let (input, mut parent) = std::os::unix::net::UnixStream::pair().unwrap();
        parent.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let mut output = Lines { text: Vec::new(), parent: Some(parent), left: 3 };
        serve(std::io::BufReader::new(input), &mut output).unwrap();
        let text = String::from_utf8(output.text).unwrap();
        let told: Vec<Told> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&told[0], Told::Gathered(Gathered { playing: 0, failed: 2, .. })), "{told:?}");
        assert!(matches!(&told[1], Told::Outcome(outcome) if outcome.late_streams == 2), "{told:?}");
        assert!(matches!(&told[2], Told::Failed(why) if why.contains("cannot read")), "{told:?}");
    }

    /// Hangs up after so many lines.
    struct Lines {
        text: Vec<u8>,
        parent: Option<std::os::unix::net::UnixStream>,
        left: usize,
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.parent = None;
            }
            Ok(())
        }
    }
}
