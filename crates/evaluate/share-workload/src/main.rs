//! `forebay-share-workload TASK FILE`: see the library.
#![forbid(unsafe_code)]

use std::{env, ffi::OsString, path::Path, process::ExitCode};

use forebay_share_workload::{Error, Report, Task, carry_out};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-share-workload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), Error> {
    let [task, file] = arguments else { return Err(Error::Usage) };
    let task: Task = serde_json::from_str(&task.to_string_lossy()).map_err(Error::Task)?;
    let report: Report = carry_out(&task)?;
    report.append(Path::new(file)).map_err(Error::Report)
}
