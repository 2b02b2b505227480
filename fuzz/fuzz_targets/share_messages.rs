//! Messages between hosts that share memory, and the protocol that takes them.
#![no_main]

#[path = "../../crates/share/coherence/tests/message_bodies/mod.rs"]
mod message_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| message_bodies::messages(data));
