//! Handshakes and frames of hosts that share memory, as a process without the job's key says them.
#![no_main]

#[path = "../../crates/share/channel/tests/stranger_bodies/mod.rs"]
mod stranger_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    stranger_bodies::says(data);
    stranger_bodies::sends(data);
});
