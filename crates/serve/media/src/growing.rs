//! An index that many play in while it grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::media::Media;

/// How far an index has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The file has more than the index.
    Behind,
    /// The index has all that the file has, and more may come.
    Following,
    /// The index is complete.
    Over,
}

/// The latest index of a file.
#[derive(Debug)]
pub struct Growing(Mutex<State>);

#[derive(Debug)]
struct State {
    media: Arc<Media>,
    stage: Stage,
    is_recorded: bool,
    told_ns: Option<u64>,
}

impl Growing {
    /// An index that may get more samples. `told_ns` is how long all of the file is, as far as it says so.
    pub fn new(media: Arc<Media>, stage: Stage, told_ns: Option<u64>) -> Self {
        Self(Mutex::new(State { media, stage, is_recorded: false, told_ns }))
    }

    /// The index as it is now.
    pub fn latest(&self) -> Arc<Media> {
        self.lock().media.clone()
    }

    /// How far it has come.
    pub fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// How long the file is; `None` while it is being written, or if that is not known yet.
    pub fn duration_ns(&self) -> Option<u64> {
        let State { media, stage, is_recorded, told_ns } = &*self.lock();
        match stage {
            Stage::Over => Some(media.duration_ns()),
            _ if *is_recorded => None,
            Stage::Following => Some(media.duration_ns()),
            Stage::Behind => *told_ns,
        }
    }

    /// Puts a longer index into the place of the one that there is.
    pub fn put(&self, media: Arc<Media>, stage: Stage) {
        let mut state = self.lock();
        (state.media, state.stage) = (media, stage);
    }

    /// Notes how far the index has come.
    pub fn set_stage(&self, stage: Stage) {
        self.lock().stage = stage;
    }

    /// Whether the file was seen to be written, as far as is known.
    pub fn is_recorded(&self) -> bool {
        self.lock().is_recorded
    }

    /// Notes that the file is being written, so its end is not known.
    pub fn set_recorded(&self) {
        self.lock().is_recorded = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
