//! One command line on a disk of its own: the disk holds the data, the program, and all that the program loads.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_lab::SlowDisk;
use forebay_lab::root::{Base, Root};
use sha2::{Digest, Sha256};

use super::Options;
use super::case::{Case, Compared, Data, Kind};
use super::needed_files::{Copies, inside, named, watching};
use super::outcome::Measured;
use super::tools::{PATH, Tools, program};
use crate::Error;
use crate::harness::command::{Ran, RunResult, Started};
use crate::harness::interrupt::Interrupt;
use crate::harness::written::{self, add_digest};
use crate::run::comparison::Side;
use crate::run::counters::take_totals;
use crate::run::dataset::{array, objects, source_tree};

/// The room of each disk; memory is used for what is written only.
const ROOM_BYTES: u64 = 6 << 30;
/// No command takes longer, nor does a script that makes data.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// Where a command finds its data. Every system has this folder, and nothing in it.
const DATA: &str = "/mnt";
/// Where the root has forebay's own files, if those are in memory; the statistics always.
const IN_MEMORY: &str = "/forebay";
/// Where the root has them, if they are on the disk.
const ON_DISK: &str = "/usr/local/bin";
/// Where forebay keeps what it learns of C libraries.
const CACHE: &str = "/mnt/.cache/forebay";
/// Where forebay keeps its access profiles, beside its own files.
const PROFILES: &str = "/forebay/state";
/// The trace of the calls that name files, among the data.
const TRACE: &str = "/mnt/.trace";
/// A program that does nothing.
const NOTHING: &str = "/usr/bin/true";
const STATISTICS: &str = "statistics.json";

/// What the cases of a run share.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) tools: &'a Tools,
    pub(super) scratch: &'a Path,
    pub(super) interrupt: &'a Interrupt,
}

/// A case on its disk.
pub(super) struct Prepared<'a> {
    bench: &'a Bench<'a>,
    case: &'static Case,
    disk: SlowDisk,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// What every run must give: the outcome of the first.
    first: Option<Seen>,
}

/// How a run ended, and the digest of what it wrote.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    result: RunResult,
    written: [u8; 32],
}

impl Bench<'_> {
    /// The folder of this machine that a root has as [`IN_MEMORY`].
    fn own_folder(&self) -> PathBuf {
        self.scratch.join("forebay")
    }

    fn own_cache(&self) -> PathBuf {
        self.scratch.join("cache")
    }

    /// Puts forebay's own files where roots have them.
    pub(super) fn set_up(&self) -> Result<(), Error> {
        for folder in [self.own_folder(), self.own_cache()] {
            // Programs that are not root's search here, too.
            let made = fs::DirBuilder::new().mode(0o755).create(&folder);
            made.map_err(Error::file("create", &folder))?;
        }
        self.copy_own_files(&self.own_folder())
    }

    fn copy_own_files(&self, to: &Path) -> Result<(), Error> {
        let own = [Some(&self.options.forebay), self.options.agent.as_ref()];
        for file in own.into_iter().flatten() {
            let copy = to.join(file.file_name().unwrap_or_default());
            fs::copy(file, copy).map_err(Error::file("copy", file))?;
        }
        Ok(())
    }

    /// Puts forebay's own files in memory, whatever was evicted.
    fn read_own_files(&self) -> Result<(), Error> {
        let folder = self.own_folder();
        let files = fs::read_dir(&folder).map_err(Error::file("list", &folder))?;
        for file in files.flatten().map(|file| file.path()).filter(|file| file.is_file()) {
            let read = fs::File::open(&file).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
            read.map_err(Error::file("read", &file))?;
        }
        Ok(())
    }

    /// Puts the case with its data and all of its files on a new disk.
    pub(super) fn prepare(&self, case: &'static Case) -> Result<Prepared<'_>, Error> {
        let resolve = |text: &str| OsString::from(self.tools.resolve(text));
        let mut command: Vec<OsString> = case.command.iter().map(|word| resolve(word)).collect();
        if let Some(path) = command[0].to_str().and_then(program) {
            command[0] = path.into();
        }
        let variables =
            [("PATH", PATH.join(":")), ("HOME", DATA.into()), ("LC_ALL", "C".into()), ("TZ", "UTC".into())];
        let variables = variables.into_iter().chain([("XDG_STATE_HOME", PROFILES.into())]);
        let own = variables.map(|(name, value)| (name.into(), value.into()));
        let more = case.environment.iter().map(|(name, value)| (name.into(), resolve(value)));
        let environment = own.chain(more).collect();
        let disk = SlowDisk::start(self.options.profile, ROOM_BYTES)?;
        let prepared = Prepared { bench: self, case, disk, command, environment, first: None };
        prepared.disk.fill(|_| prepared.fill())??;
        Ok(prepared)
    }
}

impl Prepared<'_> {
    /// The folder on the disk that is the program's root.
    fn root(&self) -> PathBuf {
        self.disk.mount_point().join("root")
    }

    fn data(&self) -> PathBuf {
        inside(&self.root(), Path::new(DATA))
    }

    fn fill(&self) -> Result<(), Error> {
        let (root, data) = (self.root(), self.data());
        for path in ["/proc", "/dev", "/sys", "/tmp", "/run", IN_MEMORY, CACHE, ON_DISK] {
            let folder = inside(&root, Path::new(path));
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        }
        self.case.data.iter().try_for_each(|kind| write_data(&data, kind, self.bench.interrupt))?;
        self.script(self.case.prepare)?;
        self.copy_files()?;
        if self.bench.options.forebay_cold {
            self.bench.copy_own_files(&inside(&root, Path::new(ON_DISK)))?;
        }
        Ok(())
    }

    /// Copies into the root what the program, and forebay itself, name in a run that is watched.
    fn copy_files(&self) -> Result<(), Error> {
        self.restore()?;
        let root = self.root();
        let own = &self.bench.options.forebay;
        let forebay = [own.as_os_str(), "run".as_ref(), "--".as_ref(), NOTHING.as_ref()];
        let mut paths = self.names_of(&forebay.map(OsStr::to_owned), 0)?;
        paths.retain(|path| path != own && self.bench.options.agent.as_ref() != Some(path));
        paths.extend(self.names_of(&self.command, self.case.status)?);
        let mut copies = Copies::new(&root);
        let copied = copies.add(&paths).and_then(|()| copies.finish());
        copied.map_err(Error::file("copy the program's files to", &root))
    }

    /// The paths that `command` names in a run that is watched.
    fn names_of(&self, command: &[OsString], status: i32) -> Result<BTreeSet<PathBuf>, Error> {
        let watched = watching(TRACE).into_iter().map(OsString::from).chain(command.iter().cloned());
        let ran = self.run_in(&self.own_root(), &watched.collect::<Vec<_>>())?;
        if ran.result.status.code() != Some(status) {
            return Err(self.failed(&ran));
        }
        let trace = inside(&self.root(), Path::new(TRACE));
        let paths = named(&trace, Path::new(DATA)).map_err(Error::file("read", &trace))?;
        fs::remove_file(&trace).map_err(Error::file("remove", &trace))?;
        Ok(paths)
    }

    /// This machine's root with the data where the command finds them.
    fn own_root(&self) -> Root {
        Root { base: Base::Own, folders: vec![(self.data(), DATA.into())], working_folder: DATA.into() }
    }

    fn cold_root(&self) -> Root {
        let base = match self.case.kind {
            Kind::Container => Base::Overlay(self.root()),
            _ => Base::Folder(self.root()),
        };
        let mut folders = vec![(self.bench.own_folder(), IN_MEMORY.into())];
        if !self.bench.options.forebay_cold {
            folders.push((self.bench.own_cache(), CACHE.into()));
        }
        Root { base, folders, working_folder: DATA.into() }
    }

    /// Runs the command once on `side` and keeps what was seen.
    pub(super) fn run(&mut self, side: Side, measured: &mut Measured) -> Result<(), Error> {
        self.disk.fill(|_| self.restore())??;
        if side != Side::Warm {
            let evicted = self.disk.make_cold()?;
            measured.files_not_cold = measured.files_not_cold.max(evicted.resident.len());
            self.bench.read_own_files()?;
        }
        let assisted = self.assisted(&self.command);
        let command = if side == Side::Forebay { &assisted } else { &self.command };
        let ran = self.run_in(&self.cold_root(), command)?;
        let seen = self.seen(&ran)?;
        match &self.first {
            None if ran.result.status.code() != Some(self.case.status) => return Err(self.failed(&ran)),
            None => self.first = Some(seen),
            Some(first) => measured.differences.extend(self.difference(side, first, &seen, &ran.stderr_end)),
        }
        measured.push_elapsed(side, ran.elapsed);
        if side == Side::Forebay {
            let totals = take_totals(&self.bench.own_folder().join(STATISTICS));
            totals.for_each(|row| measured.counters.push(row.metric, row.unit, row.value));
        }
        Ok(())
    }

    /// Lets forebay learn this root's C library, as it has on a machine where it has run before. For a second run it also records
    /// the first one.
    pub(super) fn introduce(&self) -> Result<(), Error> {
        self.succeed_in(&self.cold_root(), &self.assisted(&[NOTHING.into()]))?;
        if self.bench.options.second_run {
            self.disk.fill(|_| self.restore())??;
            self.disk.make_cold()?;
            self.bench.read_own_files()?;
            let ran = self.run_in(&self.cold_root(), &self.assisted(&self.command))?;
            if ran.result.status.code() != Some(self.case.status) {
                return Err(self.failed(&ran));
            }
        }
        Ok(())
    }

    /// `command` under forebay.
    fn assisted(&self, command: &[OsString]) -> Vec<OsString> {
        let folder = if self.bench.options.forebay_cold { ON_DISK } else { IN_MEMORY };
        let own = Path::new(folder).join(self.bench.options.forebay.file_name().unwrap_or_default());
        let statistics = Path::new(IN_MEMORY).join(STATISTICS);
        let head: [&OsStr; 4] = [own.as_ref(), "run".as_ref(), "--json".as_ref(), statistics.as_ref()];
        let profile = (!self.bench.options.second_run).then_some(OsStr::new("--no-profile"));
        let head = head.into_iter().chain(profile).chain([OsStr::new("--")]);
        head.map(OsStr::to_owned).chain(command.iter().cloned()).collect()
    }

    /// Runs `command` in `root`, timed from its execution on.
    fn run_in(&self, root: &Root, command: &[OsString]) -> Result<Ran, Error> {
        let Bench { scratch, interrupt, .. } = *self.bench;
        let (entrance, gate) = root.command(command, &self.environment)?;
        let mut started = Started::new(entrance, self.case.name.to_owned(), scratch)?;
        let opened = gate.wait().and_then(|()| {
            started.restart_clock();
            gate.open()
        });
        let ran = started.finish(RUN_LIMIT, interrupt);
        opened?;
        ran
    }

    fn succeed_in(&self, root: &Root, command: &[OsString]) -> Result<(), Error> {
        let ran = self.run_in(root, command)?;
        if ran.result.status.success() { Ok(()) } else { Err(self.failed(&ran)) }
    }

    fn failed(&self, ran: &Ran) -> Error {
        Error::Failed {
            command: self.case.name.to_owned(),
            status: ran.result.status.to_string(),
            stderr: ran.stderr_end.clone(),
        }
    }

    fn seen(&self, ran: &Ran) -> Result<Seen, Error> {
        let mut hasher = Sha256::new();
        for name in self.case.writes {
            let path = self.data().join(name);
            add_digest(&path, &mut hasher).map_err(Error::file("read", &path))?;
        }
        Ok(Seen { result: ran.result.clone(), written: hasher.finalize().into() })
    }

    /// A sentence on what differs of what is compared.
    fn difference(&self, side: Side, first: &Seen, other: &Seen, stderr_end: &str) -> Option<String> {
        let (one, two) = (&first.result, &other.result);
        let same_output = match self.case.compared {
            Compared::All => one == two,
            Compared::AllButMessages => one.agrees_but_for_messages(two),
            Compared::Files => true,
        };
        let what = if one.status != two.status {
            format!("ended with {} instead of {}", two.status, one.status)
        } else if first.written != other.written {
            "wrote other files".to_owned()
        } else if !same_output {
            "printed something else".to_owned()
        } else {
            return None;
        };
        let said =
            if stderr_end.is_empty() { String::new() } else { format!(" (standard error: {stderr_end})") };
        Some(format!("a run of the side {} {what}{said}", side.name()))
    }

    /// Makes the data what a run must find.
    fn restore(&self) -> Result<(), Error> {
        for name in self.case.writes {
            written::remove(&self.data().join(name))?;
        }
        self.script(self.case.restore)
    }

    /// Runs a script in the folder of the data, with this machine's programs.
    fn script(&self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let script = self.bench.tools.resolve(text);
        self.succeed_in(&self.own_root(), &["/bin/sh", "-ec", &script].map(OsString::from))
    }
}

fn write_data(folder: &Path, kind: &Data, interrupt: &Interrupt) -> Result<(), Error> {
    let (Data::Tree(name, _) | Data::Text(name, _) | Data::Random(name, _) | Data::Objects(name, _)) = *kind;
    let path = folder.join(name);
    let written = match *kind {
        Data::Tree(_, files) => source_tree::write(&path, files),
        Data::Text(_, bytes) => fs::write(&path, source_tree::text(bytes, bytes as u64)),
        Data::Random(_, mib) => array::write(&path, mib << 20),
        Data::Objects(_, count) => {
            fs::create_dir(&path).map_err(Error::file("create", &path))?;
            return objects::write(&path, count, interrupt);
        }
    };
    written.map_err(Error::file("write", &path))
}
