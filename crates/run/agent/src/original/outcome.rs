//! The outcome of a speculation, for the fork policy and for the call site whose predicted value ended it.

use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use forebay_policy::account::Account;
use forebay_policy::balance::Balance;
use forebay_policy::copies;
use forebay_policy::fork::{Ran, Took};
use forebay_policy::price::{GRACE_US, PRICE_ONE, STRAYED_STALLS, WEIGHED_AGAIN_US};
use forebay_policy::site;
use forebay_policy::track::Course;
use forebay_protocol::hint_log::Consumer;
use forebay_protocol::layout::{End, LOG_ENTRIES, LOGS, Slot};
use forebay_sigsafe::ticks;

use super::eligibility::is_held;
use super::size::{page_faults, processor_ticks};
use super::slow::Private;
use super::{LIVE, fault, size, track, unconsumed};
use crate::{session, speculator, trace};

/// Log entries searched for the predicted value that put a speculator off track.
const BLAME_ENTRIES_MAX: u64 = 64;

/// Whether the live speculation is off track: one stall of the led thread that it did not predict may be a call that it skipped, or
/// work that another thread has taken.
pub fn is_off_track(slot: &Slot, private: &Private) -> bool {
    let is_done = if track::is_shared() { has_nothing_ahead(slot) } else { has_ended(slot) };
    private.live.misses >= if is_done { 1 } else { STRAYED_STALLS }
}

fn has_ended(slot: &Slot) -> bool {
    slot.speculator_pid.load(Relaxed) == 0
}

/// Whether the live speculator has ended, and its log has nothing that a thread may yet come for.
fn has_nothing_ahead(slot: &Slot) -> bool {
    has_ended(slot) && Consumer::new(slot, LIVE.load(Relaxed)).is_empty()
}

/// Whether the live speculation is off track by the stalls that it did not prevent.
pub fn has_strayed(slot: &Slot, private: &mut Private, now: u64) -> bool {
    let calls_ahead = Consumer::new(slot, LIVE.load(Relaxed)).len();
    private.live.track.course(now, false, calls_ahead) != Course::Kept
}

/// Whether the live speculation was forked so lately that it has had no time to be of use to other threads than the led one.
pub fn is_settling(private: &Private, now: u64) -> bool {
    let second = session::header().map_or(0, |header| header.ticks_per_second.load(Relaxed));
    now.saturating_sub(private.live.began_at) < second / (1_000_000 / GRACE_US)
}

/// Whether the live speculation is over, as far as a stall of another thread than the led one tells: that may make no call any
/// more, and this one may be worth leading. Its stalls have been counted.
pub fn is_left(slot: &Slot, private: &mut Private, now: u64) -> bool {
    if LIVE.load(Relaxed) == 0 || is_held() {
        return false;
    }
    has_nothing_ahead(slot) || !is_settling(private, now) && has_strayed(slot, private, now)
}

/// The live speculation is off track: ends it if another one may pay, or if it is unrecoverable.
pub fn finish_if_due(slot: &Slot, private: &mut Private) {
    if !is_due(private) {
        return;
    }
    // No predicted value is responsible for its being late.
    if has_never_been_ahead(slot, private) { finish_early(slot, private) } else { finish(slot, private) }
}

/// Whether the live speculator goes the original's way, as far as its log tells, and has only been behind.
fn has_never_been_ahead(slot: &Slot, private: &Private) -> bool {
    !has_ended(slot) && private.live.misses == 0 && !private.live.track.is_due()
}

/// Whether another speculation may pay, or the live one has plainly strayed.
pub fn is_due(private: &Private) -> bool {
    let is_armed = || session::account().is_some_and(|account| private.forks.is_armed(&account));
    private.forks.judge_due() || is_armed()
}

/// The live speculation is over: says what came of it.
pub fn finish(slot: &Slot, private: &mut Private) {
    let is_excused = excused_ends(slot) != private.live.forked.excused_ends;
    conclude(slot, private, !is_excused);
}

/// The live speculation takes too much, or is late, and ends before it is off track.
pub fn finish_early(slot: &Slot, private: &mut Private) {
    conclude(slot, private, false);
}

/// Speculators that ended because of what no predicted value is responsible for.
pub fn excused_ends(slot: &Slot) -> u64 {
    let ends = [End::Memory, End::Thread].map(|end| slot.counters.ends.get(end as usize));
    ends.into_iter().flatten().map(|ends| ends.load(Relaxed)).sum()
}

/// Ends the live speculation: its generation, if there was one.
pub fn abandon(slot: &Slot) -> Option<u32> {
    let generation = LIVE.swap(0, Relaxed);
    if generation == 0 {
        return None;
    }
    // In one order with a speculator that begins to make a checkpoint.
    slot.generation.store(generation.wrapping_add(1), SeqCst);
    Some(generation)
}

#[inline(never)]
fn conclude(slot: &Slot, private: &mut Private, was_off_track: bool) {
    let begun = ticks();
    let Some(generation) = abandon(slot) else { return };
    let _ = fault::take_foreseen(slot, private);
    // What came after the speculator's end says nothing of the values that it predicted.
    let used_before = private.live.used;
    unconsumed::settle(slot, private, generation);
    let mut taught = was_off_track && private.live.repairs.penalize_earlier(slot, generation, used_before);
    let wrong_calls = Consumer::new(slot, generation).abandon();
    slot.counters.hints_wrong.fetch_add(wrong_calls, Relaxed);
    trace::tell(b"finished: used, late, wrong", &[private.live.used, private.live.late, wrong_calls]);
    trace::tell(b"jail ticks", &[slot.counters.jail_ticks.load(Relaxed)]);
    let _ = size::weigh(private, WEIGHED_AGAIN_US);
    let copies = copied_pages(slot, private, generation);
    private.live.copied = Some(copies);
    trace::tell(b"copied pages", &[copies]);
    let took = Took {
        copied: copies,
        taken: since(&slot.counters.speculator_pages, &mut private.charged.pages),
        ran: ran(slot, private),
    };
    slot.counters.copies.fetch_add(copies, Relaxed);
    let copy_ticks = copies.saturating_mul(private.forks.size().copy);
    slot.counters.copy_ticks.fetch_add(copy_ticks, Relaxed);
    let Some(account) = session::account() else { return };
    let saved = private.live.saved;
    if was_off_track && let Some(index) = responsible_site(slot, generation) {
        let used = private.live.repairs.gained(used_before).saturating_add(private.live.late / 2);
        let reward = reward(slot, generation, index, used);
        trace::tell(b"responsible: site, reward", &[index.into(), reward]);
        let reward = u32::try_from(reward).unwrap_or(u32::MAX);
        taught |= session::header().is_some_and(|header| site::outcome(&header.sites, index, reward));
    }
    private.forks.on_upkeep(&account, ticks().saturating_sub(begun));
    if private.forks.on_end(&account, saved, took, taught) {
        session::on_gain();
    }
    trace::tell(b"account: saved, failures", &[saved, account.failures().into()]);
    publish(slot, private);
}

/// By how much a counter has grown since it was last looked at. That of another slot begins at 0.
fn since(counter: &AtomicU64, before: &mut u64) -> u64 {
    let now = counter.load(Relaxed);
    now.checked_sub(mem::replace(before, now)).unwrap_or(now)
}

/// Processor time of speculators that has not been charged yet, beside what the original ran since the last fork.
fn ran(slot: &Slot, private: &mut Private) -> Ran {
    let us = since(&slot.counters.speculator_cpu_us, &mut private.charged.cpu_us);
    let Some(header) = session::header() else { return Ran::default() };
    let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let own = processor_ticks(ticks_per_us).saturating_sub(private.live.forked.processor);
    let elapsed = ticks().saturating_sub(private.live.began_at).max(1);
    Ran {
        ticks: us.saturating_mul(ticks_per_us),
        busy: header.processor_price.load(Relaxed),
        beside: own.saturating_mul(PRICE_ONE.unsigned_abs()) / elapsed,
    }
}

/// The image ends. What the last speculation has cost since its end is charged, what its speculators have used since it was judged,
/// and the time that the process `waited` for their end.
pub fn settle_end(slot: &Slot, private: &mut Private, waited: u64) {
    let Some(account) = session::account() else { return };
    settle_first_writes(slot, private, &account);
    let more = ran(slot, private).cost().saturating_add(waited);
    private.forks.on_more_cost(&account, more);
}

/// Charges what the last speculation, which is over, has cost since its end: first writes to pages that were not copied.
pub fn settle_first_writes(slot: &Slot, private: &mut Private, account: &Account<'_>) {
    let Some(copied) = private.live.copied.take() else { return };
    let written = first_writes(slot, private);
    trace::tell(b"copied, written first", &[copied, written]);
    private.charged.first_writes = private.charged.first_writes.saturating_add(written);
    private.forks.on_first_writes(account, written.saturating_sub(copied));
}

/// Tells what speculations cost and saved so far, as far as that is not counted elsewhere.
fn publish(slot: &Slot, private: &Private) {
    slot.counters.saved_ticks.store(private.forks.saved(), Relaxed);
    slot.counters.delay_ticks.store(private.forks.delayed(), Relaxed);
    slot.counters.crossings.store(private.forks.crossings(), Relaxed);
    slot.counters.crossings_futile.store(private.forks.crossings_futile(), Relaxed);
}

/// The part of the hints used of this generation that came after the site first made a value up: what ended the
/// speculation is not credited with what others earned before.
pub fn reward(slot: &Slot, generation: u32, site: u32, used: u64) -> u64 {
    let calls = slot.tails.get(generation as usize % LOGS).map_or(0, |tail| tail.load(Relaxed));
    let pages = of_generation(slot.pages_passed.load(Relaxed), generation);
    let first = slot.first_predicted.get(site as usize).map_or(0, |first| first.load(Relaxed));
    if (first >> 32) as u32 != generation {
        return 0;
    }
    let pages_before = slot.pages_before.get(site as usize).map_or(0, |before| before.load(Relaxed).into());
    let after = calls.saturating_sub(first & 0xffff_ffff).saturating_add(pages.saturating_sub(pages_before));
    used.saturating_mul(after).checked_div(calls.saturating_add(pages)).unwrap_or(used)
}

/// A count that a generation has left in the channel.
pub const fn of_generation(count: u64, generation: u32) -> u64 {
    if (count >> 32) as u32 == generation { count & 0xffff_ffff } else { 0 }
}

/// Pages that the speculator of a generation hinted and the original is not past, as far as it has looked.
pub fn pages_ahead(slot: &Slot, generation: u32) -> u64 {
    let hinted = of_generation(slot.pages_hinted.load(Relaxed), generation);
    hinted.saturating_sub(of_generation(slot.pages_passed.load(Relaxed), generation))
}

/// The call site of the last predicted value before the speculator and the original differed.
#[inline(never)]
pub fn responsible_site(slot: &Slot, generation: u32) -> Option<u32> {
    let log = generation as usize % LOGS;
    let tail = slot.tails.get(log)?.load(Relaxed);
    let entries = slot.logs.get(log)?;
    for position in (tail.saturating_sub(BLAME_ENTRIES_MAX)..tail).rev() {
        let mark = entries.get(position as usize % LOG_ENTRIES)?.mark.load(Relaxed);
        if let Some(index) = speculator::predicting_site(mark) {
            return Some(index);
        }
    }
    let last = slot.last_predicted.get(log)?.load(Relaxed) as u32;
    last.checked_sub(1)
}

/// Whether the live speculation harms the original, or the original copied more pages for it than what came of that is worth.
pub fn costs_too_much(slot: &Slot, private: &mut Private) -> bool {
    let Some(account) = session::account() else { return false };
    if private.forks.is_harmful(&account, private.live.saved) {
        return true;
    }
    let prices = private.forks.prices(&account);
    let balance = Balance { prices, spared: private.live.used, ..Balance::default() };
    let generation = LIVE.load(Relaxed);
    !balance.covers_copies(copied_pages(slot, private, generation))
        // By what it has grown meanwhile it may as well be less.
        && size::weigh(private, WEIGHED_AGAIN_US)
        && !balance.covers_copies(copied_pages(slot, private, generation))
}

/// Pages that the original copied because of the last fork: until the speculator, of that generation, ended, if it has told.
#[inline(never)]
fn copied_pages(slot: &Slot, private: &Private, generation: u32) -> u64 {
    let until_now = first_writes(slot, private);
    let told = slot.pages_copied.load(Relaxed);
    if (told >> 32) as u32 == generation { until_now.min(of_generation(told, generation)) } else { until_now }
}

/// Pages that the original has first written to since the last fork.
#[inline(never)]
fn first_writes(slot: &Slot, private: &Private) -> u64 {
    let hinted = slot.counters.hints_data.load(Relaxed).saturating_sub(private.live.forked.hinted);
    copies::first_writes(&private.live.forked.faults, &page_faults(private), hinted)
}
