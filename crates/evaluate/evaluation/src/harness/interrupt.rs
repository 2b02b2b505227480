//! Ctrl-C and its kin become an ordinary error, so that every folder and disk in use is dropped, and with that
//! removed, on the way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

use crate::Error;

/// While this lives, SIGINT, SIGTERM and SIGHUP set a flag and do nothing else.
#[derive(Debug)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Interrupt {
    pub(crate) fn watch() -> Self {
        let raised = Arc::new(AtomicBool::new(false));
        let handlers = [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .filter_map(|signal| flag::register(signal, Arc::clone(&raised)).ok())
            .collect();
        Self { raised, handlers }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.raised.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }
}

/// Why an experiment ended early, which is an error only where it has measured nothing.
pub(crate) fn kept(ended: Result<(), Error>, has_measured: bool) -> Result<Option<Error>, Error> {
    match ended {
        Err(error) if !has_measured => Err(error),
        ended => Ok(ended.err()),
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}
