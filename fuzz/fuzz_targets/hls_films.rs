//! Playlists and segments for browsers, of any file. Start it from small real films, as `media_files`.
#![no_main]

#[path = "../../crates/serve/hls/tests/film_bodies/mod.rs"]
mod film_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| film_bodies::film(&data.to_vec()));
