//! Playlists name what there is: tracks that are played together, languages to choose from, and segments from key frame to key frame.

use std::sync::Arc;

use forebay_hls::{Film, Reload};
use forebay_media::Media;
use forebay_streaming::playlist::Playlist;
use forebay_testkit::films::{Folder, H264};

fn film(folder: &Folder, options: &str) -> Film {
    let path = folder.encode(10, options, "a.mp4");
    let media = Arc::new(Media::open(&path).expect("a file"));
    let playlist = Arc::new(Playlist::new(vec![media.into()], false).expect("a playlist"));
    Film::new(&playlist, |_| None).expect("a film")
}

#[test]
fn pictures_and_sound_are_one_variant_with_their_codecs_and_size() {
    let Some(folder) = Folder::new("pictures_and_sound_are_one_variant_with_their_codecs_and_size") else {
        return;
    };
    let film = film(&folder, &format!("{H264} -c:a aac"));
    let master = film.master("start=1\"\n#x");
    let lines: Vec<&str> = master.lines().collect();
    assert_eq!(lines[0], "#EXTM3U");
    assert!(lines[3].starts_with("#EXT-X-STREAM-INF:BANDWIDTH="), "{master}");
    assert!(
        lines[3].contains(",CODECS=\"avc1.") && lines[3].ends_with("mp4a.40.2\",RESOLUTION=160x120"),
        "{master}"
    );
    // What would end the URL is left out.
    assert_eq!(lines[4..], ["media_0_1.m3u8?start=1x"]);
}

#[test]
fn segments_begin_at_key_frames_and_last_as_long_as_the_film() {
    let Some(folder) = Folder::new("segments_begin_at_key_frames_and_last_as_long_as_the_film") else {
        return;
    };
    let film = film(&folder, &format!("{H264} -c:a aac"));
    let media = film.media(&[0, 1], "", Reload::default()).expect("a playlist");
    // A key frame every twelve pictures of 25 in a second: 4.8 s is the last before 5 s.
    for line in
        ["#EXTINF:4.800000,", "segment_0_0_1.m4s", "#EXT-X-MAP:URI=\"init_0_1.mp4\"", "#EXT-X-ENDLIST"]
    {
        assert!(media.lines().any(|one| one == line), "{line}: {media}");
    }
    let seconds = |line: &str| line.strip_prefix("#EXTINF:")?.trim_end_matches(',').parse::<f64>().ok();
    let all: Vec<f64> = media.lines().filter_map(seconds).collect();
    assert!((all.iter().sum::<f64>() - 10.0).abs() < 0.1, "{all:?}");
    assert!(media.contains("#EXT-X-TARGETDURATION:5\n"), "{media}");
}

#[test]
fn languages_can_be_chosen() {
    let Some(folder) = Folder::new("languages_can_be_chosen") else { return };
    let languages = "-map 0:v -map 1:a -map 1:a -metadata:s:a:0 language=deu -metadata:s:a:1 language=fra";
    let film = film(&folder, &format!("{H264} -c:a aac {languages}"));
    let master = film.master("");
    for part in [
        "NAME=\"deu 1\",AUTOSELECT=YES,LANGUAGE=\"deu\",DEFAULT=YES\n",
        "LANGUAGE=\"fra\",DEFAULT=NO,URI=\"media_2.m3u8\"\n",
        ",AUDIO=\"sound\"\nmedia_0_1.m3u8\n",
    ] {
        assert!(master.contains(part), "{part}: {master}");
    }
    for (tracks, is_there) in
        [(&[2][..], true), (&[0, 2], true), (&[0, 3], false), (&[0, 0], false), (&[], false)]
    {
        assert_eq!(film.media(tracks, "", Reload::default()).is_some(), is_there, "{tracks:?}");
        assert_eq!(film.init(tracks).is_some(), is_there, "{tracks:?}");
        assert_eq!(film.segment(tracks, 0).is_some(), is_there, "{tracks:?}");
    }
    let count = film.durations_ns().count();
    assert!(film.segment(&[0], count).is_none() && film.segment(&[0], usize::MAX).is_none());
}
