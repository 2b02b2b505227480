//! The reader of clients' RTCP packets.
#![no_main]

#[path = "../../crates/serve/rtsp/tests/input_bodies/mod.rs"]
mod input_bodies;
#[path = "../../crates/serve/rtsp/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_bodies::reports(data));
