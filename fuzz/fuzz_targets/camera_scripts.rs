//! Scripts of cameras, and the timelines that they make.
#![no_main]

#[path = "../../crates/serve/cameras/tests/camera_bodies/mod.rs"]
mod camera_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| camera_bodies::scripts(data));
