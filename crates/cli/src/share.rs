//! `forebay share`.

use std::io::Write;
use std::process::ExitCode;

use forebay_supervisor::share::{self, Job};

use crate::{
    args::Share,
    results,
    run::{FAILURE, complain},
};

/// Runs the job; the exit status is that of the first host that fails.
pub fn share(args: Share) -> ExitCode {
    let sink = match results::open(args.json.as_deref()) {
        Ok(sink) => sink,
        Err(error) => {
            complain(&error);
            return FAILURE.into();
        }
    };
    let job = Job {
        command: args.command,
        hosts: args.hosts,
        views: args.views.map(Into::into),
        bytes: args.size,
        transport: args.transport,
    };
    match share::share(&job, &mut |sentence| complain(&sentence)) {
        Ok(ended) => {
            if args.stats {
                let _ = std::io::stderr().write_all(ended.table().as_bytes());
            }
            if let Err(error) = results::write(sink, || ended.rows()) {
                complain(&error);
            }
            ended.exit_status.into()
        }
        Err(error) => {
            sink.into_iter().for_each(forebay_results::Sink::discard);
            complain(&error);
            error.exit_status().into()
        }
    }
}
