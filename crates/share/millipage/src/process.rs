//! The one host that a process is, for languages without ownership: any thread may call at any time.

use std::{
    mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Error, Host, Options, join};

/// A host that any thread can use until one of them leaves. In a child that the process has forked it is none.
pub struct Process {
    id: u32,
    host: Mutex<Option<Arc<Host>>>,
}

impl Process {
    /// As [`join`], and once in a process even where it is the only host.
    ///
    /// # Errors
    /// As for [`join`].
    pub fn join(options: Options) -> Result<Self, Error> {
        static JOINED: Mutex<bool> = Mutex::new(false);
        let mut joined = JOINED.lock().unwrap_or_else(PoisonError::into_inner);
        if *joined {
            return Err(Error::JoinedAlready);
        }
        let host = join(options)?;
        *joined = true;
        Ok(Self { id: process::id(), host: Mutex::new(Some(Arc::new(host))) })
    }

    /// The host, for one call.
    ///
    /// # Errors
    /// This process was forked from the host, or has left.
    pub fn host(&self) -> Result<Arc<Host>, Error> {
        self.lock()?.clone().ok_or(Error::NoHost)
    }

    /// As [`Host::leave`]. Once the hosts have begun to leave, this one has left, even where that fails.
    ///
    /// # Errors
    /// As for [`Host::leave`] and [`Process::host`]; or another thread is in a call, and then nothing has happened.
    pub fn leave(&self) -> Result<(), Error> {
        let host = {
            let mut place = self.lock()?;
            let host = place.take().ok_or(Error::NoHost)?;
            Arc::try_unwrap(host).map_err(|host| {
                *place = Some(host);
                Error::Busy
            })?
        };
        host.leave()
    }

    /// As [`Host::fail`]. The process is no host then, unless another thread is in a call, which ends with the loss.
    ///
    /// # Errors
    /// As for [`Process::host`].
    pub fn fail(&self) -> Result<(), Error> {
        let host = self.host()?;
        host.fail();
        drop(host);
        match self.leave() {
            // The failure is what it leaves with.
            Err(Error::Lost { .. } | Error::Ended { .. } | Error::Busy) => Ok(()),
            ended => ended,
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<Arc<Host>>>, Error> {
        // First, since in the child the lock may be one that no thread can release.
        if process::id() != self.id {
            return Err(Error::Forked);
        }
        Ok(self.host.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The parent is the host, and it is the parent's to leave.
        if process::id() != self.id {
            mem::forget(mem::take(self.host.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}
