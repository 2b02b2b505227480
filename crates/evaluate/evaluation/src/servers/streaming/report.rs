//! Tables and rows of what was measured.

use forebay_results::{Row, Spread};
use forebay_stream_clients::Quantiles;

use super::ceilings::Ceilings;
use super::media::Container;
use super::trial::{Run, disk_name};
use super::{Cell, Files, Films, Outcome, Subject, Transport};
use crate::harness::table::{percent_or_dash, render};
use forebay_quantity::{bytes, seconds};

impl Outcome {
    /// What servers delivered, what that cost, and what could be had at best.
    #[must_use]
    pub fn table(&self) -> String {
        let mut tables = vec![self.setting(), self.delivered()];
        tables.extend(self.tracks());
        tables.extend([self.costs(), self.best()]);
        tables.extend(self.predictions());
        tables.extend(self.remarks());
        tables.join("\n\n")
    }

    /// One row for each quantity of each combination.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.cells.iter().flat_map(|cell| self.rows_of(cell)).collect();
        rows.extend(self.predicted_rows());
        for (rate, measured) in &self.ceilings {
            for (metric, unit, value) in CEILINGS {
                let values: Vec<f64> = measured.iter().map(value).collect();
                let case = self::rate(*rate);
                rows.extend(
                    Spread::of(&values).map(|spread| Row::of("ceiling", case, *metric, *unit, spread)),
                );
            }
        }
        rows
    }

    fn rows_of(&self, cell: &Cell) -> Vec<Row> {
        let (subject, case) = (cell.subject.to_string(), self.case(cell));
        let mut rows = Vec::new();
        let held: Vec<f64> = cell.held.iter().map(|clients| f64::from(*clients)).collect();
        rows.extend(Spread::of(&held).map(|spread| Row::of(&subject, &case, "clients_held", "1", spread)));
        for (metric, unit, value) in FIGURES {
            let values: Vec<f64> = cell.runs.iter().filter_map(value).collect();
            let row = |spread| Row::of(&subject, &case, *metric, *unit, spread);
            rows.extend(Spread::of(&values).map(row));
        }
        for (metric, share) in self.shares(cell) {
            rows.extend(share.map(|spread| Row::of(&subject, &case, metric, "1", spread)));
        }
        let of_sendfile = self.of_sendfile(cell);
        rows.extend(of_sendfile.map(|spread| Row::of(&subject, &case, "cpu_of_sendfile", "1", spread)));
        let beyond = self.beyond_timer(cell);
        rows.extend(beyond.map(|spread| Row::of(&subject, &case, "lateness_p99_beyond_timer", "s", spread)));
        rows
    }

    /// The condition, in parts between slashes.
    pub(super) fn case(&self, cell: &Cell) -> String {
        let options = &self.options;
        let files = match (options.films, options.files) {
            (Films::Made, Files::One) => "one file",
            (Films::Made, Files::Many) => "many files",
            (Films::Real, Files::One) => "one real film",
            (Films::Real, Files::Many) => "many real films",
        };
        let link = options.link.map(|factor| format!("/link {factor}"));
        let memory = options.memory_bytes.map(|bytes| format!("/memory {} MiB", bytes >> 20));
        let clients = cell.clients.map(|clients| format!("/{clients} clients"));
        let disturbance = cell.disturbance.map(|disturbance| format!("/{disturbance}"));
        format!(
            "{}/{}/{files}/{}{}{}{}{}",
            rate(cell.rate),
            cell.transport,
            disk_name(options.disk),
            link.unwrap_or_default(),
            memory.unwrap_or_default(),
            clients.unwrap_or_default(),
            disturbance.unwrap_or_default()
        )
    }

    fn setting(&self) -> String {
        let options = &self.options;
        let tolerance = seconds(options.late_s);
        let rates: Vec<_> = self.real_rates.values().map(|bits| rate(*bits as u64)).collect();
        format!(
            "Watched for {} after {}; really {} with all that is in the files. A stream is late if one packet in a hundred is lost or \
             comes {tolerance} after it was due, or if nothing comes any more.",
            seconds(options.seconds),
            seconds(options.warm_up),
            rates.join(", ")
        )
    }

    fn delivered(&self) -> String {
        let header = [
            "server, load",
            "clients",
            "Mbit/s",
            "of sendmmsg, TCP",
            "of GSO, frames",
            "of GSO, 64",
            "late streams",
            "lost",
            "late p50",
            "late p99",
            "beyond timer",
            "jitter p50",
            "jitter p99",
            "frames' p99",
            "start p99",
        ];
        let rows = self.cells.iter().map(|cell| {
            let run = |value: fn(&Run) -> f64| median(cell, |run| Some(value(run)));
            let time = |value: fn(&Run) -> f64| run(value).map_or_else(dash, seconds);
            let shares =
                self.shares(cell).map(|(_, spread)| percent_or_dash(spread.map(|spread| spread.median)));
            let [first, second, third] = shares;
            vec![
                format!("{}, {}", cell.subject, self.case(cell)),
                clients(cell),
                run(|run| run.bits_per_second() / 1e6).map_or_else(dash, |megabits| format!("{megabits:.1}")),
                first,
                second,
                third,
                run(|run| run.seen.late_streams.into()).map_or_else(dash, |late| format!("{late:.0}")),
                run(|run| run.seen.lost as f64).map_or_else(dash, |lost| format!("{lost:.0}")),
                time(|run| run.seen.lateness.p50),
                time(|run| run.seen.lateness.p99),
                self.beyond_timer(cell).map_or_else(dash, |beyond| signed(beyond.median)),
                time(|run| run.seen.jitter.p50),
                time(|run| run.seen.jitter.p99),
                time(|run| run.seen.frame_jitter.p99),
                time(|run| run.seen.start.p99),
            ]
        });
        render(&header, rows)
    }

    /// What came of pictures and of sound, where that is worth a table.
    fn tracks(&self) -> Option<String> {
        if self.options.films == Films::Made && self.options.link.is_none() {
            return None;
        }
        let header = [
            "server, load",
            "whole pictures",
            "pictures late p50",
            "pictures late p99",
            "sound late p50",
            "sound late p99",
            "lost on the link",
        ];
        let rows = self.cells.iter().map(|cell| {
            let time = |value: fn(&Run) -> Option<f64>| median(cell, value).map_or_else(dash, seconds);
            vec![
                format!("{}, {}", cell.subject, self.case(cell)),
                percent_or_dash(median(cell, whole_pictures)),
                time(|run| of(&run.seen.picture_lateness, |lateness| lateness.p50)),
                time(|run| of(&run.seen.picture_lateness, |lateness| lateness.p99)),
                time(|run| of(&run.seen.sound_lateness, |lateness| lateness.p50)),
                time(|run| of(&run.seen.sound_lateness, |lateness| lateness.p99)),
                median(cell, |run| run.seen.lost_on_link.map(|lost| lost as f64))
                    .map_or_else(dash, |lost| format!("{lost:.0}")),
            ]
        });
        Some(render(&header, rows))
    }

    fn costs(&self) -> String {
        let header = [
            "server, load",
            "clients",
            "processor",
            "s/Gbit",
            "of sendfile",
            "RSS",
            "PSS",
            "read",
            "players' processor",
        ];
        let rows = self.cells.iter().map(|cell| {
            let size = |value: fn(&Run) -> Option<f64>| median(cell, value).map_or_else(dash, bytes);
            vec![
                format!("{}, {}", cell.subject, self.case(cell)),
                clients(cell),
                percent_or_dash(median(cell, processor_share)),
                median(cell, seconds_per_gigabit).map_or_else(dash, |seconds| format!("{seconds:.3}")),
                self.of_sendfile(cell).map_or_else(dash, |times| format!("{:.2}", times.median)),
                size(|run| run.resident_bytes),
                size(|run| run.proportional_bytes),
                size(|run| run.disk_read_bytes),
                percent_or_dash(median(cell, |run| Some(run.seen.ran_s / run.seen.seconds))),
            ]
        });
        render(&header, rows)
    }

    fn best(&self) -> String {
        let header = [
            "streams of",
            "receivers",
            "sendmmsg",
            "GSO, frames",
            "GSO, 64 packets",
            "TCP, frames",
            "sendfile, s/Gbit",
            "timer late p50",
            "timer late p99",
        ];
        let rows = self.ceilings.iter().map(|(rate, measured)| {
            let of = |value: fn(&Ceilings) -> f64| {
                Spread::of(&measured.iter().map(value).collect::<Vec<_>>()).map(|spread| spread.median)
            };
            let bits = |value: fn(&Ceilings) -> f64| {
                of(value).map_or_else(dash, |bits| format!("{:.2} Gbit/s", bits / 1e9))
            };
            let time = |value: fn(&Ceilings) -> f64| of(value).map_or_else(dash, seconds);
            vec![
                self::rate(*rate),
                of(|best| best.receivers.into()).map_or_else(dash, |count| format!("{count:.0}")),
                bits(|best| best.sendmmsg),
                bits(|best| best.frames),
                bits(|best| best.segmented),
                bits(|best| best.tcp),
                of(|best| best.sendfile).map_or_else(dash, |seconds| format!("{seconds:.3}")),
                time(|best| best.timer_p50),
                time(|best| best.timer_p99),
            ]
        });
        render(&header, rows)
    }

    /// What a reader must not overlook.
    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.options.subjects.iter().filter_map(|it| self.unread(*it)).collect();
        for cell in &self.cells {
            let name = format!("{}, {}", cell.subject, self.case(cell));
            let most = |value: fn(&Run) -> f64| cell.runs.iter().map(value).fold(0.0, f64::max);
            let busy = most(|run| run.seen.ran_s / run.seen.seconds);
            if busy > PLAYERS_BUSY {
                remarks.push(format!("{name}: the players took {:.0} % of their processor.", busy * 100.0));
            }
            let dropped = most(|run| run.seen.dropped_here as f64);
            if dropped > 0.0 {
                remarks.push(format!(
                    "{name}: {dropped:.0} packets found a socket full, which is not the server's fault."
                ));
            }
            if let Some(disturbance) = cell.disturbance
                && let Some(count) = median(cell, |run| run.disturbers.map(|count| count as f64))
            {
                remarks.push(format!("{name}: {count:.0} others disturbed ({disturbance})."));
            }
            let set_back = most(|run| run.seen.clock_set_back_s_max);
            if set_back > SET_BACK_S {
                remarks.push(format!("{name}: some lateness is up to {} more.", seconds(set_back)));
            }
            remarks.extend(cell.trouble.as_ref().map(|trouble| format!("{name}: {trouble}.")));
            if let Some(why) = cell.runs.iter().find_map(|run| run.seen.first_failure.as_ref()) {
                let failed = most(|run| run.seen.failed.into());
                remarks.push(format!("{name}: {failed:.0} players failed, the first because {why}."));
            }
        }
        remarks
    }

    /// What a server does not read of the files that others have.
    fn unread(&self, subject: Subject) -> Option<String> {
        let reads = subject.containers(self.options.films);
        let unread = Container::ALL.into_iter().filter(|container| !reads.contains(container));
        let unread: Vec<_> = unread.map(Container::extension).collect();
        (self.options.films == Films::Real && !unread.is_empty()).then(|| {
            format!("{subject} does not read {}: its clients play the other films.", unread.join(", "))
        })
    }

    /// Throughput as shares of what could be had at best, in the same round.
    fn shares(&self, cell: &Cell) -> [(&'static str, Option<Spread>); 3] {
        let of = |ceiling: fn(&Ceilings) -> f64| {
            let rounds = self.ceilings.get(&cell.rate)?.iter();
            let shares =
                cell.runs.iter().zip(rounds).map(|(run, best)| run.bits_per_second() / ceiling(best));
            Spread::of(&shares.collect::<Vec<_>>())
        };
        let is_udp = cell.transport == Transport::Udp;
        let of_datagrams = |ceiling| if is_udp { of(ceiling) } else { None };
        let first: (_, fn(&Ceilings) -> f64) = match cell.transport {
            Transport::Udp => ("share_of_sendmmsg", |best| best.sendmmsg),
            Transport::Tcp => ("share_of_tcp", |best| best.tcp),
        };
        [
            (first.0, of(first.1)),
            ("share_of_segmented_frames", of_datagrams(|best| best.frames)),
            ("share_of_segmented", of_datagrams(|best| best.segmented)),
        ]
    }

    /// Processor time over TCP, in times of what frames take that are sent by `sendfile` alone, in the same round.
    fn of_sendfile(&self, cell: &Cell) -> Option<Spread> {
        let rounds = self.ceilings.get(&cell.rate).filter(|_| cell.transport == Transport::Tcp)?.iter();
        let times = cell.runs.iter().zip(rounds);
        let times = times.filter_map(|(run, best)| Some(seconds_per_gigabit(run)? / best.sendfile));
        Spread::of(&times.collect::<Vec<_>>())
    }

    /// What the 99th of a hundred frames is later than a timer of an idle processor, in the same round.
    fn beyond_timer(&self, cell: &Cell) -> Option<Spread> {
        let rounds = self.ceilings.get(&cell.rate)?.iter();
        let beyond = cell.runs.iter().zip(rounds).map(|(run, best)| run.seen.lateness.p99 - best.timer_p99);
        Spread::of(&beyond.collect::<Vec<_>>())
    }
}

/// Players that take more of their processor may be what is measured.
const PLAYERS_BUSY: f64 = 0.85;
/// More than this is worth a word.
const SET_BACK_S: f64 = 0.001;

/// A metric, its unit, and how a run has it.
type Figure = (&'static str, &'static str, fn(&Run) -> Option<f64>);

const FIGURES: &[Figure] = &[
    ("playing", "1", |run| Some(run.seen.playing.into())),
    ("failed", "1", |run| Some(run.seen.failed.into())),
    ("throughput", "Mbit/s", |run| Some(run.bits_per_second() / 1e6)),
    ("packets", "1/s", |run| Some(run.seen.packets as f64 / run.seen.seconds)),
    ("late_streams", "1", |run| Some(run.seen.late_streams.into())),
    ("lost", "1", |run| Some(run.seen.lost as f64)),
    ("late", "1", |run| Some(run.seen.late as f64)),
    ("duplicates", "1", |run| Some(run.seen.duplicates as f64)),
    ("out_of_order", "1", |run| Some(run.seen.overtaken as f64)),
    ("lateness_p50", "s", |run| Some(run.seen.lateness.p50)),
    ("lateness_p99", "s", |run| Some(run.seen.lateness.p99)),
    ("lateness_p999", "s", |run| Some(run.seen.lateness.p999)),
    ("lateness_max", "s", |run| Some(run.seen.lateness.max)),
    ("picture_lateness_p50", "s", |run| of(&run.seen.picture_lateness, |lateness| lateness.p50)),
    ("picture_lateness_p99", "s", |run| of(&run.seen.picture_lateness, |lateness| lateness.p99)),
    ("picture_lateness_max", "s", |run| of(&run.seen.picture_lateness, |lateness| lateness.max)),
    ("sound_lateness_p50", "s", |run| of(&run.seen.sound_lateness, |lateness| lateness.p50)),
    ("sound_lateness_p99", "s", |run| of(&run.seen.sound_lateness, |lateness| lateness.p99)),
    ("sound_lateness_max", "s", |run| of(&run.seen.sound_lateness, |lateness| lateness.max)),
    ("pictures", "1", |run| Some(run.seen.pictures as f64)),
    ("whole_pictures", "1", |run| Some(run.seen.whole_pictures as f64)),
    ("lost_on_link", "1", |run| run.seen.lost_on_link.map(|lost| lost as f64)),
    ("jitter_p50", "s", |run| Some(run.seen.jitter.p50)),
    ("jitter_p99", "s", |run| Some(run.seen.jitter.p99)),
    ("frame_jitter_p50", "s", |run| Some(run.seen.frame_jitter.p50)),
    ("frame_jitter_p99", "s", |run| Some(run.seen.frame_jitter.p99)),
    ("start_p50", "s", |run| Some(run.seen.start.p50)),
    ("start_p99", "s", |run| Some(run.seen.start.p99)),
    ("seeks", "1", |run| Some(run.seen.seeks as f64)),
    ("cpu", "%", |run| processor_share(run).map(|share| share * 100.0)),
    ("cpu_per_gigabit", "s", seconds_per_gigabit),
    ("resident", "B", |run| run.resident_bytes),
    ("proportional", "B", |run| run.proportional_bytes),
    ("disk_read", "B", |run| run.disk_read_bytes),
    ("players_cpu", "%", |run| Some(run.seen.ran_s / run.seen.seconds * 100.0)),
    ("disturbers", "1", |run| run.disturbers.map(|count| count as f64)),
    ("dropped_at_players", "1", |run| Some(run.seen.dropped_here as f64)),
];

/// A ceiling, its unit, and where it is.
type Best = (&'static str, &'static str, fn(&Ceilings) -> f64);

const CEILINGS: &[Best] = &[
    ("receivers", "1", |best| best.receivers.into()),
    ("sendmmsg", "Mbit/s", |best| best.sendmmsg / 1e6),
    ("segmented_frames", "Mbit/s", |best| best.frames / 1e6),
    ("segmented", "Mbit/s", |best| best.segmented / 1e6),
    ("tcp", "Mbit/s", |best| best.tcp / 1e6),
    ("sendfile_cpu_per_gigabit", "s", |best| best.sendfile),
    ("timer_lateness_p50", "s", |best| best.timer_p50),
    ("timer_lateness_p99", "s", |best| best.timer_p99),
];

/// Of a distribution that has samples.
fn of(quantiles: &Quantiles, value: fn(&Quantiles) -> f64) -> Option<f64> {
    (quantiles.samples > 0).then(|| value(quantiles))
}

/// As a share of those that were to come.
fn whole_pictures(run: &Run) -> Option<f64> {
    (run.seen.pictures > 0).then(|| run.seen.whole_pictures as f64 / run.seen.pictures as f64)
}

fn processor_share(run: &Run) -> Option<f64> {
    Some(run.processor_s? / run.seen.seconds)
}

fn seconds_per_gigabit(run: &Run) -> Option<f64> {
    let gigabits = run.seen.bytes as f64 * 8.0 / 1e9;
    (gigabits > 0.0).then(|| run.processor_s.map(|seconds| seconds / gigabits)).flatten()
}

fn median(cell: &Cell, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    forebay_results::median(&cell.runs.iter().filter_map(value).collect::<Vec<_>>())
}

fn clients(cell: &Cell) -> String {
    let held: Vec<f64> = cell.held.iter().map(|clients| f64::from(*clients)).collect();
    match (cell.clients, Spread::of(&held)) {
        (Some(_), _) => {
            median(cell, |run| Some(run.seen.playing.into())).map_or_else(dash, |n| format!("{n:.0}"))
        }
        (None, Some(held)) => format!("{:.0} ({:.0} - {:.0})", held.median, held.min, held.max),
        (None, None) => dash(),
    }
}

/// A rate as people say it.
pub(super) fn rate(bits_per_second: u64) -> String {
    match bits_per_second as f64 {
        bits if bits < 999_500.0 => format!("{:.0} kbit/s", bits / 1e3),
        bits if bits.rem_euclid(1e6) < 500.0 => format!("{:.0} Mbit/s", bits / 1e6),
        bits => format!("{:.2} Mbit/s", bits / 1e6),
    }
}

/// A time that may be less than none.
fn signed(value: f64) -> String {
    if value < 0.0 { format!("-{}", seconds(-value)) } else { seconds(value) }
}

fn dash() -> String {
    "-".into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forebay_stream_clients::Outcome as Seen;

    use super::super::{Disk, Options};
    use super::*;

    fn outcome() -> Outcome {
        let lateness = Quantiles { p50: 0.001, p99: 0.004, ..Quantiles::default() };
        let seen =
            Seen { seconds: 10.0, playing: 500, bytes: 250_000_000, lateness, ran_s: 9.0, ..Seen::default() };
        let run = Run {
            seen,
            processor_s: Some(4.0),
            switches: None,
            minor_faults: None,
            resident_bytes: Some(1e8),
            proportional_bytes: None,
            disk_read_bytes: Some(0.0),
            disturbers: None,
        };
        let cell = Cell {
            subject: Subject::Forebay { buffers: 2 },
            rate: 4_000_000,
            transport: Transport::Udp,
            clients: Some(500),
            disturbance: None,
            runs: vec![run],
            held: vec![],
            trouble: None,
        };
        let best = Ceilings {
            sendmmsg: 250e6,
            segmented: 1e9,
            sendfile: 0.25,
            timer_p99: 0.001,
            ..Ceilings::default()
        };
        let options = Options {
            program: "forebay".into(),
            subjects: vec![cell.subject],
            rates: vec![4_000_000],
            transports: vec![Transport::Udp],
            clients: vec![500],
            films: Films::Made,
            files: Files::Many,
            disk: Disk::Cached,
            memory_bytes: Some(256 << 20),
            search: false,
            seconds: 10.0,
            warm_up: 3.0,
            runs: 1,
            disturbances: vec![],
            link: None,
            late_s: 0.1,
            seek_every_s: None,
            stay_s: None,
            host: None,
        };
        Outcome {
            options,
            cells: vec![cell],
            ceilings: BTreeMap::from([(4_000_000, vec![best])]),
            real_rates: BTreeMap::from([(4_000_000, 4_015_000.0)]),
            costs: None,
            stopped: None,
        }
    }

    #[test]
    fn throughput_is_a_share_of_the_ceiling_of_its_round() {
        let outcome = outcome();
        let value = |metric: &str| outcome.rows().into_iter().find(|row| row.metric == metric).unwrap().value;
        assert_eq!(
            (value("throughput"), value("share_of_sendmmsg"), value("share_of_segmented")),
            (200.0, 0.8, 0.2)
        );
        assert_eq!((value("cpu"), value("cpu_per_gigabit")), (40.0, 2.0));
        assert!((value("lateness_p99_beyond_timer") - 0.003).abs() < 1e-9);
        let row = &outcome.rows()[0];
        assert_eq!(row.case, "4 Mbit/s/udp/many files/cached/memory 256 MiB/500 clients");
        assert_eq!(row.subject, "forebay, 2 buffers");
    }

    #[test]
    fn processor_time_over_tcp_is_told_in_times_of_that_of_sendfile() {
        let mut outcome = outcome();
        let has = |outcome: &Outcome| outcome.rows().into_iter().find(|row| row.metric == "cpu_of_sendfile");
        assert!(has(&outcome).is_none(), "over UDP nothing is sent by sendfile");
        outcome.cells[0].transport = Transport::Tcp;
        assert_eq!(has(&outcome).unwrap().value, 8.0);
    }

    #[test]
    fn the_table_tells_when_the_players_may_be_what_is_measured() {
        let table = outcome().table();
        assert!(table.contains("players took 90 % of their processor"), "{table}");
        assert!(table.contains("really 4.01 Mbit/s") || table.contains("really 4.02 Mbit/s"), "{table}");
    }

    #[test]
    fn rates_are_said_with_their_unit() {
        let said = [56_000, 300_000, 4_000_000, 4_015_000].map(rate);
        assert_eq!(said, ["56 kbit/s", "300 kbit/s", "4 Mbit/s", "4.01 Mbit/s"]);
        assert_eq!([signed(-0.003_152), signed(0.000_1)], ["-3.15 ms", "100 us"]);
    }
}
