//! What experiments are called, in words: by their command, what tells it from others, or else what was measured.

use crate::{question::Entry, summary::list};

/// Words of a command in order, what it is about, and what is done.
const KNOWN: [(&str, &str, &str); 25] = [
    (
        "evaluate corpus --second-run",
        "Real programs that run again, with forebay run",
        "Real command lines run alone and with forebay, which has recorded one run before. All files are cold.",
    ),
    (
        "evaluate corpus",
        "Real programs with forebay run",
        "Real command lines run alone and with forebay. All files are cold.",
    ),
    (
        "evaluate speculation --table 5",
        "Programs that swap, with forebay run",
        "Programs run with less memory than they need: without speculation, with it, and with it under memory control.",
    ),
    (
        "evaluate speculation",
        "Programs that wait for files, with forebay run",
        "Programs read cold files from several disks, alone and with forebay.",
    ),
    (
        "evaluate overhead",
        "Programs that forebay run cannot help",
        "All data are in memory, or the program only computes. Overhead is the time that forebay adds.",
    ),
    (
        "evaluate host",
        "What the parts of this machine cost",
        "Caches, translations, switches, faults, system calls, packets and disks, each measured alone.",
    ),
    (
        "evaluate millipage --chunking",
        "Sharing memory in chunks",
        "Hosts share the molecules of WATER in chunks.",
    ),
    (
        "evaluate millipage --false-sharing",
        "Two writers on one page",
        "Two hosts write neighbouring values, each in a minipage or in a page shared as a whole.",
    ),
    (
        "evaluate millipage --figure 6",
        "Parallel programs on shared memory",
        "Programs run on several hosts of forebay share, and alone.",
    ),
    (
        "evaluate millipage --peers",
        "Shared memory beside MPI",
        "The same programs run on forebay share and with MPI.",
    ),
    (
        "evaluate millipage --table 1",
        "What shared memory costs",
        "A fault, a barrier, a lock and messages between hosts, each measured alone.",
    ),
    (
        "evaluate multiview",
        "Reading memory through many views",
        "The same memory is read through one view and through many.",
    ),
    (
        "evaluate server streaming",
        "What limits streaming servers",
        "Streaming servers run under load, with their processor time, faults and waits counted.",
    ),
    (
        "evaluate server web",
        "What limits web servers",
        "Web servers run under load, with their processor time, faults and waits counted.",
    ),
    (
        "evaluate server router",
        "What limits a router",
        "Linux forwards packets under load, with its processor time counted.",
    ),
    (
        "evaluate server",
        "What limits a server",
        "A server runs under load, with its processor time, faults and waits counted.",
    ),
    (
        "evaluate streaming",
        "Streams to many clients, with forebay serve",
        "Servers send media to many clients at once. A stream is late if one packet in a hundred is late or lost.",
    ),
    (
        "evaluate why",
        "What binds a server, by experiment",
        "One resource at a time is taken away in known doses.",
    ),
    (
        "evaluate need",
        "How much memory a program needs",
        "The limit of memory is walked down and up again under load.",
    ),
    (
        "evaluate thesis",
        "A published evaluation of servers, measured again",
        "Web servers, a router and a streaming server run under load, beside a latency model.",
    ),
    (
        "evaluate projection",
        "Shared memory on more hosts and other networks",
        "Recorded programs run again on hosts and networks that are simulated.",
    ),
    (
        "evaluate model",
        "The best throughput of a server",
        "A latency model computes what a server reaches at most.",
    ),
    (
        "evaluate cache",
        "What cache misses cost",
        "Published formulas give misses, stall cycles and their cost.",
    ),
    ("evaluate demo", "A short comparison", "Programs run on two disks, alone and with forebay."),
    ("evaluate meter", "What a program uses", "A program runs with its times, faults and waits counted."),
];

/// Options in words, in which `{}` is the value, and `{ }` the value with its letter apart.
const OPTIONS: [(&str, &str); 14] = [
    ("search", "the most clients that it serves"),
    ("clients", "to {} clients"),
    ("rate", "at { }bit/s"),
    ("transport", "over {}"),
    ("buffers", "with {} buffers each"),
    ("profile", "on disk {}"),
    ("memory", "with {} of memory"),
    ("disturb", "beside clients that disturb it"),
    ("peers", "beside other servers"),
    ("cameras", "of {} cameras"),
    ("films", "of films that are {}"),
    ("program", "of {}"),
    ("fs", "on {}"),
    ("set", "{}"),
];
/// Options that say how often and how long, or where a file is, and nothing of what.
const SILENT: [&str; 7] = ["runs", "seconds", "pairs", "host", "full", "quick", "rounds"];
/// Of so many subjects a title has the names.
const SUBJECTS_MAX: usize = 3;

/// What a title is made of.
pub(crate) struct Of<'a> {
    /// What the commands of its runs have in common.
    command: &'a str,
    subjects: Vec<&'a str>,
}

impl<'a> Of<'a> {
    pub(crate) fn new(command: &'a str, entries: &[Entry<'a>]) -> Self {
        let mut subjects: Vec<&str> = Vec::new();
        for entry in entries {
            let subject = entry.row.subject.as_str();
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        Self { command, subjects }
    }

    /// What it is about, and what was done where that is known.
    fn known(&self) -> (String, &'static str) {
        let given: Vec<&str> = self.command.split_whitespace().collect();
        let has = |words: &str| {
            let mut given = given.iter();
            words.split_whitespace().all(|word| given.any(|other| *other == word))
        };
        match KNOWN.iter().find(|(words, ..)| has(words)) {
            Some((_, title, about)) => ((*title).to_owned(), about),
            None => (format!("What was measured of {}", list(&self.subjects, SUBJECTS_MAX)), ""),
        }
    }

    /// Its options, without those that say nothing of what was measured.
    fn options(&self) -> impl Iterator<Item = &'a str> {
        // A setting of an experiment file may be such an option, too.
        let name = |option: &'a str| option.strip_prefix("set ").unwrap_or(option).split([' ', '=']).next();
        let options = self.command.split(" --").skip(1);
        options.filter(move |option| !SILENT.iter().any(|silent| name(option) == Some(*silent)))
    }

    /// In words, what tells it from `others`: options that none of these has.
    fn own_words(&self, others: &[&Self]) -> Option<String> {
        let is_own = |option: &&str| !others.iter().any(|other| other.options().any(|one| one == *option));
        let own: Vec<String> = self.options().filter(is_own).map(in_words).collect();
        (!own.is_empty()).then(|| own.join(", "))
    }
}

/// An option without its dashes, such as `memory 256M`.
fn in_words(option: &str) -> String {
    let (name, value) = option.split_once([' ', '=']).unwrap_or((option, ""));
    let known = OPTIONS.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, words)) => {
            let value = value.replace('=', " ").replace(',', " and ");
            words.replace("{ }", &value.replace('k', " k").replace('M', " M")).replace("{}", &value)
        }
        None => option.replace(['-', '='], " "),
    }
}

/// The title of each experiment, which no other one has, and what was done.
pub(crate) fn titles(experiments: &[Of]) -> Vec<(String, &'static str)> {
    let known: Vec<(String, &str)> = experiments.iter().map(Of::known).collect();
    let told: Vec<String> = known
        .iter()
        .enumerate()
        .map(|(place, (title, _))| {
            let is_namesake = |other: &usize| *other != place && known[*other].0 == *title;
            let namesakes: Vec<&Of> =
                (0..known.len()).filter(is_namesake).map(|other| &experiments[other]).collect();
            let own = if namesakes.is_empty() { None } else { experiments[place].own_words(&namesakes) };
            own.map_or_else(|| title.clone(), |words| format!("{title}: {words}"))
        })
        .collect();
    let numbered = told.iter().enumerate().map(|(place, title)| {
        let alike = |all: &[String]| all.iter().filter(|other| *other == title).count();
        match alike(&told) {
            1 => title.clone(),
            all => format!("{title} (measurement {} of {all})", alike(&told[..=place])),
        }
    });
    numbered.zip(known).map(|(title, (_, about))| (title, about)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles_of(commands: &[&str]) -> Vec<String> {
        let of: Vec<Of> =
            commands.iter().map(|command| Of { command, subjects: vec!["nginx", "apache"] }).collect();
        titles(&of).into_iter().map(|(title, _)| title).collect()
    }

    #[test]
    fn experiments_of_one_kind_are_told_apart_in_words() {
        let told = titles_of(&[
            "evaluate streaming --profile cloud --memory 256M --rate 4M --search --buffers 1,2 --runs 1",
            "evaluate streaming --rate 200k --clients 5000 --runs 3 --seconds 15",
            "evaluate server web --host benches/results/host.json",
            "evaluate server web --set document=10K --set memory=all,24M --set seconds=2",
            "evaluate multiview --full",
        ]);
        let streams = "Streams to many clients, with forebay serve";
        assert_eq!(
            told,
            [
                format!(
                    "{streams}: on disk cloud, with 256M of memory, at 4 Mbit/s, the most clients that it serves, \
                     with 1 and 2 buffers each"
                ),
                format!("{streams}: at 200 kbit/s, to 5000 clients"),
                "What limits web servers".into(),
                "What limits web servers: document 10K, memory all and 24M".into(),
                "Reading memory through many views".into(),
            ]
        );
    }

    #[test]
    fn what_is_known_of_no_command_is_named_by_what_it_was_measured_of() {
        assert_eq!(titles_of(&["frob --hard"]), ["What was measured of nginx; apache"]);
        let twice = titles_of(&["frob --hard --runs 1", "frob --hard --runs 2"]);
        assert_eq!(twice[1], "What was measured of nginx; apache (measurement 2 of 2)");
    }
}
