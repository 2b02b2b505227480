//! Requests of SOAP and probes of WS-Discovery that cameras answer.
#![no_main]

#[path = "../../crates/serve/cameras/tests/camera_bodies/mod.rs"]
mod camera_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    camera_bodies::requests(data);
    camera_bodies::probes(data);
});
