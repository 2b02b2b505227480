//! Memory limits for programs under test, and the swap that takes what does not fit.

use std::sync::LazyLock;

use forebay_lab::{Error, MemoryLimit, Profile, SlowSwap};

use crate::scratch;

const SWAP_BYTES: u64 = 2 << 30;
/// Any limit does to see whether there can be one.
const PROBE_BYTES: u64 = 64 << 20;

/// Why programs cannot be made to swap here; `None` where they can.
///
/// The first call starts the swap: one device for all tests of this process, in memory, which goes with the process.
#[must_use]
pub fn obstacle() -> Option<&'static Error> {
    static SWAP: LazyLock<Result<SlowSwap, Error>> = LazyLock::new(start_swap);
    SWAP.as_ref().err()
}

fn start_swap() -> Result<SlowSwap, Error> {
    // Root in a container may see control groups without the right to make one.
    drop(MemoryLimit::start(PROBE_BYTES)?);
    let wanted = scratch::disk().filter(|profile| profile.latency().is_some());
    let swap = SlowSwap::start(wanted.unwrap_or(Profile::Ssd1Ms), SWAP_BYTES)?;
    // Otherwise the device's round trip through a process is latency enough.
    swap.device().map_or(Ok(()), |device| device.set_latency(wanted.is_some()))?;
    Ok(swap)
}
