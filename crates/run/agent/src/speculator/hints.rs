//! Hints: the log that the original consumes, prefetches in flight, and paths for the executor.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use forebay_policy::inflight::InflightLimit;
use forebay_policy::lookahead;
use forebay_policy::price::{
    IN_FLIGHT_FIRST, IN_FLIGHT_MAX, LANDED_ASKED_ONE_IN, NEAR_ENTRIES_MIN, REMOTE_KEPT_MS, UNFOLLOWED_S,
    WAKE_UP_US,
};
use forebay_protocol::hint_log::{Full, Producer};
use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, CELL_WRITING, Device, End, Header, LOG_ENTRIES, LOGS, PATH_CELLS, PathHint,
    file_system, mark,
};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, ticks};

use super::{State, abandoned, end, kernel, marked_bytes, on_device};
use crate::session;
use crate::{attributes, mounts, trace};

/// Prefetches in flight that are remembered.
const FLIGHTS: usize = IN_FLIGHT_MAX as usize;
/// Pauses that a place in the executor's queue is waited for.
const QUEUE_PAUSES_MAX: u32 = 400;
/// Pause while the original catches up.
const PAUSE_US: i64 = 50;

/// A prefetch in flight.
#[derive(Clone, Copy)]
struct Flight {
    file: i32,
    /// Whether the descriptor is closed with the flight.
    owned: bool,
    device: u8,
    depth: u32,
    offset: u64,
    since: u64,
}

/// State of this part.
pub struct Hints {
    flights: [Flight; FLIGHTS],
    first: usize,
    len: usize,
    landed: u32,
    /// Bytes hinted and not consumed.
    ahead_bytes: u64,
    /// Log position up to which consumed bytes were subtracted.
    settled: u64,
    /// When the original last consumed something.
    consumed_at: u64,
    /// Log entries that it has consumed, and since when.
    consumed: u64,
    began_at: u64,
    /// Hints of all kinds, for the processor-time limit.
    pub issued: u64,
    /// Device of a hint for data that was given since the last entry of the log.
    device: Option<u8>,
}

impl Hints {
    /// The original has reached a hint.
    pub fn consumed(&mut self) {
        self.consumed_at = ticks();
    }
}

/// In a copy of a speculator that carries on with a log of its own.
pub fn renew(state: &mut State) {
    let hints = &mut state.hints;
    hints.ahead_bytes = 0;
    hints.settled = 0;
    hints.consumed_at = ticks();
    hints.consumed = 0;
    hints.began_at = 0;
    state.slot.flights.store(hints.len as u32, Relaxed);
}

/// Appends the call to the log, waiting while the original is too far behind.
pub fn log(state: &mut State, signature: u64, mark: u64) {
    let (slot, generation) = (state.slot, state.generation);
    let producer = Producer::new(slot, generation);
    let mark = on_device(mark, state.hints.device.take().filter(|_| mark & mark::HINTED != 0));
    settle(state);
    trace::tell(b"  ahead: signature, mark", &[signature % 100_000, mark & 3, mark >> 48]);
    state.hints.ahead_bytes = state.hints.ahead_bytes.saturating_add(marked_bytes(mark));
    while let Err(Full) = producer.push(signature, mark) {
        await_consumption(state);
    }
    while state.hints.ahead_bytes > state.header.horizon_bytes.load(Relaxed)
        && state.hints.ahead_bytes.saturating_sub(producer.found().map(marked_bytes).sum())
            > state.header.horizon_bytes.load(Relaxed)
    {
        await_consumption(state);
    }
}

/// Waits until the original is so near that it will be here before a remote file system's names are forgotten again.
pub fn keep_near(state: &mut State) {
    if state.hints.began_at == 0 {
        state.hints.began_at = ticks();
    }
    loop {
        settle(state);
        let hints = &state.hints;
        let elapsed = ticks().wrapping_sub(hints.began_at);
        let kept = state.header.ticks_per_second.load(Relaxed) / 1_000 * REMOTE_KEPT_MS;
        let near = lookahead::near(hints.consumed, elapsed, kept);
        let producer = Producer::new(state.slot, state.generation);
        let ahead = producer.position().wrapping_sub(hints.settled);
        if ahead.saturating_sub(producer.found().count() as u64) < near.max(NEAR_ENTRIES_MIN) {
            return;
        }
        await_consumption(state);
    }
}

/// Subtracts what the original has consumed.
fn settle(state: &mut State) {
    let log = state.generation as usize % LOGS;
    let (Some(tail), Some(entries)) = (state.slot.tails.get(log), state.slot.logs.get(log)) else { return };
    let tail = tail.load(Relaxed);
    let hints = &mut state.hints;
    let behind = tail.wrapping_sub(hints.settled).min(LOG_ENTRIES as u64);
    for position in 0..behind {
        let index = hints.settled.wrapping_add(position) as usize % LOG_ENTRIES;
        if let Some(entry) = entries.get(index) {
            hints.ahead_bytes = hints.ahead_bytes.saturating_sub(marked_bytes(entry.mark.load(Relaxed)));
        }
    }
    if behind > 0 {
        hints.settled = tail;
        hints.consumed_at = ticks();
        hints.consumed += behind;
    }
}

fn await_consumption(state: &mut State) {
    if abandoned(state) {
        end(state, End::Abandoned);
    }
    land(state, 0);
    kernel::pause(PAUSE_US);
    settle(state);
    await_original(state);
}

/// Ends the speculator if the original has ended, or has reached no hint for too long.
pub fn await_original(state: &mut State) {
    let hints = &mut state.hints;
    if hints.consumed_at == 0 {
        hints.consumed_at = ticks();
    }
    let limit = state.header.ticks_per_second.load(Relaxed).saturating_mul(UNFOLLOWED_S);
    if ticks().wrapping_sub(hints.consumed_at) > limit || !original_lives(state) {
        end(state, End::Lifetime);
    }
}

/// Whether the original still runs.
pub fn original_lives(state: &State) -> bool {
    // SAFETY: signal 0 has no effect.
    unsafe { sys!(n::__NR_kill, state.original.process, 0) == 0 }
}

/// Finds the entry of a device, claiming one at first sight.
pub fn device(header: &Header, id: u64) -> Option<&Device> {
    header.devices.get(usize::from(device_index(header, id)))
}

/// The entry of the device that an open file is on.
pub fn device_of(header: &Header, file: isize) -> Option<&Device> {
    device(header, attributes::of(file)?.st_dev)
}

/// Index of the entry of a device; none where all are taken.
pub fn device_index(header: &Header, id: u64) -> u8 {
    let id = id.wrapping_add(1);
    for (index, device) in header.devices.iter().enumerate() {
        let known = device.id.load(Relaxed);
        if known == id || known == 0 && device.id.compare_exchange(0, id, Relaxed, Relaxed).is_ok() {
            learn_kind(device, id.wrapping_sub(1));
            return index as u8;
        }
    }
    u8::MAX
}

fn learn_kind(device: &Device, id: u64) {
    if device.file_system.load(Relaxed) & file_system::KNOWN == 0
        && let Some(kind) = mounts::kind(id)
    {
        device.file_system.fetch_or(file_system::KNOWN | kind, Relaxed);
    }
}

/// The entry of a device by its index.
pub fn entry(state: &State, device: u8) -> Option<&'static Device> {
    state.header.devices.get(usize::from(device))
}

/// Makes room for one more prefetch on the device, waiting for the oldest in flight while it serves its limit.
pub fn make_room(state: &mut State, device: u8) {
    let limit =
        entry(state, device).map_or(IN_FLIGHT_FIRST, |entry| InflightLimit::load(&entry.limit).limit());
    land(state, (limit as usize).clamp(1, FLIGHTS) - 1);
}

/// Lets the oldest flights land until at most `left` are in flight.
fn land(state: &mut State, left: usize) {
    while state.hints.len > left {
        let hints = &mut state.hints;
        let Some(flight) = hints.flights.get(hints.first % FLIGHTS).copied() else { return };
        hints.first = (hints.first + 1) % FLIGHTS;
        hints.len -= 1;
        hints.landed = hints.landed.wrapping_add(1);
        let looked_at = hints.landed.is_multiple_of(LANDED_ASKED_ONE_IN);
        state.slot.flights.store(hints.len as u32, Relaxed);
        let entry = entry(state, flight.device);
        let base = entry.map_or(0, |entry| InflightLimit::load(&entry.limit).base_ticks());
        // One that departed long ago has landed, as a rule: asking costs as much as another hint.
        if base == 0 || looked_at || ticks().wrapping_sub(flight.since) < base.saturating_mul(2) {
            wait_for_landing(state, flight, entry);
        }
        if flight.owned {
            kernel::close(flight.file as isize);
        }
    }
}

fn wait_for_landing(state: &mut State, flight: Flight, entry: Option<&Device>) {
    kernel::wait_for(flight.file as isize, flight.offset);
    let after = ticks();
    if let Some(entry) = entry {
        let slack = state.header.ticks_per_second.load(Relaxed) / 1_000_000 * WAKE_UP_US;
        let mut limit = InflightLimit::load(&entry.limit);
        limit.on_seen(after.wrapping_sub(flight.since), flight.depth, slack);
        limit.store(&entry.limit);
        let seen =
            [after.wrapping_sub(flight.since), flight.depth.into(), limit.limit().into(), limit.base_ticks()];
        trace::tell(b"  ahead: landed after, depth, limit, base", &seen);
    }
    if abandoned(state) {
        end(state, End::Abandoned);
    }
}

/// Takes note of a prefetch of `length` bytes whose last byte is at `last`.
pub fn departed(state: &mut State, file: i32, device: u8, last: u64, length: u64) {
    let hints = &mut state.hints;
    hints.issued += 1;
    hints.device = Some(device);
    state.slot.counters.hints_data.fetch_add(1, Relaxed);
    state.slot.counters.bytes_hinted.fetch_add(length, Relaxed);
    if hints.len == FLIGHTS {
        return;
    }
    let depth = hints.len as u32 + 1;
    if let Some(place) = hints.flights.get_mut((hints.first + hints.len) % FLIGHTS) {
        *place = Flight { file, owned: false, device, depth, offset: last, since: ticks() };
        hints.len += 1;
        state.slot.flights.store(hints.len as u32, Relaxed);
    }
}

/// Leaves the closing of a file to its last flight; `false` where none is under way.
pub fn close_with_flight(state: &mut State, file: i32) -> bool {
    let hints = &mut state.hints;
    for back in (0..hints.len).rev() {
        if let Some(flight) = hints.flights.get_mut((hints.first + back) % FLIGHTS)
            && flight.file == file
        {
            flight.owned = true;
            return true;
        }
    }
    false
}

/// A path hint under way.
#[derive(Clone, Copy)]
pub struct Ticket(u32);

/// An open that the executor may make in place of the program; see [`forebay_protocol::layout::OpenedFile`].
#[derive(Clone, Copy)]
pub struct Open {
    pub key: u64,
    pub flags: u32,
}

/// Hands a path to the executor, waiting while its queue is full. `None` where it stays full or the path is too long.
pub fn path(state: &mut State, kind: PathHint, path: &[u8], offset: u64, length: u32) -> Option<Ticket> {
    hand_over(state, kind, path, (offset, length), None)
}

/// The same for the beginning of a file that the program is about to open.
pub fn open(state: &mut State, path: &[u8], length: u32, open: Option<Open>) -> Option<Ticket> {
    hand_over(state, PathHint::Data, path, (0, length), open)
}

fn hand_over(
    state: &mut State,
    kind: PathHint,
    path: &[u8],
    (offset, length): (u64, u32),
    open: Option<Open>,
) -> Option<Ticket> {
    let slot = state.slot;
    let index = slot.path_next.fetch_add(1, Relaxed) % PATH_CELLS as u32;
    let cell = slot.paths.get(index as usize)?;
    let claimed = path.len() <= cell.path.len()
        && (0..QUEUE_PAUSES_MAX).any(|_| {
            if abandoned(state) {
                end(state, End::Abandoned);
            }
            let free = cell.state.compare_exchange(CELL_FREE, CELL_WRITING, AcqRel, Relaxed).is_ok();
            if !free {
                kernel::pause(PAUSE_US);
            }
            free
        });
    if !claimed {
        slot.counters.hints_dropped.fetch_add(1, Relaxed);
        return None;
    }
    cell.kind.store(kind as u32, Relaxed);
    cell.offset.store(offset, Relaxed);
    cell.length.store(length, Relaxed);
    cell.path_len.store(path.len() as u32, Relaxed);
    cell.open_key.store(open.map_or(0, |open| open.key), Relaxed);
    cell.open_flags.store(open.map_or(0, |open| open.flags), Relaxed);
    for (to, from) in cell.path.iter().zip(path) {
        to.store(*from, Relaxed);
    }
    cell.state.store(CELL_READY, Release);
    session::ring(state.header);
    state.hints.issued += 1;
    slot.counters.hints_path.fetch_add(1, Relaxed);
    Some(Ticket(index))
}

/// As [`path`] without a wait: `None` while the queue is full, too.
pub fn path_if_room(state: &mut State, kind: PathHint, path: &[u8]) -> Option<Ticket> {
    let next = state.slot.path_next.load(Relaxed) % PATH_CELLS as u32;
    let is_free = state.slot.paths.get(next as usize)?.state.load(Relaxed) == CELL_FREE;
    if is_free { self::path(state, kind, path, 0, 0) } else { None }
}

/// Whether the executor has carried the hint for a directory out, waiting for at most `microseconds`.
pub fn carried_out(state: &State, ticket: Ticket, microseconds: u64) -> bool {
    let Some(cell) = state.slot.paths.get(ticket.0 as usize) else { return false };
    let until = ticks().wrapping_add(state.header.ticks_per_second.load(Relaxed) / 1_000_000 * microseconds);
    loop {
        if cell.state.load(Acquire) == CELL_FREE {
            return true;
        }
        if ticks().wrapping_sub(until) as i64 > 0 {
            return false;
        }
        // SAFETY: no arguments.
        let _ = unsafe { sys!(n::__NR_sched_yield) };
    }
}
