//! File systems on which hints are of no use: a stall there calls for no speculator.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::estimate::StallTime;
use forebay_policy::price::REMOTE_WORTH_US;
use forebay_protocol::layout::{Device, file_system};

use crate::call::Call;
use crate::calls::Class;
use crate::timing::Period;
use crate::{attributes, residency, session, speculator};

/// Whether hints have been given up on a device, or its own stalls are too short for them.
pub fn on(device: u64) -> bool {
    let Some(header) = session::header() else { return true };
    let Some(device) = speculator::device(header, device) else { return false };
    let known = |bit| residency::has(Some(device), bit);
    let stall = StallTime::load(&device.stall).ticks();
    let worth = header.ticks_per_second.load(Relaxed) / 1_000_000 * REMOTE_WORTH_US;
    known(file_system::CLOSED) || known(file_system::REMOTE) && (1..worth).contains(&stall)
}

/// The program has waited for a call on a device: in this period, if that was timed and no speculation was live. Whether hints have
/// been given up there.
///
/// A remote file system's own time for a request is learned here, from all calls. Beside a speculation, and behind its hints, the
/// short requests remain: they tell nothing of what hints save.
pub fn after_wait(id: u64, alone: Option<Period>) -> bool {
    if let Some(device) = session::header().and_then(|header| speculator::device(header, id))
        && let Some(Period { before, after }) = alone
        && is_timed_alone(device)
        && device.executing.load(Relaxed) == 0
    {
        let mut time = StallTime::load(&device.stall);
        time.on_stall(after.wrapping_sub(before));
        time.store(&device.stall);
    }
    on(id)
}

/// Whether [`after_wait`] alone learns how long a request to the device takes.
pub fn is_timed_alone(device: &Device) -> bool {
    residency::has(Some(device), file_system::REMOTE)
}

/// The same for a look-up, as far as its result tells where it led to. On a remote file system its time is one of a request there.
/// On a disk it tells nothing of one request: a look-up may wait for several.
///
/// # Safety
/// The program has just made the call, with this result.
pub unsafe fn after_look_up(call: &Call, class: Class, result: isize, alone: Option<Period>) -> bool {
    // SAFETY: the caller's.
    unsafe { device_of(call, class, result) }.is_some_and(|id| after_wait(id, alone))
}

/// # Safety
/// As [`after_look_up`].
unsafe fn device_of(call: &Call, class: Class, result: isize) -> Option<u64> {
    if matches!(class, Class::PathOpens | Class::PathAtOpens) {
        return attributes::of(result).map(|stat| stat.st_dev);
    }
    if result != 0 {
        return None;
    }
    // SAFETY: the caller's.
    unsafe { attributes::told(call) }.map(|stat| stat.st_dev)
}
