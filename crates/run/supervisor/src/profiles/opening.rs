//! Events of page faults are opened in a process apart, which passes them on. The kernel takes some 20 ms to open the first event of a
//! second, and sometimes many more. Nothing ends that wait, so the end of a run would wait, too.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use forebay_linux::process::{Apart, start_apart_with};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};

use crate::{ffi::FaultEvents, storms::family};

/// The most descriptors that the kernel passes with one message.
const DESCRIPTORS_MAX: usize = 253;

/// Events that are being opened.
pub struct Opening {
    opener: Option<Apart>,
    answers: OwnedFd,
}

/// What has come of it.
pub enum Answer {
    /// Nothing yet.
    None,
    /// There will be no events.
    Refused,
    Opened(FaultEvents),
}

impl Opening {
    /// Has events opened of the faults of a process and of its descendants. The calling thread must be the only one.
    ///
    /// # Errors
    /// The system refuses a process or a socket.
    pub fn begin(process: u32) -> io::Result<Self> {
        let (answers, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let opener = start_apart_with(theirs, |socket| {
            // Without a name it is only harder to find.
            let _ = rustix::thread::set_name(c"forebay:faults");
            // What is not passed on is closed with the process.
            let _ = FaultEvents::open(family::processes(process)).and_then(|events| pass_on(&socket, events));
        });
        Ok(Self { opener: Some(opener?), answers })
    }

    /// What has come of it so far.
    pub fn answer(&self) -> Answer {
        match take(&self.answers) {
            Err(Errno::AGAIN | Errno::INTR) => Answer::None,
            Err(_) => Answer::Refused,
            Ok(events) => events.map_or(Answer::Refused, Answer::Opened),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.opener.take().into_iter().for_each(Apart::let_go);
    }
}

/// Sends events in one message.
fn pass_on(socket: &OwnedFd, events: FaultEvents) -> io::Result<()> {
    let (descriptors, processors) = events.into_parts();
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    sendmsg(socket, &[IoSlice::new(&[processors])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives them, without a wait; `None` where some are missing, or all.
fn take(socket: &OwnedFd) -> rustix::io::Result<Option<FaultEvents>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut processors = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut processors)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(FaultEvents::from_parts(descriptors.flatten().collect(), processors[0]))
}
