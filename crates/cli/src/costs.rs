//! What a cold start pays, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use forebay_profile::{Cost, Costs, Kind};
use forebay_quantity::{bytes, seconds, thousands, times};
use serde::Serialize;

/// Folders and files that the text names.
const ROWS_MAX: usize = 10;
/// Requests that a replay has under way at most.
const AT_ONCE: u64 = 128;
const WIDTH: usize = 80;
const NUMBERS: usize = 22;

/// The costs in the JSON.
#[derive(Serialize)]
pub struct Told {
    paths: u64,
    requests: u64,
    bytes: u64,
    /// Of one request, measured.
    latency_s: Option<f64>,
    /// Estimates: requests one after the other, and as a replay makes them.
    alone_s: Option<f64>,
    replay_s: Option<f64>,
    kinds: Vec<Row>,
    folders: Vec<Row>,
    files: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    requests: u64,
    bytes: u64,
}

impl Told {
    /// The costs where a request takes `latency`, if that is known.
    pub fn new(costs: &Costs, latency: Option<Duration>) -> Self {
        let latency_s = latency.map(|latency| latency.as_secs_f64());
        let rows = |list: &[(Vec<u8>, Cost)]| -> Vec<Row> {
            list.iter().map(|(path, cost)| row(&printable(path), *cost)).collect()
        };
        let at_least = costs.depth.max(costs.total.requests.div_ceil(AT_ONCE));
        Self {
            paths: costs.paths,
            requests: costs.total.requests,
            bytes: costs.total.bytes,
            latency_s,
            alone_s: latency_s.map(|latency| latency * costs.total.requests as f64),
            replay_s: latency_s.map(|latency| latency * at_least as f64),
            kinds: costs.kinds.iter().map(|(kind, cost)| row(name(*kind), *cost)).collect(),
            folders: rows(&costs.folders),
            files: rows(&costs.files),
        }
    }

    /// The same as text of 80 columns.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (paths, requests) = (thousands(self.paths), thousands(self.requests));
        let _ =
            writeln!(text, "A cold start makes {requests} requests: {paths} paths, {}.", size(self.bytes));
        match (self.latency_s, self.alone_s, self.replay_s) {
            (Some(latency), Some(alone), Some(replay)) if replay > 0.0 => {
                let _ = writeln!(
                    text,
                    "Estimated at the {} that the disk takes for one (measured now):\n  \
                     one after the other {}, as a replay at least {}: up to {}.",
                    seconds(latency),
                    seconds(alone),
                    seconds(replay),
                    times(alone / replay)
                );
            }
            _ => text.push_str("The disk's latency is not known here, so no time is estimated.\n"),
        }
        for (heading, rows) in [("kind", &self.kinds), ("folder", &self.folders), ("file", &self.files)] {
            table(&mut text, heading, rows);
        }
        text
    }
}

fn table(text: &mut String, heading: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let line = |text: &mut String, requests: &str, bytes: &str, name: &str| {
        let _ = writeln!(text, "{requests:>9}{bytes:>11}  {}", tail(name, WIDTH - NUMBERS));
    };
    text.push('\n');
    line(text, "requests", "data", heading);
    for row in rows.iter().take(ROWS_MAX) {
        line(text, &thousands(row.requests), &size(row.bytes), &row.name);
    }
    let rest = rows.get(ROWS_MAX..).unwrap_or_default();
    if !rest.is_empty() {
        let requests = rest.iter().map(|row| row.requests).sum();
        let data = rest.iter().map(|row| row.bytes).fold(0, u64::saturating_add);
        let others = format!("({} others)", thousands(rest.len() as u64));
        line(text, &thousands(requests), &size(data), &others);
    }
}

fn row(name: &str, cost: Cost) -> Row {
    Row { name: name.to_owned(), requests: cost.requests, bytes: cost.bytes }
}

/// What a kind is called.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "data read",
        Kind::Mapped => "data mapped",
        Kind::Directory => "directories listed",
        Kind::LookUp => "paths looked up",
        Kind::Missing => "paths looked up, and missing",
        Kind::Link => "symbolic links read",
        Kind::Executed => "data executed",
    }
}

/// A number of bytes for people.
pub fn size(count: u64) -> String {
    bytes(count as f64)
}

/// Bytes of a path or an argument as text without control characters.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// The end of a text that is too long: of paths that is what differs.
fn tail(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - (width - 3)).collect();
    format!("...{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_fits_80_columns_and_tells_what_is_estimated() {
        let cost = Cost { requests: 1_234_567, bytes: 987 << 20 };
        let path = [b"/folder/".repeat(40), vec![b'\n', 0xff]].concat();
        let files: Vec<_> = (0..20).map(|_| (path.clone(), cost)).collect();
        let kinds = Kind::ALL.map(|kind| (kind, cost)).into();
        let costs = Costs { total: cost, paths: 20, depth: 3, kinds, folders: files.clone(), files };
        for latency in [None, Some(Duration::from_millis(1))] {
            let text = Told::new(&costs, latency).text();
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert_eq!(text.contains("Estimated"), latency.is_some(), "{text}");
            assert!(text.contains("(10 others)") && text.contains("paths looked up, and missing"), "{text}");
        }
        assert!(!Told::new(&Costs::default(), None).text().contains("folder"));
    }
}
