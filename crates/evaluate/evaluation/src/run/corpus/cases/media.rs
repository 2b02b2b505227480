//! Mail, pictures, sound and films.

use super::super::case::{Case, Compared, Kind, Need};

const MAGICK: Need = Need::Debian("imagemagick", "/usr/bin/convert");
const FFMPEG: Need = Need::Debian("ffmpeg", "/usr/bin/ffmpeg");
const EXIFTOOL: Need = Need::Debian("libimage-exiftool-perl", "exiftool");

/// Two thousand mails; and a script behind that.
macro_rules! mails {
    ($then:literal) => {
        concat!("mkdir -p mail/cur mail/new mail/tmp; cd mail/cur; i=0; while [ $i -lt 2000 ]; do
    printf 'From: a@example.org\\nTo: b@example.org\\nSubject: subject %d\\nMessage-ID: <%d@example.org>\\n\
Date: Mon, 01 Jan 2024 00:00:00 +0000\\n\\nbody %d with words such as cache and disk\\n' $i $i $((i * 7919)) > $i:2,S
    i=$((i + 1))
done
printf '[database]\\npath=/mnt/mail\\n[user]\\nname=A\\nprimary_email=a@example.org\\n[new]\\ntags=new\\n' > /mnt/.notmuch-config
", $then)
    };
}

/// Three hundred small pictures with a profile of facts.
const PICTURES: &str = "mkdir pictures; /usr/bin/convert -size 96x96 plasma:red-blue -seed 7 one.jpg
    i=0; while [ $i -lt 300 ]; do cp one.jpg pictures/$i.jpg; i=$((i + 1)); done";

pub(super) const CASES: &[Case] = &[
    Case::new(
        Kind::Media,
        "notmuch-new",
        &["notmuch", "new", "--quiet"],
        &[Need::Debian("notmuch", "notmuch")],
    )
    .prepare(mails!(""))
    .restore("rm -rf mail/.notmuch")
    .compared(Compared::Files),
    Case::new(
        Kind::Media,
        "notmuch-search",
        &["notmuch", "search", "cache", "and", "subject"],
        &[Need::Debian("notmuch", "notmuch")],
    )
    .prepare(mails!("notmuch new --quiet")),
    Case::new(
        Kind::Media,
        "exiftool",
        &["exiftool", "-q", "-csv", "-ImageWidth", "-FileType", "pictures"],
        &[EXIFTOOL, MAGICK],
    )
    .prepare(PICTURES),
    Case::new(
        Kind::Media,
        "identify",
        &["sh", "-c", "/usr/bin/identify -format '%f %w %h\\n' pictures/*.jpg"],
        &[MAGICK],
    )
    .prepare(PICTURES),
    Case::new(
        Kind::Media,
        "montage",
        &["sh", "-c", "/usr/bin/montage pictures/1*.jpg -geometry 24x24 made.ppm"],
        &[MAGICK],
    )
    .prepare(PICTURES)
    .writes(&["made.ppm"]),
    Case::new(
        Kind::Media,
        "ffmpeg",
        &["/usr/bin/ffmpeg", "-v", "error", "-threads", "1", "-i", "film.mkv", "-f", "framemd5", "-"],
        &[FFMPEG],
    )
    .prepare("/usr/bin/ffmpeg -v error -f lavfi -i testsrc=d=8:s=320x240 -c:v mpeg4 film.mkv"),
    Case::new(
        Kind::Media,
        "ffmpeg-copy",
        &[
            "/usr/bin/ffmpeg",
            "-v",
            "error",
            "-i",
            "film.mkv",
            "-c",
            "copy",
            "-fflags",
            "+bitexact",
            "-f",
            "mpegts",
            "made.ts",
        ],
        &[FFMPEG],
    )
    .prepare("/usr/bin/ffmpeg -v error -f lavfi -i testsrc=d=40:s=640x480 -c:v mpeg4 -q:v 2 film.mkv")
    .writes(&["made.ts"]),
];
