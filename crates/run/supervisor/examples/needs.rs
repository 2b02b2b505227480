//! Runs a program and writes what it needed of file systems to a file, a line a need:
//! `needs AGENT OUTPUT beside|above|unrecorded|replayed COMMAND...`. `beside` becomes the program, `above` is its parent, and
//! `unrecorded` becomes it and writes nothing. `replayed` uses the user's profiles, and writes how many steps waited.
#![forbid(unsafe_code)]

use std::{env, ffi::OsString, fs, path::PathBuf, process::ExitCode};

use forebay_supervisor::{
    Need, Options, Recorded, become_program, become_recorded_program, run, run_recorded,
};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let mut next = || arguments.next().expect("an agent, an output, a place and a command");
    let (agent, output, place) = (PathBuf::from(next()), PathBuf::from(next()), next());
    let command: Vec<OsString> = arguments.collect();
    let output = env::current_dir().expect("a working directory").join(output);
    let options = Options {
        command,
        agent,
        speculate: true,
        memory_control: true,
        memory_limit_bytes: None,
        statistics: false,
        patch: true,
        profile: false,
    };
    let keep = |recorded: Recorded| {
        let lines: Vec<u8> = recorded.needs.iter().flat_map(line).collect();
        // Written whole, so that a reader finds all or nothing.
        let unfinished = output.with_extension("unfinished");
        fs::write(&unfinished, lines).expect("the needs are written");
        fs::rename(&unfinished, &output).expect("the file gets its name");
    };
    match place.to_str() {
        Some("beside") => panic!("{:?}", become_recorded_program(&options, &keep)),
        Some("unrecorded") => panic!("{:?}", become_program(&options)),
        Some("replayed") => {
            let options = Options { profile: true, statistics: true, ..options };
            let outcome = run(&options).expect("the program starts");
            let waited = outcome.statistics.profile.map_or(0, |profile| profile.waited);
            fs::write(output, waited.to_string()).expect("the figure is written");
            return ExitCode::from(outcome.exit_status);
        }
        _ => {}
    }
    let outcome = run_recorded(&options, &keep).expect("the program starts");
    ExitCode::from(outcome.exit_status)
}

/// Kind, first byte, byte behind the last, microseconds, path.
fn line(need: &Need) -> Vec<u8> {
    let head = format!("{:?} {} {} {} ", need.kind, need.range.start, need.range.end, need.at_us);
    [head.as_bytes(), &need.path, b"\n"].concat()
}
