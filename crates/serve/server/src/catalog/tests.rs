use super::*;

#[test]
fn the_files_of_a_playlist_count_among_those_that_may_be_open() {
    let folder = tempfile::tempdir().expect("a folder");
    // A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 32 bytes.
    let mut frame = [0x21; 32];
    frame[..7].copy_from_slice(&[0xFF, 0xF1, 0x50, 0x40, 0x04, 0x1F, 0xFC]);
    for name in ["a.aac", "b.aac", "c.aac"] {
        std::fs::write(folder.path().join(name), frame.repeat(100)).expect("a file");
    }
    std::fs::write(folder.path().join("two.m3u"), "a.aac\nb.aac\n").expect("a file");
    let catalog = Catalog::of(folder.path(), 2);
    let playing = catalog.open("two.m3u", "").expect("two files");
    let failure = catalog.open("c.aac", "").err().expect("a third one");
    assert_eq!(failure.status, Status::ServiceUnavailable);
    assert!(failure.sentence.contains("2 other files"), "{}", failure.sentence);
    drop(playing);
    catalog.open("c.aac", "").expect("a file");
}

#[test]
fn a_list_of_too_many_files_is_told_of_once_and_no_file_begins_behind_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.aac"), crate::rig::FRAME.repeat(100)).expect("a file");
    let catalog = Catalog::of(folder.path(), 2);
    for (count, is_told) in [(PLAYLIST_FILES_MAX, false), (PLAYLIST_FILES_MAX + 1, true)] {
        std::fs::write(folder.path().join("a.m3u"), "a.aac\n".repeat(count)).expect("a list");
        let opened = catalog.open("a.m3u", "").expect("a list");
        let told: Vec<String> = opened.take_remarks().collect();
        let is_of_count = |told: &String| told.contains("only its first 1000 files are served");
        assert_eq!((told.iter().any(is_of_count), opened.files.len()), (is_told, PLAYLIST_FILES_MAX));
        assert_eq!(opened.take_remarks().count(), 0);
    }
    // It lasts for 2.3 seconds.
    catalog.open("a.aac", "start=2.2").expect("the end of it");
    for query in ["start=3", "start=3&end=4", "start=3&loop"] {
        let failure = catalog.open("a.aac", query).err().expect("nothing is there");
        assert_eq!(failure.status, Status::BadRequest, "{query}");
        assert!(failure.sentence.contains("after its end, at 2.322 seconds"), "{}", failure.sentence);
    }
}

#[test]
fn a_file_that_cannot_be_served_is_not_read_again_until_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.aac");
    let frames = crate::rig::FRAME.repeat(100);
    std::fs::write(&path, vec![0; frames.len()]).expect("a file");
    let written = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
    let catalog = Catalog::of(folder.path(), 2);
    let failure = || catalog.open("a.aac", "").err().map(|failure| (failure.status, failure.sentence));
    let first = failure();
    assert_eq!(first.as_ref().map(|(status, _)| *status), Some(Status::UnsupportedMediaType));
    // What it has now could be played, and only reading it would tell.
    std::fs::write(&path, frames).expect("a file");
    let set_modified =
        |time| File::options().write(true).open(&path).and_then(|file| file.set_modified(time));
    set_modified(written).expect("a time");
    assert_eq!(failure(), first);
    set_modified(written + std::time::Duration::from_secs(1)).expect("a time");
    assert_eq!(failure(), None);
}

#[test]
fn what_is_no_text_is_no_playlist_and_none_of_its_bytes_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = Catalog::of(folder.path(), 2);
    for bytes in [&b"G@\x11\0secret"[..], b"a.aac\n\x1B[31msecret", b"\xFF\xFEs\0e\0\0\0"] {
        std::fs::write(folder.path().join("a.m3u8"), bytes).expect("a file");
        let failure = catalog.open("a.m3u8", "").err().expect("it is none");
        assert_eq!(failure.status, Status::UnsupportedMediaType, "{bytes:?}");
        assert_eq!(failure.sentence, "a.m3u8: by its name it is a list of files, but it is no text");
    }
}
