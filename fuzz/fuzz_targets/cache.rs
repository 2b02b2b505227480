//! The reader of cached patch tables.
#![no_main]

#[path = "../../crates/run/supervisor/tests/patches_bodies/mod.rs"]
#[allow(dead_code, reason = "each target uses one")]
mod patches_bodies;
#[path = "../../crates/run/supervisor/tests/patches_library/mod.rs"]
mod patches_library;

libfuzzer_sys::fuzz_target!(|data: &[u8]| patches_bodies::cache(data));
