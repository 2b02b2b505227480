//! Measures messages of UCX alone, for comparison: two processes send one to and fro.

use std::{
    cell::Cell,
    ffi::c_void,
    ptr,
    time::{Duration, Instant},
};

use forebay_ucx_sys as ucx;
use forebay_ucx_sys::{Begun, ucp_ep_h, ucs_status_t};

use super::{ACTIVE_MESSAGE, Worker};
use crate::{
    Error,
    join::{Meeting, wire},
};

/// What of a message is a header.
const HEADER_BYTES: usize = 32;
/// Rounds before those that count.
const WARMING: usize = 100;
/// The other process is gone if it does not answer for so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked for a message between two looks at the time.
const LOOKS: usize = 1 << 16;

/// Half the time of each of `rounds` round trips of messages of so many `bytes`, for each of them, looked for all the time;
/// none in the second of the two processes, which both call this instead of [`crate::join`].
///
/// # Errors
/// There are not two processes, UCX is missing, or the other one does not answer.
pub fn ping_pong(bytes: &[usize], rounds: usize) -> Result<Vec<Vec<Duration>>, Error> {
    let mut meeting = Meeting::find()?;
    if meeting.hosts != 2 {
        return Err(Error::Meeting(format!("messages go to and fro between 2 hosts, not {}", meeting.hosts)));
    }
    let worker = wire().and_then(Worker::new).and_then(|worker| Ok((worker.address()?, worker)));
    let ((_, worker), addresses) = meeting.agree(worker, |(address, _)| address.clone())?;
    let is_first = meeting.me.index() == 0;
    let connected = End::new(worker, &addresses[usize::from(is_first)]);
    let (end, _) = meeting.agree(connected, |_| vec![])?;
    let mut all = vec![];
    for bytes in bytes {
        let sent = vec![1; *bytes];
        let mut times = Vec::with_capacity(rounds);
        for round in 0..WARMING + rounds {
            let begun = Instant::now();
            if is_first {
                end.send(&sent)?;
            }
            end.receive()?;
            if !is_first {
                end.send(&sent)?;
            } else if round >= WARMING {
                times.push(begun.elapsed() / 2);
            }
        }
        all.push(times);
    }
    // Neither ends while the other waits.
    meeting.exchange(&[])?;
    Ok(if is_first { all } else { vec![] })
}

/// One of the two.
struct End {
    endpoint: ucp_ep_h,
    worker: Worker,
    /// Dropped after the worker: the callback has its address.
    arrived: Box<Cell<usize>>,
    taken: Cell<usize>,
}

impl End {
    fn new(worker: Worker, other: &[u8]) -> Result<Self, Error> {
        let arrived = Box::<Cell<usize>>::default();
        // SAFETY: the counter is dropped after the worker.
        unsafe { worker.receive(Some(on_arrival), (&raw const *arrived).cast_mut().cast())? };
        let endpoint = worker.connect(other, true, None, ptr::null_mut());
        let endpoint =
            endpoint.map_err(|reason| Error::Ucx { what: "a way to the other process", reason })?;
        Ok(Self { endpoint, worker, arrived, taken: Cell::new(0) })
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let (header, data) = bytes.split_at(bytes.len().min(HEADER_BYTES));
        let ucp = self.worker.ucp;
        // SAFETY: zeros are values of all fields, and none is named in the mask. Both parts stay as they are until the message
        // is sent, which is waited for.
        let begun = unsafe {
            let params: ucx::ucp_request_param_t = std::mem::zeroed();
            let (header, header_bytes) = (header.as_ptr().cast(), header.len());
            let (data, data_bytes) = (data.as_ptr().cast(), data.len());
            let endpoint = self.endpoint;
            let id = ACTIVE_MESSAGE;
            Begun::from(ucp.ucp_am_send_nbx(
                endpoint,
                id,
                header,
                header_bytes,
                data,
                data_bytes,
                &raw const params,
            ))
        };
        let failed = |status| Err(self.lost(ucp.describe(status)));
        let request = match begun {
            Begun::Done => return Ok(()),
            Begun::Failed(status) => return failed(status),
            Begun::Request(request) => request,
        };
        // SAFETY: the request is not freed before the wait is over.
        let status = || unsafe { ucp.ucp_request_check_status(request) };
        self.wait_until(|| status() != ucx::UCS_INPROGRESS)?;
        let status = status();
        // SAFETY: it is done, and no other code uses it.
        unsafe { ucp.ucp_request_free(request) };
        if status == ucx::UCS_OK { Ok(()) } else { failed(status) }
    }

    /// Waits for a message.
    fn receive(&self) -> Result<(), Error> {
        self.wait_until(|| self.arrived.get() > self.taken.get())?;
        self.taken.set(self.taken.get() + 1);
        Ok(())
    }

    fn wait_until(&self, is_over: impl Fn() -> bool) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if is_over() {
                    return Ok(());
                }
                self.worker.progress();
            }
        }
        Err(self.lost("it does not answer"))
    }

    fn lost(&self, reason: &str) -> Error {
        Error::Ucx { what: "messages to the other process", reason: reason.to_lowercase() }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.worker.disconnect(self.endpoint);
        while self.worker.progress() > 0 {}
    }
}

unsafe extern "C" fn on_arrival(
    arrived: *mut c_void,
    _: *const c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
    _: *const ucx::ucp_am_recv_param_t,
) -> ucs_status_t {
    // SAFETY: the argument that was given with this function, which outlives its calls.
    let arrived = unsafe { &*arrived.cast::<Cell<usize>>() };
    arrived.set(arrived.get() + 1);
    ucx::UCS_OK
}
