//! The readers of media files. Start it from a small real file of each kind, with `-rss_limit_mb=512 -timeout=10`.
#![no_main]

#[path = "../../crates/serve/media/tests/file_bodies/mod.rs"]
mod file_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = file_bodies::play(&data.to_vec());
});
