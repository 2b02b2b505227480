//! The decoder, on any bytes in place of a library. Start it from a small real one.
#![no_main]

#[path = "../../crates/run/supervisor/tests/patches_bodies/mod.rs"]
#[allow(dead_code, reason = "each target uses one")]
mod patches_bodies;
#[path = "../../crates/run/supervisor/tests/patches_library/mod.rs"]
mod patches_library;

libfuzzer_sys::fuzz_target!(|data: &[u8]| patches_bodies::library(data));
