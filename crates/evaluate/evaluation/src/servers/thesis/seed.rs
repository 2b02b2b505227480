//! What was published, beside what was measured.
//!
//! The source is G. Y. Isa, *Memory Performance Evaluation of High Throughput Servers*, thesis, 2003: a Pentium 4 at 2.0 GHz with 256 MB,
//! and a network of 1 Gbit/s. Its absolute figures are of that machine; ratios and shapes are what can be compared.

use forebay_quantity::{number, percent};
use forebay_results::Row;

use crate::harness::table::render_named_by;

/// A line: what it is about, what was published, and what the rows say.
type Line = (&'static str, &'static str, fn(&Rows<'_>) -> Option<String>);

const LINES: [Line; 22] = [
    ("model: forwarding, Pentium 4", "4,264", |rows| rows.model("ip-forwarding", "Pentium 4 3.06 GHz")),
    ("model: HTTP, Pentium 4", "3,640", |rows| rows.model("http", "Pentium 4 3.06 GHz")),
    ("model: RTP, Athlon XP", "3,291", |rows| rows.model("rtp-streaming", "Athlon XP 3000")),
    ("model: RTP, UltraSPARC III", "1,862", |rows| rows.model("rtp-streaming", "UltraSPARC III 900 MHz")),
    ("overhead, MR 1, MP 10", "11", |rows| rows.exact("cache", "worst", "cache_overhead")),
    ("overhead, MR 0.1, MP 10", "2", |rows| rows.exact("cache", "average", "cache_overhead")),
    ("miss ratio, 2 B of 32 B", "0.0625", |rows| rows.exact("cache", "2 B of 32 B", "miss_ratio")),
    ("web, Apache: requests/s", "2,586", |rows| rows.most("apache", NEW, "transactions")),
    ("web, Apache: Mbit/s", "217", |rows| rows.most("apache", NEW, "throughput")),
    ("web, Apache: processor", "71 %", |rows| rows.most_percent("apache", NEW, "cpu")),
    ("web, other over Apache", "IIS 1.6x", |rows| {
        rows.times("transactions", NEW).map(|ratio| format!("nginx {ratio}"))
    }),
    ("web: major faults/s", "< 10", |rows| rows.most("", " connections", "major_faults")),
    ("L1 misses, Apache over other", "2.1x IIS", |rows| rows.misses("cache_misses_per_request")),
    ("L2 misses, Apache over other", "14.3x IIS", |rows| rows.misses("memory_loads_per_request")),
    ("web: kernel's share of time", "counted", |rows| rows.range_percent("nginx", "kernel_share")),
    ("streams: most L1 misses/s", "many, 300k, many", |rows| rows.worst_streams()),
    ("router: most Mbit/s", "449, full duplex", |rows| rows.best("throughput")),
    ("router: processor", "84 %", |rows| rows.most_percent("forwarding", "", "cpu")),
    ("router: switches/s", "5,378", |rows| rows.most("forwarding", "", "context_switches")),
    ("router: active pages", "uniform", |rows| rows.uniform("active_pages")),
    ("faults/s, one medium", "constant", |rows| rows.growth(false)),
    ("faults/s, a medium each", "rise with clients", |rows| rows.growth(true)),
];

/// Cases of connections that serve one request.
const NEW: &str = "/new connections";

/// All that was measured.
struct Rows<'a>(&'a [&'a Row]);

/// The table for people: no wider than 80 columns.
pub(super) fn table(rows: &[&Row]) -> String {
    let rows = Rows(rows);
    let known = |(what, seed, here): &Line| {
        vec![(*what).to_owned(), (*seed).to_owned(), here(&rows).unwrap_or_else(|| "-".into())]
    };
    render_named_by(2, &["thesis of 2003", "seed", "here"], LINES.iter().map(known))
}

impl Rows<'_> {
    fn of<'a>(&'a self, subject: &'a str, ending: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Row> {
        // No subject is any.
        let is_of = move |row: &Row| subject.is_empty() || row.subject == subject;
        self.0
            .iter()
            .copied()
            .filter(move |row| row.metric == metric && is_of(row) && row.case.ends_with(ending))
    }

    fn exact(&self, subject: &str, case: &str, metric: &str) -> Option<String> {
        self.of(subject, case, metric).next().map(|row| format!("{}", (row.value * 1e4).round() / 1e4))
    }

    fn model(&self, application: &str, processor: &str) -> Option<String> {
        let case = format!("{processor}/model");
        self.of(application, &case, "throughput").next().map(|row| number(row.value.round()))
    }

    fn largest<'a>(&'a self, subject: &'a str, ending: &'a str, metric: &'a str) -> Option<&'a Row> {
        self.of(subject, ending, metric).max_by(|one, other| one.value.total_cmp(&other.value))
    }

    fn most(&self, subject: &str, ending: &str, metric: &str) -> Option<String> {
        self.largest(subject, ending, metric).map(|row| number(row.value))
    }

    fn most_percent(&self, subject: &str, ending: &str, metric: &str) -> Option<String> {
        self.largest(subject, ending, metric).map(|row| percent((row.value / 100.0).min(1.0)))
    }

    /// How many times as much nginx reaches as Apache.
    fn times(&self, metric: &str, ending: &str) -> Option<String> {
        let most = |subject| self.largest(subject, ending, metric).map(|row| row.value);
        Some(format!("{:.1}x", most("nginx")? / most("apache")?))
    }

    /// How many times as much Apache misses as nginx.
    fn misses(&self, metric: &str) -> Option<String> {
        let of = |subject| self.of(subject, "", metric).next().map(|row| row.value);
        let ratio = of("apache")? / of("nginx").filter(|misses| *misses > 0.0)?;
        Some(format!("{ratio:.1}x nginx"))
    }

    fn range_percent(&self, subject: &str, metric: &str) -> Option<String> {
        let values = || self.of(subject, "", metric).map(|row| row.value / 100.0);
        Some(format!("{} to {}", percent(values().reduce(f64::min)?), percent(values().reduce(f64::max)?)))
    }

    /// The condition of the router that forwards most, with how much.
    fn best(&self, metric: &str) -> Option<String> {
        let row = self.largest("forwarding", "", metric)?;
        let layout = row.case.split('/').next()?;
        Some(format!("{}, {layout}", number(row.value)))
    }

    /// How far values are apart, as a share of the largest.
    fn uniform(&self, metric: &str) -> Option<String> {
        let values = || self.of("forwarding", "", metric).map(|row| row.value);
        let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        Some(format!("within {}", percent((most - least) / most)))
    }

    /// The condition of streams with most misses in a second: clients, rate, media.
    fn worst_streams(&self) -> Option<String> {
        let misses = self.of("gstreamer", "", "cache_misses_per_request");
        let in_a_second = misses.filter_map(|row| {
            let packets =
                self.of("gstreamer", &row.case, "transactions").find(|other| other.case == row.case)?;
            Some((row.value * packets.value, &row.case))
        });
        let (_, case) = in_a_second.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let (rate, media, clients) = levels(case)?;
        Some(format!("{clients}, {rate}k, {media}"))
    }

    /// Page faults that wait for a disk at the fewest and the most clients, of many media or of one, with the least memory.
    fn growth(&self, of_many: bool) -> Option<String> {
        let little = self.of("forebay", " MiB", "major_faults").filter_map(|row| {
            let memory = row.case.rsplit("memory ").next()?.strip_suffix(" MiB")?.parse::<u64>().ok()?;
            Some((memory, levels(&row.case)?, row.value))
        });
        let all: Vec<_> = little.collect();
        let several = |memory: u64| {
            let mut clients: Vec<u32> = all.iter().filter(|one| one.0 == memory).map(|one| one.1.2).collect();
            clients.sort_unstable();
            clients.dedup();
            clients.len() > 1
        };
        let least = all.iter().map(|one| one.0).filter(|memory| several(*memory)).min()?;
        let media = if of_many { all.iter().map(|one| one.1.1).max()? } else { 1 };
        let own = all.iter().filter(|(memory, (_, of, _), _)| *memory == least && *of == media);
        let mut by_clients: Vec<(u32, f64)> =
            own.map(|(_, (_, _, clients), faults)| (*clients, *faults)).collect();
        by_clients.sort_by_key(|one| one.0);
        Some(format!("{} to {}", number(by_clients.first()?.1), number(by_clients.last()?.1)))
    }
}

/// Kilobits a second, media and clients of `300 kbit/s/16 media/4 clients`, with or without a memory behind it.
fn levels(case: &str) -> Option<(u32, u32, u32)> {
    let mut parts = case.split('/');
    let rate = parts.next()?.strip_suffix(" kbit")?.parse().ok()?;
    parts.next().filter(|unit| *unit == "s")?;
    let media = parts.next()?.strip_suffix(" media")?.parse().ok()?;
    let clients = parts.next()?.strip_suffix(" clients")?.parse().ok()?;
    Some((rate, media, clients))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(rows: &[Row]) -> String {
        table(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn without_anything_measured_every_line_is_there_and_none_is_wider_than_80_columns() {
        let table = table_of(&[]);
        assert_eq!(table.lines().count(), LINES.len() + 2, "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn what_was_measured_stands_beside_what_was_published() {
        let web = |subject: &str, metric: &str, value| {
            Row::once(subject, "10 KiB/16 clients/new connections", metric, "1/s", value)
        };
        let streams = |media: u32, clients: u32, memory: &str, metric: &str, value| {
            let case = format!("300 kbit/s/{media} media/{clients} clients{memory}");
            let subject = if memory.is_empty() { "gstreamer" } else { "forebay" };
            Row::once(subject, case, metric, "1/s", value)
        };
        let rows = [
            web("apache", "transactions", 5000.0),
            web("nginx", "transactions", 11_000.0),
            web("apache", "cpu", 62.0),
            Row::once("forwarding", "full duplex/64 KiB", "throughput", "Mbit/s", 9000.0),
            Row::once("forwarding", "one to one/64 KiB", "throughput", "Mbit/s", 5000.0),
            Row::once("ip-forwarding", "UltraSPARC III 900 MHz/model", "throughput", "Mbit/s", 10_000.0),
            streams(1, 2, "", "cache_misses_per_request", 10.0),
            streams(1, 2, "", "transactions", 80.0),
            streams(16, 16, "", "cache_misses_per_request", 11.0),
            streams(16, 16, "", "transactions", 640.0),
            streams(1, 4, "/memory 20 MiB", "major_faults", 1.0),
            streams(1, 64, "/memory 20 MiB", "major_faults", 1.0),
            streams(64, 4, "/memory 20 MiB", "major_faults", 2.0),
            streams(64, 64, "/memory 20 MiB", "major_faults", 500.0),
            // A single condition tells no growth.
            streams(64, 64, "/memory 10 MiB", "major_faults", 900.0),
        ];
        let table = table_of(&rows);
        for cell in ["nginx 2.2x", "62 % |", "9,000, full duplex", "16, 300k, 16", "1 to 1 |", "2 to 500 |"] {
            assert!(table.contains(cell), "{cell}:\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn conditions_of_streams_are_read() {
        assert_eq!(levels("300 kbit/s/16 media/4 clients"), Some((300, 16, 4)));
        assert_eq!(levels("56 kbit/s/1 media/64 clients/memory 20 MiB"), Some((56, 1, 64)));
        assert_eq!(levels("10 KiB/4 clients"), None);
    }
}
