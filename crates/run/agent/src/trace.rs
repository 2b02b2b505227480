//! Tells the original's decisions on standard error, in builds with the feature `trace`.

use forebay_sigsafe::path::PathBuffer;

/// Writes a line: when, in ticks, what happened, with figures.
pub fn tell(what: &[u8], figures: &[u64]) {
    if !cfg!(feature = "trace") {
        return;
    }
    let mut line = PathBuffer::<256>::new();
    let mut fits = line.push(b"forebay: ")
        && line.push_number(forebay_sigsafe::ticks())
        && line.push(b" ")
        && line.push(what);
    for figure in figures {
        fits = fits && line.push(b" ") && line.push_number(*figure);
    }
    if fits && line.push(b"\n") {
        let bytes = line.as_bytes();
        // SAFETY: the call reads the line.
        let _ = unsafe {
            forebay_sigsafe::sys!(forebay_sigsafe::general::__NR_write, 2, bytes.as_ptr(), bytes.len())
        };
    }
}
