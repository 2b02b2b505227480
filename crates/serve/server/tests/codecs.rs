//! Codecs with a payload format of their own: ffmpeg receives each over both transports as it is in its file.

mod received;
mod support;

use std::path::Path;
use std::thread;

use received::{Packet, all, all_at_their_times, packets};
use support::{Folder, Server, ffmpeg, undropped};

const VP8: &str = "-c:v libvpx -deadline realtime -cpu-used 8 -g 12 -b:v 900k";
const VP9: &str = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 12 -b:v 900k";
const MPEG4: &str = "-c:v mpeg4 -g 12 -bf 0 -b:v 900k";

/// Has ffmpeg make these files, and compares what `read` makes of each with what it makes of it over either transport.
fn receive_all<T>(
    test: &str,
    files: &[(&str, String)],
    read: impl Fn(&str) -> T + Sync,
    check: impl Fn(&str, &T, &T) + Sync,
) {
    let Some(folder) = Folder::new(test) else { return };
    let server = Server::start(folder.root());
    let receive = |(name, options): &(&str, String)| {
        let file = folder.encode(1, options, name);
        let expected = read(&format!("-i {}", file.display()));
        for transport in ["tcp", "udp"] {
            undropped(|| {
                let got = read(&format!("-rtsp_transport {transport} -i {}", server.url(name)));
                check(&format!("{name} over {transport}"), &expected, &got);
            });
        }
    };
    thread::scope(|scope| files.iter().for_each(|file| drop(scope.spawn(|| receive(file)))));
}

/// The bytes that ffmpeg makes of a file or URL.
fn output(input: &str, options: &str) -> Vec<u8> {
    let output = ffmpeg(&format!("{input} {options}"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// All packets, since ffmpeg does not tell which of those that it receives are of key frames.
fn copied(input: &str) -> Vec<Packet> {
    packets(input, "-copyinkf")
}

#[test]
fn pictures_and_sound_of_webm_come_at_their_times() {
    receive_all(
        "pictures_and_sound_of_webm_come_at_their_times",
        &[
            ("vp8-vorbis.webm", format!("{VP8} -c:a libvorbis")),
            ("vp9-opus.webm", format!("{VP9} -c:a libopus")),
            ("vp9.mp4", format!("{VP9} -an")),
        ],
        copied,
        |what, expected, got| all_at_their_times(what, expected, got),
    );
}

#[test]
fn sound_of_dolby_and_old_pictures_come_at_their_times() {
    receive_all(
        "sound_of_dolby_and_old_pictures_come_at_their_times",
        &[
            ("mpeg4-ac3.mp4", format!("{MPEG4} -c:a ac3 -b:a 96k")),
            // Frames that take several packets.
            ("mpeg4-ac3.mkv", format!("{MPEG4} -c:a ac3 -b:a 640k")),
            ("mpeg4-mp3.avi", format!("{MPEG4} -c:a libmp3lame")),
            ("ac3.mov", "-map 1:a -c:a ac3 -ac 2".to_owned()),
        ],
        copied,
        |what, expected, got| all_at_their_times(what, expected, got),
    );
}

#[test]
fn vorbis_comes_out_of_mp4_too() {
    let files = [("mpeg4-vorbis.mp4", format!("{MPEG4} -c:a libvorbis"))];
    receive_all("vorbis_comes_out_of_mp4_too", &files, copied, |what, expected, got| {
        all(what, expected, got)
    });
}

#[test]
fn sound_without_compression_comes_byte_by_byte() {
    let sound = |codec: &str, more: &str| format!("-map 1:a -c:a {codec} {more}");
    let files = [
        ("s16le.mov", sound("pcm_s16le", "-ac 2")),
        ("s16be.mov", sound("pcm_s16be", "-ac 1")),
        ("s24le.mov", sound("pcm_s24le", "-ac 2 -ar 48000")),
        ("s24be.mov", sound("pcm_s24be", "-ac 6 -ar 48000")),
        ("ulaw.mov", sound("pcm_mulaw", "-ac 1 -ar 8000")),
        ("alaw.mov", sound("pcm_alaw", "-ac 2 -ar 16000")),
        ("s16le.mkv", sound("pcm_s16le", "-ac 2")),
        ("s24le.mkv", sound("pcm_s24le", "-ac 1 -ar 96000")),
        ("s16be.mkv", sound("pcm_s16be", "-ac 1")),
        ("s16le.avi", sound("pcm_s16le", "-ac 2")),
        ("s16le.wav", sound("pcm_s16le", "-ac 2")),
        ("s24le.wav", sound("pcm_s24le", "-ac 6 -ar 48000")),
        ("alaw.wav", sound("pcm_alaw", "-ac 1 -ar 8000")),
        ("ulaw.mkv", sound("pcm_mulaw", "-ac 1 -ar 8000")),
        ("alaw.mkv", sound("pcm_alaw", "-ac 1 -ar 8000")),
    ];
    receive_all(
        "sound_without_compression_comes_byte_by_byte",
        &files,
        |input| output(input, "-map 0:a -c:a pcm_s24be -f data -"),
        |what, expected, got| {
            assert!(got == expected, "{what}: {} of {} bytes", got.len(), expected.len());
        },
    );
}

#[test]
fn pictures_of_jpeg_are_decoded_alike() {
    let picture = "-map 0:v -c:v mjpeg -huffman default -q:v 3";
    let files = [
        ("jpeg.mov", format!("{picture} -pix_fmt yuvj420p")),
        ("jpeg.mkv", format!("{picture} -pix_fmt yuvj420p")),
        ("jpeg.avi", format!("{picture} -pix_fmt yuvj420p")),
        ("jpeg.mp4", format!("{picture} -pix_fmt yuvj420p")),
    ];
    receive_all(
        "pictures_of_jpeg_are_decoded_alike",
        &files,
        |input| output(input, "-map 0:v -fps_mode passthrough -f rawvideo -"),
        |what, expected, got| {
            assert!(got == expected, "{what}: {} of {} bytes", got.len(), expected.len());
        },
    );
}

#[test]
fn what_a_payload_format_has_no_room_for_is_refused_by_name() {
    let Some(folder) = Folder::new("what_a_payload_format_has_no_room_for_is_refused_by_name") else {
        return;
    };
    let refused = |options: &str, name: &str, said: &str| {
        let file: &Path = &folder.encode(1, options, name);
        let error = forebay_media::Media::open(file).expect_err("it cannot be served").to_string();
        assert!(error.contains(said), "{name}: {error}");
    };
    refused("-map 0:v -c:v mjpeg -huffman optimal", "huffman.mkv", "-huffman default");
    refused("-map 0:v -c:v mjpeg -huffman default -pix_fmt yuvj444p", "full.mkv", "4:2:0");
    refused("-map 1:a -c:a pcm_f32le", "float.mkv", "A_PCM/FLOAT");
    refused("-map 1:a -c:a pcm_s32le", "long.mov", "in32");
}
