//! Waits for descriptors: what they can take is said to be taken at once. Input is taken for something that does not come, so a
//! wait for nothing else ends the speculator.

use forebay_protocol::layout::End;
use forebay_sigsafe::{general as n, memory};

use super::{State, end, touch_program};
use crate::call::Call;

const OUTPUT: i16 = (n::POLLOUT | n::POLLWRNORM) as i16;
/// Descriptors that are looked at.
const DESCRIPTORS_MAX: usize = 1024;
const WORD_BITS: usize = u64::BITS as usize;

/// `poll`, and `ppoll`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn poll(state: &mut State, call: &Call) -> isize {
    let [entries, count, timeout, ..] = call.arguments;
    let count = count.min(DESCRIPTORS_MAX);
    let take = |at: usize| {
        // SAFETY: the caller's; garbage ends the speculator.
        let (entry, known) = unsafe {
            let entry = (entries as *mut n::pollfd).add(at);
            (entry, entry.read_unaligned())
        };
        let revents = if known.fd < 0 { 0 } else { known.events & OUTPUT };
        // SAFETY: above.
        unsafe { entry.write_unaligned(n::pollfd { revents, ..known }) };
        isize::from(revents != 0)
    };
    let ready = touch_program(state, || (0..count).map(take).sum());
    let is_number = call.number as u32 == n::__NR_poll;
    // SAFETY: the caller's.
    let waits = if is_number { timeout != 0 } else { unsafe { is_time(state, timeout) } };
    ready_or_end(state, ready, waits)
}

/// `select`, and `pselect6`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn select(state: &mut State, call: &Call) -> isize {
    let [count, input, output, exceptional, timeout, _] = call.arguments;
    let words = count.min(DESCRIPTORS_MAX).div_ceil(WORD_BITS);
    let ready = touch_program(state, || {
        for set in [input, exceptional].into_iter().filter(|set| *set != 0) {
            // SAFETY: the caller's; garbage ends the speculator.
            unsafe { memory::fill(set as *mut u8, 0, words * size_of::<u64>()) };
        }
        // SAFETY: above.
        let output_bits = |at: usize| unsafe { (output as *const u64).add(at).read_unaligned() }.count_ones();
        if output == 0 { 0 } else { (0..words).map(output_bits).sum::<u32>() as isize }
    });
    // SAFETY: the caller's.
    let waits = unsafe { is_time(state, timeout) };
    ready_or_end(state, ready, waits)
}

/// `epoll_wait`, and its kin that count milliseconds.
pub fn epoll(state: &mut State, call: &Call) -> isize {
    let waits = call.arguments[3] as i32 != 0;
    ready_or_end(state, 0, waits)
}

fn ready_or_end(state: &mut State, ready: isize, waits: bool) -> isize {
    if ready == 0 && waits { end(state, End::NotEmulated) } else { ready }
}

/// Whether the time at this address, of two words, is more than none. Without an address it is unlimited.
///
/// # Safety
/// As [`super::call`].
unsafe fn is_time(state: &mut State, address: usize) -> bool {
    // SAFETY: the caller's; garbage ends the speculator.
    let time = || unsafe { (address as *const [i64; 2]).read_unaligned() };
    address == 0 || touch_program(state, time) != [0, 0]
}
