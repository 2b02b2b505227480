//! How the replay of an access profile goes on.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The state of a replay and its figures.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Replay {
    /// [`NONE`], [`ON`], [`OVER`] or [`STOPPED`].
    pub state: AtomicU32,
    /// Steps that are being carried out.
    pub under_way: AtomicU32,
    /// Steps of it.
    pub steps: AtomicU64,
    /// Those that are done.
    pub done: AtomicU64,
    /// Those that asked a device.
    pub waited: AtomicU64,
    /// Those whose file has changed.
    pub changed: AtomicU64,
    /// Data that was brought into memory, or was found there.
    pub bytes: AtomicU64,
}

/// There is none.
pub const NONE: u32 = 0;
/// Its steps are being carried out, and no speculator is started.
pub const ON: u32 = 1;
/// All are carried out that are to be.
pub const OVER: u32 = 2;
/// The program needs other things than were foretold, or would be told of what a replay opens. It never goes on.
pub const STOPPED: u32 = 3;
