//! What the kernel accounted to a program that ran to its end, by the guest `accounted`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::Error;
use crate::harness::command::Invocation;

/// Of a program and those of its children that it waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) status: ExitStatus,
    pub(crate) elapsed_s: f64,
    /// In user and kernel mode together.
    pub(crate) processor_s: f64,
    /// Of the largest process, at its largest.
    pub(crate) max_rss_bytes: f64,
    pub(crate) minor_faults: f64,
    pub(crate) major_faults: f64,
}

impl Account {
    /// The part of the elapsed time in which the program did not compute.
    pub(crate) fn stall_s(&self) -> f64 {
        (self.elapsed_s - self.processor_s).max(0.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace();
        let status = ExitStatus::from_raw(fields.next()?.parse().ok()?);
        let mut number = || fields.next()?.parse::<f64>().ok();
        Some(Self {
            status,
            elapsed_s: number()? / 1e6,
            processor_s: (number()? + number()?) / 1e6,
            max_rss_bytes: number()?,
            minor_faults: number()?,
            major_faults: number()?,
        })
    }
}

/// Runs commands so that they are accounted for.
#[derive(Clone, Debug)]
pub(crate) struct Accountant {
    program: PathBuf,
    report: PathBuf,
}

impl Accountant {
    /// With the guest `accounted`, and reports written into `scratch`.
    pub(crate) fn new(accounted: &Path, scratch: &Path) -> Self {
        Self { program: accounted.to_owned(), report: scratch.join("account") }
    }

    /// The same command accounted for, in the control group that processes join through the file `group`.
    pub(crate) fn attend(&self, invocation: &Invocation, group: Option<&Path>) -> Invocation {
        let group = group.map_or(OsStr::new("-"), Path::as_os_str);
        invocation.behind([self.program.as_os_str(), self.report.as_os_str(), group])
    }

    /// The account of the last run.
    pub(crate) fn take(&self) -> Result<Account, Error> {
        let text = fs::read_to_string(&self.report).map_err(Error::file("read", &self.report))?;
        fs::remove_file(&self.report).map_err(Error::file("remove", &self.report))?;
        let nonsense =
            || std::io::Error::new(std::io::ErrorKind::InvalidData, "it has other fields than expected");
        Account::parse(&text).ok_or_else(|| Error::file("read", &self.report)(nonsense()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::harness::guests::Guests;
    use crate::harness::interrupt::Interrupt;

    fn run(script: &str) -> (Option<i32>, Account) {
        let folder = tempfile::tempdir().unwrap();
        let guests = Guests::unpack(folder.path()).unwrap();
        let accountant = Accountant::new(&guests.accounted, folder.path());
        let shell = Invocation::new(Path::new("/"), ["sh", "-c", script]);
        let limit = Duration::from_secs(20);
        let ran = accountant.attend(&shell, None).run(folder.path(), limit, &Interrupt::watch()).unwrap();
        (ran.result.status.code(), accountant.take().unwrap())
    }

    #[test]
    fn time_memory_and_status_are_those_of_the_command() {
        let (code, account) = run("sleep 0.2; exit 3");
        assert_eq!((code, account.status.code()), (Some(3), Some(3)));
        assert!(account.elapsed_s >= 0.2 && account.stall_s() > 0.1, "{account:?}");
        assert!(account.max_rss_bytes > 100e3 && account.minor_faults > 10.0, "{account:?}");
    }

    #[test]
    fn the_signal_that_ended_a_command_is_told() {
        let (code, account) = run("kill -9 $$");
        assert_eq!((code, account.status.signal()), (Some(137), Some(9)));
    }

    #[test]
    fn a_report_that_is_no_report_is_refused() {
        assert!(
            Account::parse("0 2000000 500000 500000 4096 7 1")
                .is_some_and(|account| account.stall_s() == 1.0)
        );
        assert_eq!(Account::parse("0 1 2 3"), None);
        assert_eq!(Account::parse("none"), None);
    }
}
