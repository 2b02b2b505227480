//! The reader of requests, the parsers of their fields, credentials, and the RTSP machine.
#![no_main]

#[path = "../../crates/serve/rtsp/tests/input_bodies/mod.rs"]
mod input_bodies;
#[path = "../../crates/serve/rtsp/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    input_bodies::messages(data);
    input_bodies::fields(data);
    input_bodies::authentication(data);
    input_bodies::server(data);
});
