//! Pages for people: lists of files, and the page that plays one.

use forebay_hls::Film;
use forebay_quantity::bytes;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::listing::{Listed, escaped, shown};
use super::response::Response;
use super::route::SIGN_IN;

/// What a page may load: nothing from elsewhere.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                 media-src 'self' blob:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("player.js");

/// What pages consist of beside their text.
pub(super) fn asset(name: &str) -> Response {
    match name {
        "style.css" => Response::new("text/css; charset=utf-8", STYLE),
        "player.js" => Response::new("text/javascript; charset=utf-8", SCRIPT),
        _ => Response::refusal(404, "there is no such page"),
    }
}

fn page(title: &str, has_script: bool, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/.forebay/style.css";
                @if has_script { script src="/.forebay/player.js" defer {} }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// The way from the first folder to a path.
fn trail(path: &str) -> Markup {
    let mut url = String::from("/");
    let mut steps = vec![("all".to_owned(), url.clone())];
    for name in path.split('/').filter(|name| !name.is_empty()) {
        url = format!("{url}{}/", escaped(name));
        steps.push((shown(name), url.clone()));
    }
    let last = steps.len() - 1;
    html! {
        nav {
            @for (number, (name, url)) in steps.iter().enumerate() {
                @if number > 0 { (PreEscaped(" <span>/</span> ")) }
                @if number == last { b { (name) } } @else { a href=(url) { (name) } }
            }
        }
    }
}

/// The files and subfolders of a folder, for a client that may say who it is.
pub(super) fn list<'a>(
    folder: &str,
    files: impl Iterator<Item = &'a Listed>,
    is_cut: bool,
    can_sign_in: bool,
) -> String {
    let begin = if folder.is_empty() { 0 } else { folder.len() + 1 };
    let (mut folders, mut here) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for file in files {
        let rest = &file.path[begin..];
        match rest.split_once('/') {
            Some((subfolder, _)) => *folders.entry(subfolder).or_default() += 1,
            None => here.push((rest, file)),
        }
    }
    let title = if folder.is_empty() { "forebay serve".to_owned() } else { shown(folder) };
    let is_empty = folders.is_empty() && here.is_empty();
    let body = html! {
        (trail(folder))
        main {
            @if is_empty { p { "No media files are here for this user." } }
            ul {
                @for (name, count) in &folders {
                    li { a href={ (escaped(name)) "/" } { (shown(name)) "/" } span { (count) @if *count == 1 { " file" } @else { " files" } } }
                }
                @for (name, file) in &here {
                    li { a href={ "/" (escaped(&file.path)) } { (shown(name)) } span { (bytes(file.bytes as f64)) } }
                }
            }
            @if is_cut { p { "There are more files than a list has." } }
            @if can_sign_in { p { a href={ "?" (SIGN_IN) } { "Sign in" } " to see the files of a user." } }
            p.other { "This list for programs: " a href="?list=json" { "JSON" } ", " a href="?list=m3u" { "M3U" } "." }
        }
    };
    page(&title, false, &body)
}

/// The page that plays a file, or says why it does not.
pub(super) fn film(path: &str, query: &str, film: &Result<&Arc<Film>, &str>, rtsp: &str) -> String {
    let name = shown(path.rsplit('/').next().unwrap_or(path));
    let mark = if query.is_empty() { "" } else { "?" };
    let master = format!("/{}/master.m3u8{mark}{query}", escaped(path));
    let body = html! {
        (trail(path))
        main {
            @match film {
                Ok(film) => {
                    @let (width, height) = film.pictures().and_then(|track| track.shape.size).unwrap_or((640, 80));
                    video #film controls playsinline width=(width) height=(height) data-master=(master) {}
                    p #state role="status" {}
                    p.other { (about(film)) }
                }
                Err(why) => p #state { (why) "." }
            }
            p.other { "For players of RTSP: " code { (rtsp) (mark) (query) } }
        }
    };
    page(&name, film.is_ok(), &body)
}

/// Codecs, size and duration.
fn about(film: &Film) -> String {
    let tracks = film.pictures().into_iter().chain(film.sounds());
    let codecs: Vec<&str> = tracks.map(|track| track.shape.codec.as_str()).collect();
    let size = film.pictures().and_then(|track| track.shape.size);
    let size = size.map_or(String::new(), |(width, height)| format!("{width} x {height}, "));
    let seconds = film.durations_ns().sum::<u64>() / 1_000_000_000;
    format!("{size}{}:{:02}:{:02}, {}", seconds / 3600, seconds / 60 % 60, seconds % 60, codecs.join(", "))
}
