//! The reader of access profiles and packs, their plans and costs, and what profiles learn.
#![no_main]

#[path = "../../crates/run/profile/tests/profile_bodies/mod.rs"]
mod profile_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| profile_bodies::bytes(data));
