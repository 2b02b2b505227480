//! UCX itself: loaded, set up, with an address.

use std::{
    ffi::{CStr, CString, c_void},
    os::fd::{BorrowedFd, RawFd},
    ptr, slice,
    sync::OnceLock,
    time::{Duration, Instant},
};

use forebay_ucx_sys as ucx;
use forebay_ucx_sys::{Begun, Ucp, ucp_context_h, ucp_ep_h, ucp_worker_h, ucs_status_t};
use rustix::process::Signal;

use super::ACTIVE_MESSAGE;
use crate::{
    Error,
    scheduling::{spawn_at_priority, without_signals},
    transport::Wire,
};

/// Signals that UCX handles unless told not to. Two of them are how faults reach this library.
const ERROR_SIGNALS: [Signal; 4] = [Signal::ILL, Signal::SEGV, Signal::BUS, Signal::FPE];

/// UCX's worker: what has addresses, and progress to be made. One thread at a time uses it.
pub struct Worker {
    /// Its functions.
    pub ucp: &'static Ucp,
    context: ucp_context_h,
    /// Itself.
    pub worker: ucp_worker_h,
    event: RawFd,
    wire: Wire,
}

// SAFETY: it is made for use by several threads, one at a time (UCS_THREAD_MODE_SERIALIZED).
unsafe impl Send for Worker {}

/// UCX, loaded once: nothing of it can be unloaded.
fn library() -> Result<&'static Ucp, Error> {
    static LIBRARY: OnceLock<Result<Ucp, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| {
        let ucp = Ucp::load().map_err(|error| error.to_string())?;
        // SAFETY: constant strings and signal numbers. UCX gives handlers back that it has taken away when it was loaded,
        // and without this it writes what it thinks of lost hosts to standard output.
        unsafe {
            ucp.ucs_global_opts_set_value(c"LOG_LEVEL".as_ptr(), c"fatal".as_ptr());
            ERROR_SIGNALS.iter().for_each(|signal| ucp.ucs_debug_disable_signal(signal.as_raw()));
        }
        Ok(ucp)
    });
    loaded.as_ref().map_err(|reason| Error::NoUcx { file: ucx::LIBRARY, reason: reason.clone() })
}

impl Worker {
    /// One that talks over `wire`.
    ///
    /// # Errors
    /// UCX is missing, or has no such wire.
    pub fn new(wire: Wire) -> Result<Self, Error> {
        // UCX starts a thread of its own, which holds locks that are waited for.
        without_signals(|| spawn_at_priority(|| Self::start(wire)))
    }

    fn start(wire: Wire) -> Result<Self, Error> {
        let ucp = library()?;
        let context = context(ucp, wire)?;
        let mut made = Self { ucp, context, worker: ptr::null_mut(), event: -1, wire };
        // SAFETY: zeros are values of all fields; those that are set are named in the mask, and the calls fill ours.
        unsafe {
            let mut params: ucx::ucp_worker_params_t = std::mem::zeroed();
            params.field_mask = ucx::UCP_WORKER_PARAM_FIELD_THREAD_MODE.into();
            params.thread_mode = ucx::UCS_THREAD_MODE_SERIALIZED;
            check(ucp, "a worker", ucp.ucp_worker_create(context, &raw const params, &raw mut made.worker))?;
            check(ucp, "a descriptor to wait for", ucp.ucp_worker_get_efd(made.worker, &raw mut made.event))?;
        }
        Ok(made)
    }

    /// Where others reach it.
    ///
    /// # Errors
    /// UCX cannot tell.
    pub fn address(&self) -> Result<Vec<u8>, Error> {
        let (mut address, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the call fills both; the address is that long until it is released.
        unsafe {
            let told = self.ucp.ucp_worker_get_address(self.worker, &raw mut address, &raw mut length);
            check(self.ucp, "an address", told)?;
            let bytes = slice::from_raw_parts(address.cast::<u8>(), length).to_vec();
            self.ucp.ucp_worker_release_address(self.worker, address);
            Ok(bytes)
        }
    }

    /// Has `on_arrival` called with `argument` for each message that comes.
    ///
    /// # Errors
    /// UCX refuses.
    ///
    /// # Safety
    /// The function can be called with the argument until the worker is dropped.
    pub unsafe fn receive(
        &self,
        on_arrival: ucx::ucp_am_recv_callback_t,
        argument: *mut c_void,
    ) -> Result<(), Error> {
        // SAFETY: zeros are values of all fields; those that are set are named in the mask. Of the rest the caller speaks.
        let status = unsafe {
            let mut params: ucx::ucp_am_handler_param_t = std::mem::zeroed();
            params.field_mask = (ucx::UCP_AM_HANDLER_PARAM_FIELD_ID
                | ucx::UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                | ucx::UCP_AM_HANDLER_PARAM_FIELD_CB
                | ucx::UCP_AM_HANDLER_PARAM_FIELD_ARG)
                .into();
            params.id = ACTIVE_MESSAGE;
            params.flags = ucx::UCP_AM_FLAG_WHOLE_MSG | ucx::UCP_AM_FLAG_PERSISTENT_DATA;
            params.cb = on_arrival;
            params.arg = argument;
            self.ucp.ucp_worker_set_am_recv_handler(self.worker, &raw const params)
        };
        check(self.ucp, "active messages", status)
    }

    /// A way to another one. `on_error` is called with `argument` when it breaks; not on the same machine but over TCP,
    /// since UCX offers no shared memory to those that want to hear of errors.
    ///
    /// # Errors
    /// Nothing leads there.
    pub fn connect(
        &self,
        address: &[u8],
        is_on_this_machine: bool,
        on_error: ucx::ucp_err_handler_cb_t,
        argument: *mut c_void,
    ) -> Result<ucp_ep_h, String> {
        let mut endpoint = ptr::null_mut();
        // SAFETY: as for the worker. The address is one that another worker gave, and is only read.
        let status = unsafe {
            let mut params: ucx::ucp_ep_params_t = std::mem::zeroed();
            params.field_mask = (ucx::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
                | ucx::UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                | ucx::UCP_EP_PARAM_FIELD_ERR_HANDLER)
                .into();
            params.address = address.as_ptr().cast();
            params.err_mode = match self.wire {
                Wire::Auto | Wire::SharedMemory | Wire::Ucx if is_on_this_machine => {
                    ucx::UCP_ERR_HANDLING_MODE_NONE
                }
                _ => ucx::UCP_ERR_HANDLING_MODE_PEER,
            };
            params.err_handler = ucx::ucp_err_handler_t { cb: on_error, arg: argument };
            self.ucp.ucp_ep_create(self.worker, &raw const params, &raw mut endpoint)
        };
        if status == ucx::UCS_OK { Ok(endpoint) } else { Err(self.ucp.describe(status).into()) }
    }

    /// Forgets a way, whatever is still under way on it.
    pub fn disconnect(&self, endpoint: ucp_ep_h) {
        // SAFETY: the endpoint is of this worker and not used afterwards; a request is freed when no thread waits for it.
        unsafe {
            let mut params: ucx::ucp_request_param_t = std::mem::zeroed();
            params.op_attr_mask = ucx::UCP_OP_ATTR_FIELD_FLAGS;
            params.flags = ucx::UCP_EP_CLOSE_FLAG_FORCE;
            if let Begun::Request(request) =
                Begun::from(self.ucp.ucp_ep_close_nbx(endpoint, &raw const params))
            {
                self.ucp.ucp_request_free(request);
            }
        }
    }

    /// Waits until what was sent is on its way, or so much time has passed.
    pub fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        // SAFETY: zeros are values of all fields, and no field is named in the mask. The request is freed once.
        unsafe {
            let params: ucx::ucp_request_param_t = std::mem::zeroed();
            if let Begun::Request(request) =
                Begun::from(self.ucp.ucp_worker_flush_nbx(self.worker, &raw const params))
            {
                while self.ucp.ucp_request_check_status(request) == ucx::UCS_INPROGRESS
                    && Instant::now() < deadline
                {
                    self.progress();
                }
                self.ucp.ucp_request_free(request);
            }
        }
    }

    /// Lets UCX work. How much it did.
    pub fn progress(&self) -> u32 {
        // SAFETY: the worker is there; the caller alone uses it.
        unsafe { self.ucp.ucp_worker_progress(self.worker) }
    }

    /// Whether the event may be waited for: nothing has come.
    pub fn arm(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.ucp.ucp_worker_arm(self.worker) == ucx::UCS_OK }
    }

    /// Readable when something comes, once it is armed.
    pub const fn event(&self) -> BorrowedFd<'_> {
        // SAFETY: it is the worker's, and open for as long.
        unsafe { BorrowedFd::borrow_raw(self.event) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: both were made here, and no other code uses them.
        unsafe {
            if !self.worker.is_null() {
                self.ucp.ucp_worker_destroy(self.worker);
            }
            self.ucp.ucp_cleanup(self.context);
        }
    }
}

fn context(ucp: &Ucp, wire: Wire) -> Result<ucp_context_h, Error> {
    let (mut config, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: zeros are values of all fields; those that are set are named in the mask. The calls fill ours, and the
    // configuration is released once.
    unsafe {
        check(ucp, "its configuration", ucp.ucp_config_read(ptr::null(), ptr::null(), &raw mut config))?;
        let chosen = wire.transports().map_or(ucx::UCS_OK, |names| set(ucp, config, c"TLS", names));
        // Who waits for UCX's own thread is to sleep, not to spin. Where this is not known, so be it.
        set(ucp, config, c"USE_MT_MUTEX", "y");
        let mut params: ucx::ucp_params_t = std::mem::zeroed();
        params.field_mask = ucx::UCP_PARAM_FIELD_FEATURES.into();
        params.features = (ucx::UCP_FEATURE_AM | ucx::UCP_FEATURE_WAKEUP).into();
        let (major, minor) = (ucx::UCP_API_MAJOR, ucx::UCP_API_MINOR);
        let status = match chosen {
            ucx::UCS_OK => ucp.ucp_init_version(major, minor, &raw const params, config, &raw mut context),
            error => error,
        };
        ucp.ucp_config_release(config);
        check(ucp, "its transports", status)?;
    }
    Ok(context)
}

fn set(ucp: &Ucp, config: *mut ucx::ucp_config_t, name: &CStr, value: &str) -> ucs_status_t {
    let value = CString::new(value).unwrap_or_default();
    // SAFETY: the caller's configuration, and two strings that are copied.
    unsafe { ucp.ucp_config_modify(config, name.as_ptr(), value.as_ptr()) }
}

fn check(ucp: &Ucp, what: &'static str, status: ucs_status_t) -> Result<(), Error> {
    if status == ucx::UCS_OK {
        return Ok(());
    }
    Err(Error::Ucx { what, reason: ucp.describe(status).into() })
}
