//! ffmpeg receives films of every kind of file and codec as they are in their files, packet by packet.

mod received;
mod support;

use std::thread;

use received::{Packet, all, all_at_their_times, hashes, of_track, packets};
use support::{Folder, H264, Server, undropped};

const H265: &str = "-c:v libx265 -preset ultrafast -pix_fmt yuv420p \
                    -x265-params log-level=error:keyint=12:bframes=2:pools=1";

/// Pictures behind start codes, as they come, and without what a description has too.
const AVC: &str = "-bsf:v h264_mp4toannexb,filter_units=remove_types=7-9";
/// The same; an encoder's remarks (39) are in the description of a file, too.
const HEVC: &str = "-bsf:v hevc_mp4toannexb,filter_units=remove_types=32-35|39";
const ADTS: &str = "-bsf:a aac_adtstoasc";

/// Has ffmpeg make these films, with filters for what is compared, and play each of them over both transports.
fn play_all(test: &str, films: &[(&str, String, &str)], check: fn(&str, &[Packet], &[Packet])) {
    let Some(folder) = Folder::new(test) else { return };
    let server = Server::start(folder.root());
    let play = |(name, options, filter): &(&str, String, &str)| {
        let file = folder.encode(1, options, name.trim_end_matches("?raw"));
        let expected = packets(&format!("-i {}", file.display()), filter);
        assert!(expected.len() >= 25, "{name}: {} packets", expected.len());
        for transport in ["tcp", "udp"] {
            let url = server.url(name);
            undropped(|| {
                let got = packets(&format!("-rtsp_transport {transport} -i {url}"), filter);
                check(&format!("{name} over {transport}"), &expected, &got);
            });
        }
    };
    thread::scope(|scope| films.iter().for_each(|film| drop(scope.spawn(|| play(film)))));
}

/// The end of a picture in a transport stream shows when something follows. Nothing does, and ffmpeg leaves it at that.
fn all_but_the_last_pictures(what: &str, expected: &[Packet], got: &[Packet]) {
    for (track, last) in [(0, 2), (1, 0)] {
        let [expected, got] = [expected, got].map(|packets| hashes(&of_track(packets, track)));
        let whole = expected.len() - last;
        assert!(got.len() >= whole, "{what}, track {track}: {} of {} packets", got.len(), expected.len());
        assert!(got[..whole] == expected[..whole], "{what}, track {track}");
    }
}

#[test]
fn every_codec_comes_out_of_every_container_at_its_time() {
    let fragmented = "-movflags +frag_keyframe+empty_moov+default_base_moof";
    play_all(
        "every_codec_comes_out_of_every_container_at_its_time",
        &[
            ("h264-aac.mov", format!("{H264} -c:a aac"), AVC),
            ("h264-mp3.mp4", format!("{H264} -c:a libmp3lame"), AVC),
            ("h264-opus.mp4", format!("{H264} -c:a libopus"), AVC),
            ("h264-mp3.mkv", format!("{H264} -c:a libmp3lame"), AVC),
            ("h265-aac.mp4", format!("{H265} -c:a aac"), HEVC),
            ("h265-aac.mov", format!("{H265} -tag:v hvc1 -c:a aac"), HEVC),
            ("h265-opus.mkv", format!("{H265} -c:a libopus"), HEVC),
            ("fragmented.mp4", format!("{H264} -c:a aac {fragmented}"), AVC),
            ("opus.webm", "-map 1:a -c:a libopus".to_owned(), ""),
            ("h264-aac.flv", format!("{H264} -c:a aac"), AVC),
            ("h264-mp3.flv", format!("{H264} -c:a libmp3lame"), AVC),
            ("opus.ogg", "-map 1:a -c:a libopus".to_owned(), ""),
            ("vorbis.ogg", "-map 1:a -c:a libvorbis -ac 2 -q:a 9".to_owned(), ""),
        ],
        all_at_their_times,
    );
}

#[test]
fn files_of_one_track_and_nothing_else_come_whole() {
    play_all(
        "files_of_one_track_and_nothing_else_come_whole",
        &[
            ("a.h264", format!("-map 0:v {H264}"), AVC),
            ("a.h265", format!("-map 0:v {H265}"), HEVC),
            ("a.aac", "-map 1:a -c:a aac".to_owned(), ADTS),
            ("a.mp3", "-map 1:a -c:a libmp3lame".to_owned(), ""),
        ],
        all,
    );
}

#[test]
fn pictures_and_sound_come_out_of_transport_streams() {
    play_all(
        "pictures_and_sound_come_out_of_transport_streams",
        &[
            ("h264-aac.ts?raw", format!("{H264} -c:a aac"), ""),
            ("h265-mp3.ts?raw", format!("{H265} -c:a libmp3lame"), ""),
        ],
        all_but_the_last_pictures,
    );
}

#[test]
fn the_streams_of_transport_streams_are_tracks() {
    // Pictures have their parameter sets and delimiters in the file, and a receiver leaves out none of them.
    let pictures = "-bsf:v filter_units=remove_types=7-9";
    let pictures_h265 = "-bsf:v filter_units=remove_types=32-35|39";
    play_all(
        "the_streams_of_transport_streams_are_tracks",
        &[
            ("h264-aac.ts", format!("{H264} -c:a aac"), &format!("{pictures} {ADTS}")),
            ("h264-ac3.ts", format!("{H264} -c:a ac3"), pictures),
            ("h265-mp3.ts", format!("{H265} -c:a libmp3lame"), pictures_h265),
            ("spread.ts", format!("{H264} -c:a mp2 -muxrate 3M -pes_payload_size 0"), pictures),
        ],
        all_at_their_times,
    );
}

#[test]
fn recordings_of_ogg_that_follow_each_other_come_as_one() {
    let Some(folder) = Folder::new("recordings_of_ogg_that_follow_each_other_come_as_one") else { return };
    let server = Server::start(folder.root());
    for codec in ["libopus", "libvorbis"] {
        let files = [1, 2].map(|number| {
            let options =
                format!("-map 1:a -c:a {codec} -ac 2 -metadata title={number} -serial_offset {number}");
            folder.encode(number, &options, &format!("{codec}-{number}.ogg"))
        });
        let chain: Vec<u8> = files.iter().flat_map(|file| std::fs::read(file).expect("a file")).collect();
        let name = format!("{codec}.ogg");
        folder.put(&name, chain);
        let expected: Vec<Packet> =
            files.iter().flat_map(|file| packets(&format!("-i {}", file.display()), "")).collect();
        for transport in ["tcp", "udp"] {
            undropped(|| {
                let got = packets(&format!("-rtsp_transport {transport} -i {}", server.url(&name)), "");
                all(&format!("{name} over {transport}"), &expected, &got);
                let times: Vec<f64> = got.iter().filter_map(|packet| packet.seconds).collect();
                let lasts = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
                assert!(
                    times.is_sorted() && (2.9..3.1).contains(&lasts),
                    "{name} over {transport}: {times:?}"
                );
            });
        }
    }
}
