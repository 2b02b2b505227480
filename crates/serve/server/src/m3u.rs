//! Playlists as people and their programs write them: a file a line.
//!
//! A line may be a path from where the playlist lies, a path of the whole machine, or a `file:` URL. It may have percent signs,
//! backslashes and the letters of Latin-1. So a line has several readings, the likeliest first.

use std::path::{Component, Path};

use forebay_rtsp::target::text_of;

/// What a line may mean: paths within the folder.
pub(crate) type Readings = Vec<String>;

/// The lines that name files; `None` if that is no text.
pub(crate) fn lines(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let bytes = in_utf8(bytes);
    let is_of_text = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    if !bytes.iter().all(is_of_text) {
        return None;
    }
    let lines = bytes.split(|byte| *byte == b'\n' || *byte == b'\r').map(<[u8]>::trim_ascii);
    Some(lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).map(<[u8]>::to_vec).collect())
}

/// Without the mark that some editors put in front, and not in UTF-16.
fn in_utf8(bytes: &[u8]) -> Vec<u8> {
    let of_pairs = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units).into_bytes()
    };
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => rest.to_vec(),
        [0xFF, 0xFE, rest @ ..] => of_pairs(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => of_pairs(rest, u16::from_be_bytes),
        bytes => bytes.to_vec(),
    }
}

/// What a line of a playlist may mean that lies in `beside`, a path within `folder`.
pub(crate) fn readings(line: &[u8], beside: &str, folder: &Path) -> Readings {
    let url_path = line.strip_prefix(b"file://").map(|rest| rest.strip_prefix(b"localhost").unwrap_or(rest));
    let written = match url_path {
        Some(path) => vec![percent_decoded(path)],
        None => vec![line.to_vec(), percent_decoded(line)],
    };
    let mut all = Vec::new();
    for path in written {
        let latin: Vec<u8> = path.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes();
        for path in [path, latin] {
            let slashes: Vec<u8> =
                path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
            for path in [path, slashes] {
                let path = within(&path, beside, folder);
                all.extend(path.filter(|path| !all.contains(path)));
            }
        }
    }
    all
}

/// A path within the folder, without dots; `None` if it leads out of it.
fn within(path: &[u8], beside: &str, folder: &Path) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let (mut parts, path) = if path.is_absolute() {
        (Vec::new(), path.strip_prefix(folder).ok()?)
    } else {
        (beside.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(), path)
    };
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(text_of(name.as_bytes())),
            Component::ParentDir => _ = parts.pop()?,
            _ => {}
        }
    }
    Some(parts.join("/"))
}

fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let digit =
        |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(byte) = path.get(at) {
        match (byte, digit(path.get(at + 1)), digit(path.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_people_write_them() {
        let all = |bytes: &[u8]| {
            let lines = lines(bytes).expect("text");
            lines.into_iter().map(|line| text_of(&line)).collect::<Vec<_>>()
        };
        assert_eq!(all(b"\xEF\xBB\xBFa.mp4\r\n#EXTINF:1,x\r\n\r\n  b c.mp4 \n"), ["a.mp4", "b c.mp4"]);
        let pairs: Vec<u8> =
            [0xFEFF_u16].into_iter().chain("ä.mp4\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(all(&pairs), ["ä.mp4"]);
    }

    #[test]
    fn a_line_leads_to_a_file_within_the_folder_or_nowhere() {
        let first = |line: &[u8]| readings(line, "old", Path::new("/films")).first().cloned();
        for (line, expected) in [
            (&b"a.mp4"[..], Some("old/a.mp4")),
            (b"./a.mp4", Some("old/a.mp4")),
            (b"../new/a.mp4", Some("new/a.mp4")),
            (b"/films/new/a.mp4", Some("new/a.mp4")),
            (b"file:///films/a%20b.mp4", Some("a b.mp4")),
            (b"../../a.mp4", None),
            (b"/etc/passwd", None),
        ] {
            assert_eq!(first(line).as_deref(), expected, "{}", text_of(line));
        }
        let all = |line: &[u8]| readings(line, "", Path::new("/films"));
        assert!(all(b"a%20b.mp4").contains(&"a b.mp4".to_owned()));
        assert!(all(b"new\\a.mp4").contains(&"new/a.mp4".to_owned()));
        assert!(all(b"caf\xE9.mp4").contains(&"café.mp4".to_owned()));
    }
}
