//! The settings file of `forebay serve`.
#![no_main]

#[path = "../../crates/serve/server/src/config/any_text.rs"]
mod any_text;

use std::path::Path;

use forebay_server::Settings;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_text::settings(data));
