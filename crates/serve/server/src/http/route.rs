//! What a URL of HTTP leads to.
//!
//! ```text
//!   /, /FOLDER/                        the list: a page, ?list=json, ?list=m3u
//!   /FILE                              the page that plays it
//!   /FILE/master.m3u8, .../media_0_1.m3u8, .../init_0_1.mp4, .../segment_7_0_1.m4s, .../part_7_2_0_1.m4s
//!   /.forebay/NAME                     what pages consist of: no name of a file begins with a dot
//! ```

use forebay_hls::Reload;
use forebay_rtsp::target::Target;

/// What a URL asks with for a password, where there is something for clients without one too.
pub(super) const SIGN_IN: &str = "sign-in";
/// Tracks that a URL may name.
const TRACKS_MAX: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A list, for clients that have said who they are if `signs_in`.
    List {
        folder: String,
        form: Form,
        signs_in: bool,
    },
    Asset(String),
    Film {
        path: String,
        query: String,
        what: What,
    },
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Page,
    Json,
    M3u,
}

/// What of a film is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Page,
    Master,
    Media(Vec<usize>, Reload),
    Init(Vec<usize>),
    Segment(usize, Vec<usize>),
    /// Segment, part, tracks.
    Part(usize, usize, Vec<usize>),
}

impl Route {
    /// `None` for what cannot be.
    pub fn of(url: &str) -> Option<Self> {
        let target = Target::parse(url).filter(|target| target.track.is_none())?;
        let Target { path, query, .. } = target;
        if let Some(name) = path.strip_prefix(".forebay/") {
            return Some(Self::Asset(name.to_owned()));
        }
        let before_query = url.split('?').next().unwrap_or_default();
        let form = query.split('&').find_map(|part| part.strip_prefix("list="));
        if path.is_empty() || before_query.ends_with('/') || form.is_some() {
            let form = match form {
                None => Form::Page,
                Some("json") => Form::Json,
                Some("m3u") => Form::M3u,
                Some(_) => return None,
            };
            let signs_in = query.split('&').any(|part| part == SIGN_IN);
            return Some(Self::List { folder: path, form, signs_in });
        }
        let of_film = path.rsplit_once('/').and_then(|(path, name)| Some((path.to_owned(), what(name)?)));
        let (path, mut what) = of_film.unwrap_or((path, What::Page));
        let (query, reload) = without_reload(&query)?;
        if let What::Media(_, wanted) = &mut what {
            *wanted = reload;
        }
        Some(Self::Film { path, query, what })
    }
}

/// What players of HLS add to the query of a playlist that they ask for again, and the rest; `None` if that cannot be.
fn without_reload(query: &str) -> Option<(String, Reload)> {
    let (mut rest, mut reload) = (Vec::new(), Reload::default());
    for part in query.split('&') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("_HLS_msn", number) => reload.sequence = Some(digits(number)?),
            ("_HLS_part", number) => reload.part = Some(digits(number)?),
            ("_HLS_skip", _) => reload.skips = true,
            // The others are not the server's.
            (name, _) if name.starts_with("_HLS_") => {}
            _ => rest.push(part),
        }
    }
    let is_told = reload.part.is_none() || reload.sequence.is_some();
    is_told.then(|| (rest.join("&"), reload))
}

fn digits(text: &str) -> Option<usize> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What a name below a file stands for.
fn what(name: &str) -> Option<What> {
    if name == "master.m3u8" {
        return Some(What::Master);
    }
    let (stem, ending) = name.rsplit_once('.')?;
    let (kind, numbers) = stem.split_once('_')?;
    let numbers: Vec<usize> = numbers.split('_').take(TRACKS_MAX + 3).map(digits).collect::<Option<_>>()?;
    match (kind, ending, numbers.as_slice()) {
        ("media", "m3u8", tracks) => Some(What::Media(tracks.to_vec(), Reload::default())),
        ("init", "mp4", tracks) => Some(What::Init(tracks.to_vec())),
        ("segment", "m4s", [number, tracks @ ..]) => Some(What::Segment(*number, tracks.to_vec())),
        ("part", "m4s", [segment, part, tracks @ ..]) => Some(What::Part(*segment, *part, tracks.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_lists_pages_and_segments() {
        let list =
            |folder: &str, form| Some(Route::List { folder: folder.to_owned(), form, signs_in: false });
        let reload = Reload { sequence: Some(7), part: Some(2), skips: true };
        let signs_in = Route::List { folder: String::new(), form: Form::Json, signs_in: true };
        let film = |path: &str, query: &str, what| {
            Some(Route::Film { path: path.to_owned(), query: query.to_owned(), what })
        };
        for (url, expected) in [
            ("/", list("", Form::Page)),
            ("/old/", list("old", Form::Page)),
            ("/old?list=json", list("old", Form::Json)),
            ("/?list=m3u", list("", Form::M3u)),
            ("/?list=xml", None),
            ("/?list=json&sign-in", Some(signs_in)),
            ("/old/a%20b.mp4", film("old/a b.mp4", "", What::Page)),
            ("/a.mp4/master.m3u8?start=3", film("a.mp4", "start=3", What::Master)),
            ("/a.mp4/media_0_1.m3u8", film("a.mp4", "", What::Media(vec![0, 1], Reload::default()))),
            (
                "/a.mp4/media_0.m3u8?_HLS_msn=7&raw&_HLS_part=2&_HLS_skip=YES",
                film("a.mp4", "raw", What::Media(vec![0], reload)),
            ),
            ("/a.mp4/media_0.m3u8?_HLS_part=2", None),
            ("/a.mp4/media_0.m3u8?_HLS_msn=x", None),
            ("/a.mp4/part_7_2_0_1.m4s", film("a.mp4", "", What::Part(7, 2, vec![0, 1]))),
            ("/a.mp4/init_0.mp4", film("a.mp4", "", What::Init(vec![0]))),
            ("/a.mp4/segment_7_0_1.m4s", film("a.mp4", "", What::Segment(7, vec![0, 1]))),
            ("/a.mp4/segment_-7_0.m4s", film("a.mp4/segment_-7_0.m4s", "", What::Page)),
            ("/.forebay/player.js", Some(Route::Asset("player.js".to_owned()))),
            ("/a%00", None),
        ] {
            assert_eq!(Route::of(url), expected, "{url}");
        }
    }
}
