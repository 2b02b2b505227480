//! `forebay share`.

use std::io::Write;
use std::process::ExitCode;

use forebay_launch::job::{self, Ended, Job};
use forebay_results::Row;
use forebay_supervisor::installed::C_LIBRARY;

use crate::{
    args::Share,
    results,
    run::{FAILURE, complain},
};

/// Runs the job and ends with the exit status of the first host that fails, or 0.
pub fn share(args: Share) -> ExitCode {
    let sink = match results::open(args.json.as_deref()) {
        Ok(sink) => sink,
        Err(error) => {
            complain(&error);
            return FAILURE.into();
        }
    };
    if args.transport == "ucx" {
        complain(&"UCX authenticates no message: use --transport ucx on a network that no stranger reaches");
    }
    let job = Job {
        command: args.command,
        hosts: args.hosts,
        views: args.views.map(Into::into),
        bytes: args.size,
        transport: args.transport,
        interface: args.interface,
        separate: args.separate,
        machines: args.machines.unwrap_or(1),
        foresight: !args.no_foresight,
        // Without it, programs that do not link it need to touch what they give the kernel.
        wrappers: C_LIBRARY
            .find()
            .ok()
            .filter(|_| args.separate || args.machines.is_some_and(|machines| machines > 1)),
    };
    match job::run(&job, &mut |sentence| complain(&sentence)) {
        Ok(ended) => {
            if args.stats {
                let _ = std::io::stderr().write_all(ended.table().as_bytes());
            }
            if let Err(error) = results::write(sink, || rows(&ended)) {
                complain(&error);
            }
            ended.exit_status.into()
        }
        Err(error) => {
            complain(&error);
            error.exit_status().into()
        }
    }
}

/// The figures in the result schema: subject `host N`, metric the figure.
fn rows(ended: &Ended) -> Vec<Row> {
    let row = |(host, (name, number)): (usize, &(String, u64))| {
        Row::once(format!("host {host}"), "share", name.clone(), "1", *number as f64)
    };
    let all = ended.counts.iter().enumerate();
    all.flat_map(|(host, counts)| counts.iter().map(move |count| (host, count))).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_a_host_is_a_row() {
        let figure = |name: &str, number| (name.to_owned(), number);
        let counts =
            vec![vec![figure("faults", 12), figure("barriers", 3)], vec![], vec![figure("faults", 7)]];
        let rows = rows(&Ended { exit_status: 0, counts });
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (rows[2].subject.as_str(), rows[2].metric.as_str(), rows[2].value),
            ("host 2", "faults", 7.0)
        );
    }
}
