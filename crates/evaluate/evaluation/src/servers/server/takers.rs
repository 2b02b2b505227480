//! What takes resources from a server during a run.

use std::path::Path;

use forebay_probes::Thief;

use super::eviction::Evictor;
use super::measure::Given;
use crate::Error;

/// What is taken, and whether only its twin runs, which executes the same and takes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Taken {
    /// A share of the page cache of its files.
    PageCache {
        /// Which share.
        share: f64,
        /// See [`Taken`].
        is_twin: bool,
    },
    /// Memory's throughput, or room in the last cache.
    Lines {
        /// Of how much memory lines are loaded again and again.
        bytes: usize,
        /// See [`Taken`].
        is_twin: bool,
    },
}

/// What runs beside a server. Dropped, it ends.
#[derive(Debug)]
pub(super) enum Taker {
    PageCache { _evictor: Evictor },
    Lines { _thief: Thief },
}

impl Taker {
    /// Begins to take what is `given` less of, `files` of it.
    pub(super) fn start(given: &Given, files: Option<&Path>) -> Result<Option<Self>, Error> {
        Ok(match (given.taken, files) {
            (Some(Taken::PageCache { share, is_twin }), Some(files)) => {
                Some(Self::PageCache { _evictor: Evictor::start(files, share, is_twin)? })
            }
            (Some(Taken::Lines { bytes, is_twin }), _) => {
                let thief = Thief::start(bytes, is_twin).map_err(|error| Error::Load(error.to_string()))?;
                Some(Self::Lines { _thief: thief })
            }
            _ => None,
        })
    }
}
