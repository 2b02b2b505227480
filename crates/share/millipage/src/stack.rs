//! The stack of a handler: an alternate one can be small.

use std::ptr;

use forebay_sigsafe::{general as n, sys};

/// What it takes at most to serve a fault in its handler.
const NEEDED_BYTES: usize = if cfg!(debug_assertions) { 8 << 10 } else { 3 << 10 };

/// Whether a fault can be served on the stack that the calling thread is on. In a signal handler.
pub fn has_room() -> bool {
    let mut stack = n::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the call writes a local, of the structure that it is told.
    let asked = unsafe { sys!(n::__NR_sigaltstack, ptr::null::<n::stack_t>(), &raw mut stack) };
    let here = (&raw const stack).addr();
    let is_alternate = stack.ss_flags & n::SS_ONSTACK as i32 != 0;
    asked == 0 && (!is_alternate || here.saturating_sub(stack.ss_sp.addr()) >= NEEDED_BYTES)
}
