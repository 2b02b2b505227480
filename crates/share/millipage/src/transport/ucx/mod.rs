//! The transport between processes: UCX, over shared memory, TCP or another network that it finds. A message is a UCX
//! active message: its header holds the sender and the protocol message, its data the contents.
//!
//! UCX is never called in a signal handler, and only by one thread at a time. Its callbacks only note events.

mod ping_pong;
mod worker;

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    os::fd::BorrowedFd,
    ptr, slice,
    time::Duration,
};

use forebay_coherence::{HostId, MESSAGE_BYTES, Message};
use forebay_ucx_sys as ucx;
use forebay_ucx_sys::{Begun, Ucp, ucp_ep_h, ucs_status_t};

use super::{
    Contents, Sink,
    said::Said,
    watched::{Way, lost_elsewhere},
};
use crate::{Error, join::Whereabouts};
pub use ping_pong::ping_pong;
pub use worker::Worker;

/// The active message that everything goes in.
const ACTIVE_MESSAGE: u32 = 0;
const RANK_BYTES: usize = 2;
/// The sender's rank, and the longest that can be said.
const HEADER_BYTES: usize = RANK_BYTES + MESSAGE_BYTES;

/// How long a host that leaves waits for what is under way.
const FLUSH: Duration = Duration::from_secs(2);

/// One host's end.
pub struct Ucx {
    me: HostId,
    /// In the order of their ranks; none to itself.
    endpoints: Vec<Option<ucp_ep_h>>,
    worker: Worker,
    /// Dropped after the worker: callbacks hold its address.
    inbox: Box<Inbox>,
    /// What an endpoint's callback is told: its rank.
    ranks: Box<[Rank]>,
    /// A host is lost to which this one sends: what is under way to it will not get there.
    is_broken: bool,
}

// SAFETY: all addresses in it are of memory that goes with it, or of UCX, which is used by one thread at a time.
unsafe impl Send for Ucx {}

/// What callbacks note.
#[derive(Default)]
struct Inbox {
    arrived: RefCell<Vec<Arrival>>,
    /// Contents that went on arriving after their message are there.
    completed: RefCell<Vec<(HostId, Message)>>,
    broken: Cell<Option<(HostId, ucs_status_t)>>,
    /// Something came that no host of this version sends.
    garbled: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Arrival {
    from: HostId,
    said: Said,
    data: Data,
}

/// What came with a message, and how many bytes, in UCX's hands until it is received or released.
#[derive(Clone, Copy)]
enum Data {
    None,
    /// Its address.
    Here(*mut c_void, usize),
    /// The sender has it yet, and UCX knows it by this handle.
    Away(*mut c_void, usize),
}

impl Data {
    const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Here(_, bytes) | Self::Away(_, bytes) => bytes,
        }
    }
}

struct Rank {
    host: HostId,
    inbox: *const Inbox,
}

/// A message that is being sent: the header stays until it is.
struct Sending {
    ucp: &'static Ucp,
    header: [u8; HEADER_BYTES],
}

/// Contents that are being received.
struct Receiving {
    ucp: &'static Ucp,
    inbox: *const Inbox,
    from: HostId,
    message: Message,
}

impl Ucx {
    /// The end of host `me`, whose worker it is, to the hosts with these addresses; a host without one serves no machine.
    ///
    /// # Errors
    /// One cannot be reached.
    pub fn new(
        worker: Worker,
        me: HostId,
        addresses: &[Vec<u8>],
        places: &[Whereabouts],
    ) -> Result<Self, Error> {
        let inbox = Box::<Inbox>::default();
        // SAFETY: the inbox is dropped after the worker.
        unsafe { worker.receive(Some(on_arrival), (&raw const *inbox).cast_mut().cast())? };
        let rank = |host| Rank { host: HostId(host as u16), inbox: &raw const *inbox };
        let ranks: Box<[Rank]> = (0..addresses.len()).map(rank).collect();
        let mut all = Self { me, endpoints: vec![], worker, inbox, ranks, is_broken: false };
        for (host, address) in addresses.iter().enumerate() {
            let connect = || {
                let argument = (&raw const all.ranks[host]).cast_mut().cast();
                let connected =
                    all.worker.connect(address, places[host].on_this_machine, Some(on_error), argument);
                connected.map_err(|reason| Error::Lost { host: host as u16, reason })
            };
            let endpoint = if host == me.index() || address.is_empty() { None } else { Some(connect()?) };
            all.endpoints.push(endpoint);
        }
        Ok(all)
    }

    fn take_one(&mut self, arrival: Arrival, sink: &mut dyn Sink) -> Result<bool, Error> {
        let Arrival { from, said, data } = arrival;
        let message = match said {
            Said::Here => return Ok(false),
            Said::Lost(host) => return Err(lost_elsewhere(host, from)),
            Said::Message(message) => message,
        };
        let room = sink.room(message);
        let fits = room.map_or(0, |room| room.bytes) == data.bytes();
        if !fits {
            self.inbox.garbled.set(true);
        }
        match (data, room.filter(|_| fits)) {
            (Data::Away(handle, _), Some(room)) => {
                return self.receive_from_afar(from, message, handle, room, sink);
            }
            (Data::Here(address, _) | Data::Away(address, _), room) => {
                // SAFETY: the callback kept the data, which has as many bytes as the room, and no other call receives it. The
                // room is the receiver's, which lets no thread use it now. To have UCX receive what is here already would
                // leave it with the data in some versions (1.13), and with the wrong way to free it in others.
                unsafe {
                    if let Some(room) = room {
                        ptr::copy_nonoverlapping(address.cast(), room.address as *mut u8, room.bytes);
                    }
                    self.worker.ucp.ucp_am_data_release(self.worker.worker, address);
                }
            }
            (Data::None, _) => {}
        }
        sink.take(from, message);
        Ok(true)
    }

    /// Has UCX fetch contents that the sender still has. Whether they are here at once.
    fn receive_from_afar(
        &self,
        from: HostId,
        message: Message,
        handle: *mut c_void,
        room: Contents,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let ucp = self.worker.ucp;
        let inbox = &raw const *self.inbox;
        let receiving = Box::into_raw(Box::new(Receiving { ucp, inbox, from, message }));
        // SAFETY: as in `say`. The callback kept the handle. The room is the receiver's, which lets no thread use it now, and stays
        // mapped.
        let begun = unsafe {
            let mut params: ucx::ucp_request_param_t = std::mem::zeroed();
            params.op_attr_mask = ucx::UCP_OP_ATTR_FIELD_CALLBACK | ucx::UCP_OP_ATTR_FIELD_USER_DATA;
            params.cb.recv_am = Some(on_received);
            params.user_data = receiving.cast();
            let (worker, place, bytes) = (self.worker.worker, room.address as *mut c_void, room.bytes);
            Begun::from(ucp.ucp_am_recv_data_nbx(worker, handle, place, bytes, &raw const params))
        };
        if !matches!(begun, Begun::Request(_)) {
            // SAFETY: it was made above, and UCX is done with it.
            drop(unsafe { Box::from_raw(receiving) });
        }
        match begun {
            Begun::Done => sink.take(from, message),
            Begun::Request(_) => {}
            Begun::Failed(status) => return Err(self.lost(from, status)),
        }
        Ok(begun == Begun::Done)
    }

    fn lost(&self, host: HostId, status: ucs_status_t) -> Error {
        Error::Lost { host: host.0, reason: self.worker.ucp.describe(status).to_lowercase() }
    }
}

impl Way for Ucx {
    fn leads_to(&self, host: HostId) -> bool {
        self.endpoints.get(host.index()).is_some_and(Option::is_some)
    }

    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error> {
        let Some(Some(endpoint)) = self.endpoints.get(to.index()) else { return Ok(()) };
        let (header, bytes) = header(self.me, said);
        let ucp = self.worker.ucp;
        let sending = Box::into_raw(Box::new(Sending { ucp, header }));
        // SAFETY: zeros are values of all fields; those that are set are named in the mask. The header stays in its box
        // until `on_sent`; the contents stay as they are until the receiver has them, as the trait says.
        let begun = unsafe {
            let mut params: ucx::ucp_request_param_t = std::mem::zeroed();
            params.op_attr_mask = ucx::UCP_OP_ATTR_FIELD_CALLBACK | ucx::UCP_OP_ATTR_FIELD_USER_DATA;
            params.cb.send = Some(on_sent);
            params.user_data = sending.cast();
            let header = (&raw const (*sending).header).cast();
            let data = contents.address as *const c_void;
            Begun::from(ucp.ucp_am_send_nbx(
                *endpoint,
                ACTIVE_MESSAGE,
                header,
                bytes,
                data,
                contents.bytes,
                &raw const params,
            ))
        };
        if !matches!(begun, Begun::Request(_)) {
            // SAFETY: it was made above, and UCX is done with it.
            drop(unsafe { Box::from_raw(sending) });
        }
        match begun {
            Begun::Failed(status) => Err(self.lost(to, status)),
            _ => Ok(()),
        }
    }

    fn take(&mut self, sink: &mut dyn Sink, heard: &mut dyn FnMut(HostId)) -> Result<usize, Error> {
        self.push();
        let mut count = 0;
        let arrived = self.inbox.arrived.take();
        for arrival in &arrived {
            heard(arrival.from);
            count += usize::from(self.take_one(*arrival, sink)?);
        }
        for (from, message) in self.inbox.completed.take() {
            sink.take(from, message);
            count += 1;
        }
        if let Some((host, status)) = self.inbox.broken.take() {
            return Err(self.lost(host, status));
        }
        if self.inbox.garbled.get() { Err(Error::Garbled) } else { Ok(count) }
    }

    fn push(&mut self) {
        self.worker.progress();
    }

    fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.worker.event())
    }

    fn may_sleep(&mut self) -> bool {
        while self.worker.progress() > 0 {}
        let inbox = &self.inbox;
        inbox.arrived.borrow().is_empty()
            && inbox.completed.borrow().is_empty()
            && inbox.broken.get().is_none()
            && self.worker.arm()
    }
}

impl Drop for Ucx {
    fn drop(&mut self) {
        if !self.is_broken {
            // A host may hear for the first time that this one leaves.
            self.worker.flush(FLUSH);
        }
        for endpoint in self.endpoints.drain(..).flatten() {
            self.worker.disconnect(endpoint);
        }
        // What was under way is called off, which callbacks are told.
        while self.worker.progress() > 0 {}
    }
}

/// A message has come, or its beginning: the data may be with it, or still with the sender.
unsafe extern "C" fn on_arrival(
    inbox: *mut c_void,
    header: *const c_void,
    header_bytes: usize,
    data: *mut c_void,
    bytes: usize,
    about: *const ucx::ucp_am_recv_param_t,
) -> ucs_status_t {
    // SAFETY: the argument that was given with this function; the header is that long.
    let (inbox, header) =
        unsafe { (&*inbox.cast::<Inbox>(), slice::from_raw_parts(header.cast::<u8>(), header_bytes)) };
    let Some((from, said)) = parse(header) else {
        inbox.garbled.set(true);
        return ucx::UCS_OK;
    };
    // SAFETY: UCX fills it for each call.
    let is_away = unsafe { (*about).recv_attr } & u64::from(ucx::UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    let data = match bytes {
        0 => Data::None,
        _ if is_away => Data::Away(data, bytes),
        _ => Data::Here(data, bytes),
    };
    inbox.arrived.borrow_mut().push(Arrival { from, said, data });
    // Data is kept until it is received.
    if bytes > 0 { ucx::UCS_INPROGRESS } else { ucx::UCS_OK }
}

/// And its length.
fn header(from: HostId, said: Said) -> ([u8; HEADER_BYTES], usize) {
    let mut header = [0; HEADER_BYTES];
    let (sender, rest) = header.split_at_mut(RANK_BYTES);
    sender.copy_from_slice(&from.0.to_le_bytes());
    let bytes = match said {
        Said::Here => 0,
        Said::Lost(host) => {
            rest[..RANK_BYTES].copy_from_slice(&host.0.to_le_bytes());
            RANK_BYTES
        }
        Said::Message(message) => {
            rest.copy_from_slice(&message.to_bytes());
            MESSAGE_BYTES
        }
    };
    (header, RANK_BYTES + bytes)
}

fn parse(header: &[u8]) -> Option<(HostId, Said)> {
    let (sender, rest) = header.split_first_chunk::<RANK_BYTES>()?;
    let rank = |bytes: &[u8; RANK_BYTES]| HostId(u16::from_le_bytes(*bytes));
    let said = match rest.len() {
        0 => Said::Here,
        RANK_BYTES => Said::Lost(rank(rest.try_into().ok()?)),
        _ => Said::Message(Message::from_bytes(rest.try_into().ok()?)?),
    };
    Some((rank(sender), said))
}

unsafe extern "C" fn on_sent(request: *mut c_void, _: ucs_status_t, sending: *mut c_void) {
    // SAFETY: the box that `say` left, which this frees once; the request is done. A loss is told by `on_error`.
    unsafe {
        let sending = Box::from_raw(sending.cast::<Sending>());
        sending.ucp.ucp_request_free(request);
    }
}

unsafe extern "C" fn on_received(
    request: *mut c_void,
    status: ucs_status_t,
    _: usize,
    receiving: *mut c_void,
) {
    // SAFETY: the box that `take` left, which this frees once; the request is done; the inbox outlives all callbacks.
    let (Receiving { from, message, .. }, inbox) = unsafe {
        let receiving = Box::from_raw(receiving.cast::<Receiving>());
        receiving.ucp.ucp_request_free(request);
        let inbox = &*receiving.inbox;
        (*receiving, inbox)
    };
    if status == ucx::UCS_OK {
        inbox.completed.borrow_mut().push((from, message));
    } else {
        inbox.broken.set(Some((from, status)));
    }
}

unsafe extern "C" fn on_error(rank: *mut c_void, _: ucp_ep_h, status: ucs_status_t) {
    // SAFETY: the argument that the endpoint was made with, which outlives it.
    let (host, inbox) = unsafe {
        let rank = &*rank.cast::<Rank>();
        (rank.host, &*rank.inbox)
    };
    inbox.broken.set(Some((host, status)));
}
