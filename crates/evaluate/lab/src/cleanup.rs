//! The process that holds a rig's parts and removes them when the rig's owner is gone, however the owner ended.
//!
//! It is this same program started again, in a session of its own, out of reach of the terminal's signals. A socket joins it
//! to its owner: orders go one way, answers the other. The end of the socket means that the owner is gone.

mod leftovers;
mod owner;
mod protocol;
mod served_rig;

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub(crate) use owner::CleanupProcess;
pub(crate) use protocol::{Layer, Order};
use served_rig::ServedRig;

use crate::{Error, sys};

/// Set in the environment of the process that shall become a cleanup process, to the process id of its owner.
const ASKED: &str = "FOREBAY_RIG_OWNER";

/// Becomes the cleanup process, and never returns, in the process that a rig starts for that purpose; likewise the entrance of a
/// [`root`](crate::root). Returns at once in every other.
///
/// A program that starts rigs calls this first in `main`.
pub fn enter_if_asked() {
    crate::root::enter_if_asked();
    let Some(owner) = std::env::var_os(ASKED) else { return };
    let owner = owner.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    // The rig is taken down on the way out of a panic as well.
    let served = std::panic::catch_unwind(AssertUnwindSafe(|| serve(owner)));
    std::process::exit(match served {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            eprintln!("forebay: {error}");
            1
        }
        Err(_) => 101,
    });
}

fn serve(owner: Option<Pid>) -> Result<(), Error> {
    let socket = leave_the_owner_s_world()?;
    // Watched besides the socket, whose other end a child of the owner could have inherited. Its number cannot have
    // been given to another process as long as it is our parent.
    let owner = owner
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok().map(|descriptor| (pid, descriptor)))
        .filter(|(pid, _)| rustix::process::getppid() == Some(*pid))
        .map(|(_, descriptor)| descriptor)
        .ok_or_else(|| Error::Cleanup("the process that asked for it is gone".into()))?;

    let mut orders = BufReader::new(socket.try_clone().map_err(|error| Error::io("share a socket", error))?);
    let mut answers = socket;
    let mut rig = ServedRig::default();
    while let Some(order) = next_order(&mut orders, &owner)? {
        let last = matches!(order, Order::Stop);
        let answer = protocol::encode_answer(&rig.obey(order));
        if answers.write_all(answer.as_bytes()).is_err() || last {
            break;
        }
    }
    rig.remove()
}

/// Cuts what ties a new process to where it was started from, and makes it fit to serve a block device.
fn leave_the_owner_s_world() -> Result<UnixStream, Error> {
    sys::block_terminal_signals();
    sys::close_inherited_from(3);
    let socket: OwnedFd =
        io::stdin().as_fd().try_clone_to_owned().map_err(|error| Error::io("take over the socket", error))?;
    // Fails only for the leader of a session, which is what it shall become.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").map_err(|error| Error::io("change to /", error))?;
    // From here on it is about doing better where root may: the rig also works without.
    let _ = rustix::thread::set_name(c"forebay-rig");
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    sys::stay_in_memory();
    Ok(UnixStream::from(socket))
}

/// Waits for an order; `None` when the owner is gone.
fn next_order(orders: &mut BufReader<UnixStream>, owner: &OwnedFd) -> Result<Option<Order>, Error> {
    let mut waited = [PollFd::new(orders.get_ref(), PollFlags::IN), PollFd::new(owner, PollFlags::IN)];
    loop {
        match poll(&mut waited, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("wait for orders", error)),
        }
    }
    if !waited[1].revents().is_empty() {
        return Ok(None);
    }
    let mut line = String::new();
    match orders.read_line(&mut line) {
        Ok(0) | Err(_) => Ok(None),
        Ok(_) => protocol::decode_order(&line).map(Some),
    }
}
