//! Frames between a host and the launcher, and the names of memory objects that hosts say in a round.
#![no_main]

#[path = "../../crates/share/launch/src/frame.rs"]
#[allow(dead_code, reason = "kinds of frames are of no concern here")]
mod frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok((kind, bytes)) = frame::read(data) {
        let mut written = vec![];
        frame::write(&mut written, kind, &bytes).expect("a vector takes all");
        assert!(data.starts_with(&written));
    }
    if let Some(pieces) = frame::split(data) {
        assert_eq!(frame::join(pieces.iter().map(Vec::as_slice)), data);
    }
    if let Ok(name) = String::from_utf8_lossy(data).parse::<forebay_vm::ObjectName>() {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
});
