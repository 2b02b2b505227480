//! The status page and the metrics for Prometheus: a few lines of HTTP on a port of its own.

use std::fmt::Write;

use forebay_quantity::{self as quantity, bytes, thousands};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::stream::Counts;

use crate::batch::Tally;
use crate::clock;
use crate::event_loop::Serving;
use crate::http::response::{Response, answer_once};
use crate::rtcp_reports::TrackReception;
use crate::sessions::Session;
use crate::transport::TrackTransport;

/// Sessions that the page shows.
const SHOWN_MAX: usize = 1000;
const SECOND: f64 = 1e9;
/// The longest jitter and round trip that are shown: beyond that the report is wrong.
const RECEPTION_S_MAX: f64 = 60.0;

/// What a request gets; `None` while it is not all there.
pub(crate) fn respond(request: &[u8], serving: &Serving) -> Option<Vec<u8>> {
    answer_once(request, |url| match url.split('?').next() {
        Some("/metrics") => Response::new("text/plain; version=0.0.4", metrics(serving)),
        Some("/") => Response::page("default-src 'none'; style-src 'unsafe-inline'", page(serving)),
        _ => Response::refusal(404, "the server has / and /metrics"),
    })
}

/// What there is, added up.
struct Sums {
    sessions: usize,
    playing: usize,
    buffered_bytes: u64,
    counts: Counts,
    connections: usize,
}

impl Sums {
    fn of(serving: &Serving) -> Self {
        let cameras = serving.cameras.as_ref();
        let (viewers, watching) = cameras.map_or((0, 0), |cameras| cameras.viewers());
        let mut counts = serving.sessions.counts();
        counts.add(cameras.map(|cameras| cameras.counts()).unwrap_or_default());
        Self {
            sessions: serving.sessions.len() + viewers,
            playing: serving.sessions.iter().filter(|session| session.is_playing()).count() + watching,
            buffered_bytes: serving.buffers.used_bytes(),
            counts,
            connections: serving.connections.len(),
        }
    }
}

fn metrics(serving: &Serving) -> String {
    let Sums { sessions, playing, buffered_bytes, counts, connections } = Sums::of(serving);
    let Tally { calls, messages, lost } = serving.transmitter.tally();
    let mut text = String::new();
    for (name, kind, help, value) in [
        ("connections", "gauge", "Connections of clients.", connections as f64),
        ("sessions", "gauge", "Sessions that are set up.", sessions as f64),
        ("sessions_playing", "gauge", "Sessions that are being sent.", playing as f64),
        ("buffer_bytes", "gauge", "Memory that buffers of sessions use.", buffered_bytes as f64),
        (
            "backlog_bytes",
            "gauge",
            "Bytes that wait for clients on TCP, outside the kernel.",
            serving.connections.backlog_bytes() as f64,
        ),
        ("packets_total", "counter", "RTP packets sent.", counts.packets as f64),
        ("bytes_total", "counter", "Bytes of RTP packets sent.", counts.bytes as f64),
        ("samples_dropped_total", "counter", "Samples left out for slow clients.", counts.dropped as f64),
        (
            "sound_dropped_total",
            "counter",
            "Samples of sound among those left out.",
            counts.dropped_sound as f64,
        ),
        (
            "samples_damaged_total",
            "counter",
            "Samples that could not be sent: damaged, or too long.",
            counts.damaged as f64,
        ),
        (
            "receptions_total",
            "counter",
            "Receiver reports of clients, by track.",
            serving.reports.count() as f64,
        ),
        ("stalls_total", "counter", "Times that a session had to wait for a buffer.", counts.stalls as f64),
        (
            "stalled_seconds_total",
            "counter",
            "Time that sessions waited for buffers.",
            counts.stalled_ns as f64 / SECOND,
        ),
        ("udp_calls_total", "counter", "System calls that sent packets over UDP.", calls as f64),
        ("udp_messages_total", "counter", "Messages that those calls sent.", messages as f64),
        ("udp_messages_lost_total", "counter", "Messages that the kernel refused.", lost as f64),
    ] {
        // Into memory, which does not fail.
        let _ = write!(
            text,
            "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}\nforebay_{name} {value}\n"
        );
    }
    write_receptions(serving, &mut text);
    write_lateness(serving.transmitter.lateness(), &mut text);
    text
}

/// What clients have said last, by quantiles of the tracks that they have said something of.
fn write_receptions(serving: &Serving, text: &mut String) {
    let all = || serving.sessions.iter().flat_map(|session| &session.receptions);
    for (name, help, mut values) in [
        (
            "lost_ratio",
            "Share of packets that did not arrive.",
            all().map(|one| one.lost).collect::<Vec<_>>(),
        ),
        ("jitter_seconds", "Interarrival jitter (RFC 3550).", all().map(|one| one.jitter_s).collect()),
        (
            "round_trip_seconds",
            "Time to a client and back.",
            all().filter_map(|one| one.round_trip_s).collect(),
        ),
    ] {
        values.sort_by(f64::total_cmp);
        let _ = write!(
            text,
            "# HELP forebay_reception_{name} {help} By clients' last reports.\n# TYPE forebay_reception_{name} gauge\n"
        );
        for quantile in [0.5, 0.99, 1.0] {
            let at = (values.len() as f64 * quantile).ceil() as usize;
            if let Some(value) = values.get(at.saturating_sub(1)) {
                let _ = writeln!(text, "forebay_reception_{name}{{quantile=\"{quantile}\"}} {value}");
            }
        }
    }
}

fn write_lateness(lateness: &Lateness, text: &mut String) {
    let name = "forebay_lateness_seconds";
    let _ = write!(
        text,
        "# HELP {name} Time from when a packet was due to when it was sent.\n# TYPE {name} histogram\n"
    );
    for (bound_ns, count) in lateness.cumulative() {
        let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", bound_ns as f64 / SECOND);
    }
    let count = lateness.count();
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = write!(text, "{name}_sum {}\n{name}_count {count}\n", lateness.sum_ns() as f64 / SECOND);
}

const STYLE: &str = "body{font:15px sans-serif;margin:2em}div{overflow-x:auto}table{border-collapse:collapse}\
     td,th{padding:2px 12px;text-align:right;white-space:nowrap}\
     td:first-child,th:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:12em}";

fn page(serving: &Serving) -> String {
    let Sums { sessions, playing, buffered_bytes, counts, connections } = Sums::of(serving);
    let lateness = serving.transmitter.lateness();
    let time = |ns: u64| quantity::seconds(ns as f64 / SECOND);
    let mut text = format!(
        "<!DOCTYPE html><meta charset=utf-8><meta http-equiv=refresh content=5>\
         <meta name=viewport content=\"width=device-width\"><title>forebay serve</title>\
         <style>{STYLE}</style><h1>forebay serve</h1>",
    );
    let _ = write!(
        text,
        "<p>{} connections, {} sessions, {} of them playing; {} in buffers.\
         <p>{} packets, {} sent; lateness {} in the median, {} in the 99th percentile; {} stalls; {} samples left out for slow \
         clients, {} of them of sound.\
         <div><table><tr><th>file<th>client<th>position<th>sent<th>buffers<th>stalls<th>left out<th>late<th>lost<th>jitter\
         <th>round trip",
        thousands(connections as u64),
        thousands(sessions as u64),
        thousands(playing as u64),
        bytes(buffered_bytes as f64),
        thousands(counts.packets),
        bytes(counts.bytes as f64),
        time(lateness.quantile_ns(0.5)),
        time(lateness.quantile_ns(0.99)),
        thousands(counts.stalls),
        thousands(counts.dropped),
        thousands(counts.dropped_sound),
    );
    let now_ns = clock::now_ns();
    for session in serving.sessions.iter().take(SHOWN_MAX) {
        let counts = session.stream.counts();
        let client = match session.transports.first() {
            Some((_, TrackTransport::Udp { rtcp, .. })) => format!("{} UDP", rtcp.ip()),
            Some((_, TrackTransport::Tcp { connection, .. })) => serving
                .connections
                .get(*connection)
                .map_or(String::new(), |one| format!("{} TCP", one.client.ip())),
            None => String::new(),
        };
        let position_ns = session.stream.position_ns(now_ns);
        let position =
            position_ns.map_or("stopped".to_owned(), |ns| clock_time(ns, session.opened.origin_ns));
        let _ = write!(
            text,
            "<tr><td>{}<td>{client}<td>{position}<td>{}<td>{} of {}, {}<td>{}<td>{} samples<td>{}{}",
            escaped(&session.opened.path),
            bytes(counts.bytes as f64),
            session.stream.level(),
            serving.settings.buffers,
            bytes(session.stream.memory_bytes() as f64),
            thousands(counts.stalls),
            thousands(counts.dropped),
            time(counts.late_ns_max),
            receptions(session),
        );
    }
    text += "</table></div>\n";
    if sessions > SHOWN_MAX {
        let _ =
            writeln!(text, "<p>{} more sessions are not shown.", thousands((sessions - SHOWN_MAX) as u64));
    }
    text
}

/// A position as players show it, `1:02:03.4`, from where the client's beginning is.
fn clock_time(position_ns: u64, origin_ns: u64) -> String {
    let tenths = position_ns.saturating_sub(origin_ns) / 100_000_000;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    format!("{}:{:02}:{:02}.{tenth}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The worst that a client has said last of the tracks of a session. What cannot be is not shown: clients may say anything.
fn receptions(session: &Session) -> String {
    let worst = |of: fn(&TrackReception) -> Option<f64>, most: f64| {
        session.receptions.iter().filter_map(of).filter(|value| (0.0..=most).contains(value)).reduce(f64::max)
    };
    let cell = |text: Option<String>| format!("<td>{}", text.unwrap_or_default());
    [
        cell(worst(|one| Some(one.lost), 1.0).map(quantity::percent)),
        cell(worst(|one| Some(one.jitter_s), RECEPTION_S_MAX).map(quantity::seconds)),
        cell(worst(|one| one.round_trip_s, RECEPTION_S_MAX).map(quantity::seconds)),
    ]
    .concat()
}

/// Names of files may have any signs.
fn escaped(name: &str) -> String {
    let name = name.replace(char::is_control, " ");
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
