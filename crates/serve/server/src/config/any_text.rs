//! What must hold for any settings file, for the property test and for fuzzing.

use super::{Path, Settings};

/// A text is read, or refused with a line of it.
pub fn settings(data: &[u8]) {
    let (text, path) = (String::from_utf8_lossy(data), Path::new("/etc/forebay/serve.toml"));
    let Err(error) = Settings::parse(path, &text) else { return };
    let said = error.to_string();
    let place = said.strip_prefix("/etc/forebay/serve.toml:").and_then(|rest| rest.split(':').next());
    let line: usize = place.and_then(|line| line.parse().ok()).unwrap_or_default();
    assert!((1..=text.split('\n').count()).contains(&line), "{said}");
}
