//! Programs written for MPI's one-sided communication, compiled where they are to run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_share_workload::{Program, Report};

use super::Kernel;
use super::jobs::Jobs;
use crate::Error;
use crate::harness::command::Invocation;

const COMPILER: &str = "mpicc";
const LAUNCHER: &str = "mpirun";
const HEADER: (&str, &str) =
    ("mpi_report.h", include_str!("../../../../../../tests/guests/share/mpi_report.h"));
const SOURCES: [(Kernel, &str); 2] = [
    (Kernel::Sor, include_str!("../../../../../../tests/guests/share/mpi_sor.c")),
    (Kernel::Lu, include_str!("../../../../../../tests/guests/share/mpi_lu.c")),
];

/// Where these have a form for MPI.
pub(super) const KERNELS: [Kernel; 2] = [SOURCES[0].0, SOURCES[1].0];

/// The compiled programs.
pub(super) struct Mpi<'a> {
    jobs: &'a Jobs,
    folder: PathBuf,
}

impl<'a> Mpi<'a> {
    /// Compiles them.
    pub(super) fn new(jobs: &'a Jobs) -> Result<Self, Error> {
        let folder = jobs.scratch().join("mpi");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))
        };
        fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
        write(HEADER.0, HEADER.1)?;
        for (kernel, source) in SOURCES {
            write(&format!("{kernel}.c"), source)?;
            compile(&folder, kernel)?;
        }
        Ok(Self { jobs, folder })
    }

    /// Runs one of [`KERNELS`] in so many processes.
    pub(super) fn run(&self, hosts: u16, kernel: Kernel, program: Program) -> Result<Vec<Report>, Error> {
        let numbers = match program {
            Program::Sor { rows, columns, iterations } => vec![rows, columns, iterations],
            Program::Lu { blocks, block } => vec![blocks, block],
            _ => return Err(Error::NoForm { kernel, form: "for MPI" }),
        };
        // Where processes are more than processors, they must say so; and as root, that they mean it.
        let launcher = [LAUNCHER, "--allow-run-as-root", "--oversubscribe", "-n"].map(OsString::from);
        let arguments = launcher
            .into_iter()
            .chain([hosts.to_string().into(), self.folder.join(kernel.name()).into()])
            .chain(numbers.into_iter().map(|number| number.to_string().into()));
        self.jobs.report(Invocation::new(&self.folder, arguments))
    }
}

fn compile(folder: &Path, kernel: Kernel) -> Result<(), Error> {
    let missing = |_| Error::Missing { program: COMPILER, package: "libopenmpi-dev" };
    let compiled = Command::new(COMPILER)
        .args(["-O3", "-o", kernel.name(), &format!("{kernel}.c")])
        .current_dir(folder)
        .output()
        .map_err(missing)?;
    if compiled.status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        command: format!("{COMPILER} {kernel}.c"),
        status: compiled.status.to_string(),
        stderr: String::from_utf8_lossy(&compiled.stderr).into_owned(),
    })
}
