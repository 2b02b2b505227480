//! The names that schema 1 gave to programs, disk profiles and metrics, and those of today.

use crate::{Report, Row};

/// Disk profiles, as parts of cases and as words of commands.
const PROFILES: [(&str, &str); 3] =
    [("cloud", "ssd-1ms-q128"), ("disk4", "raid-12ms-q4"), ("saturated", "hdd-1ms-q1")];

/// Programs of `forebay evaluate speculation`, as subjects and as words of commands.
const PROGRAMS: [(&str, &str); 3] = [("agrep", "grep"), ("gnuld", "ld"), ("xds", "random-reads")];

/// Metrics, whole or up to `/`.
const METRICS: [(&str, &str); 8] = [
    ("resyncs", "forks"),
    ("resync_time", "fork_time"),
    ("resync_crossings", "fork_crossings"),
    ("fabricated_values", "predicted_results"),
    ("extraneous_signals", "speculator_crashes"),
    ("footprint", "max_rss"),
    ("page_reclaims", "minor_faults"),
    ("page_faults", "major_faults"),
];

/// Members of a family of metrics, behind `/`.
const MEMBERS: [(&str, &str); 2] = [
    ("speculator_ends/unpretendable_call", "speculator_ends/call_not_emulated"),
    ("fork_crossings/futile", "fork_crossings/useless"),
];

/// What a metric of [`METRICS`] may have in front, and behind.
const PREFIXES: [&str; 2] = ["", "speculator_"];
const SUFFIXES: [&str; 3] = ["", "_per_request", "_per_megabyte"];

/// What the time of processes that share memory went to. The members of the family `time` are the parts of a whole.
const ACTIVITIES: [(&str, &str); 6] = [
    ("computing", "time/computing"),
    ("in_read_faults", "time/in_read_faults"),
    ("in_write_faults", "time/in_write_faults"),
    ("at_barriers", "time/at_barriers"),
    ("for_locks", "time/for_locks"),
    ("for_prefetches", "time/for_prefetches"),
];

/// Gives `report` the names of today. Its values stay as they were measured.
pub(crate) fn rename(report: &mut Report) {
    // Programs of other commands are named by those who ran them.
    let evaluated = report.command.starts_with("forebay evaluate ");
    for row in &mut report.rows {
        rename_row(row, evaluated);
    }
    if evaluated {
        report.command = command(&report.command);
    }
}

/// The command that makes the same rows today. `--svg` took a file, and no row depends on it.
fn command(line: &str) -> String {
    let mut words: Vec<&str> =
        line.split(' ').map(|word| replaced(&PROFILES, replaced(&PROGRAMS, word))).collect();
    if let Some(svg) = words.iter().position(|word| *word == "--svg") {
        words.drain(svg..words.len().min(svg + 2));
    }
    words.join(" ")
}

fn rename_row(row: &mut Row, evaluated: bool) {
    if evaluated {
        row.subject = replaced(&PROGRAMS, &row.subject).to_owned();
        let parts = row.case.split('/').map(|part| case_part(replaced(&PROFILES, part)));
        row.case = parts.collect::<Vec<_>>().join("/");
        row.metric = replaced(&ACTIVITIES, &row.metric).to_owned();
    }
    row.metric = metric(&row.metric);
}

/// What is shared, pages or minipages, is a part of a case of its own.
fn case_part(part: &str) -> String {
    let processes = part.strip_suffix(", pages").unwrap_or(part);
    match processes.ends_with(" process") || processes.ends_with(" processes") {
        true if processes == part => format!("{part}/minipages"),
        true => format!("{processes}/pages"),
        false => part.to_owned(),
    }
}

fn metric(name: &str) -> String {
    let (family, member) =
        name.split_once('/').map_or((name, None), |(family, member)| (family, Some(member)));
    let mut pairs = PREFIXES.iter().flat_map(|prefix| SUFFIXES.iter().map(move |suffix| (prefix, suffix)));
    let today = pairs.find_map(|(prefix, suffix)| {
        let middle = family.strip_prefix(prefix)?.strip_suffix(suffix)?;
        let (_, today) = METRICS.iter().find(|(old, _)| *old == middle)?;
        Some(format!("{prefix}{today}{suffix}"))
    });
    let family = today.unwrap_or_else(|| family.to_owned());
    let whole = member.map_or_else(|| family.clone(), |member| format!("{family}/{member}"));
    replaced(&MEMBERS, &whole).to_owned()
}

fn replaced<'a>(names: &[(&str, &'a str)], name: &'a str) -> &'a str {
    names.iter().find(|(old, _)| *old == name).map_or(name, |(_, today)| today)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(command: &str, subject: &str, case: &str, metric: &str) -> Report {
        Report::new("r", command, vec![Row::once(subject, case, metric, "1", 1.0)])
    }

    fn names(mut report: Report) -> [String; 4] {
        rename(&mut report);
        let row = report.rows.remove(0);
        [report.command, row.subject, row.case, row.metric]
    }

    #[test]
    fn programs_disks_and_metrics_of_an_evaluation_have_the_names_of_today() {
        let old = report(
            "forebay evaluate speculation --profile cloud --program gnuld --json a-cloud.json --svg a.svg",
            "gnuld",
            "cloud/forebay",
            "speculator_page_reclaims",
        );
        let today = [
            "forebay evaluate speculation --profile ssd-1ms-q128 --program ld --json a-cloud.json",
            "ld",
            "ssd-1ms-q128/forebay",
            "speculator_minor_faults",
        ];
        assert_eq!(names(old), today);
    }

    #[test]
    fn what_processes_share_is_a_part_of_the_case_and_their_times_are_a_family() {
        let old = |case| names(report("forebay evaluate millipage --figure 6", "lu", case, "for_locks"));
        assert_eq!(old("shm/2 processes, pages")[2..], ["shm/2 processes/pages", "time/for_locks"]);
        assert_eq!(old("shm/1 process")[2..], ["shm/1 process/minipages", "time/for_locks"]);
        assert_eq!(old("two sequential")[2], "two sequential");
    }

    #[test]
    fn a_program_that_is_called_like_one_of_the_evaluation_keeps_its_name() {
        let names = names(report("forebay run --json - -- agrep cloud", "agrep", "cloud", "resyncs"));
        assert_eq!(names, ["forebay run --json - -- agrep cloud", "agrep", "cloud", "forks"]);
    }

    #[test]
    fn metrics_are_renamed_whole_and_the_others_stay() {
        for (old, today) in [
            ("resync_time", "fork_time"),
            ("resync_crossings/futile", "fork_crossings/useless"),
            ("resync_crossings/less_than_it_costs", "fork_crossings/less_than_it_costs"),
            ("speculator_ends/unpretendable_call", "speculator_ends/call_not_emulated"),
            ("speculator_footprint", "speculator_max_rss"),
            ("page_faults_per_request", "major_faults_per_request"),
            ("share_of_footprint", "share_of_footprint"),
            ("stall_time", "stall_time"),
        ] {
            assert_eq!(metric(old), today);
        }
    }
}
