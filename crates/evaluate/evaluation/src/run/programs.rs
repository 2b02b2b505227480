//! The programs of `forebay evaluate speculation`. Three stand for those of the published tables, which were called
//! Agrep, Gnuld and XDataSlice there. Three go through the same tree of files as the first. Four wait for files in other
//! ways, or hardly.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use forebay_lab::Profile;

use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::guests::Guests;
use crate::harness::interrupt::Interrupt;
use crate::harness::written::Written;
use crate::run::dataset::{array, objects, source_tree};

/// Occurs in no generated file.
const ABSENT: &str = "forebay_absent_symbol";
const ARRAY_SEED: &str = "20030609";
/// How many reads ahead readers that are hinted by hand name.
const READS_AHEAD: &str = "128";

/// A program that waits for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// A search for an absent string: GNU `grep -r` over a source tree.
    Grep,
    /// A link of a kernel's objects: GNU `ld`.
    Ld,
    /// A reader of slices of a large array.
    RandomReads,
    /// An archive of that tree: GNU `tar`.
    Tar,
    /// A listing of that tree with the attributes of all files: `find -ls`.
    FindLs,
    /// A copy of that tree: `cp -r`.
    CpR,
    /// A reader of a mapped file at computed offsets.
    Mapped,
    /// The same reader, but each offset depends on what it read before.
    Chased,
    /// The same search as that of [`Program::Grep`], which maps each file.
    Mapscan,
    /// Work on much memory, with a read from a file now and then: what another process of that size costs.
    Resident,
}

/// Elapsed seconds published by Chang and Gibson (OSDI 1999), on four disks of 15 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Without hints.
    pub original_s: f64,
    /// With speculation.
    pub speculating_s: f64,
    /// With hints written by hand.
    pub hinted_s: f64,
}

// First the published ones, in their order.
forebay_names::names! { "program": Program {
    Grep = "grep",
    Ld = "ld",
    RandomReads = "random-reads",
    Tar = "tar",
    FindLs = "find-ls",
    CpR = "cp-r",
    Mapped = "mapped",
    Chased = "chased",
    Mapscan = "mapscan",
    Resident = "resident",
} }

impl Program {
    /// Those of the published tables.
    pub const PUBLISHED: [Self; 3] = [Self::Grep, Self::Ld, Self::RandomReads];

    /// What runs under this name.
    pub fn description(self) -> &'static str {
        match self {
            Self::Grep => "GNU grep -r over a source tree",
            Self::Ld => "GNU ld over hundreds of objects",
            Self::RandomReads => "reader of array slices",
            Self::Tar => "GNU tar of a source tree",
            Self::FindLs => "find -ls of a source tree",
            Self::CpR => "cp -r of a source tree",
            Self::Mapped => "reader of a mapped file",
            Self::Chased => "reader of places found by reading",
            Self::Mapscan => "search in mapped files",
            Self::Resident => "work on much memory",
        }
    }

    /// The published times of its ancestor, if it has one.
    pub fn published(self) -> Option<Published> {
        let (original_s, speculating_s, hinted_s) = match self {
            Self::Grep => (21.4, 6.5, 6.2),
            Self::Ld => (89.5, 63.3, 30.2),
            Self::RandomReads => (324.6, 97.0, 94.1),
            _ => return None,
        };
        Some(Published { original_s, speculating_s, hinted_s })
    }

    /// Whether the program and what makes its data are installed.
    ///
    /// # Errors
    ///
    /// The program that is missing and its package.
    pub fn check_installed(self) -> Result<(), Error> {
        let needed: &[(&str, &str)] = match self {
            Self::Grep => &[("grep", "grep")],
            Self::Ld => &[("ld", "binutils"), ("as", "binutils")],
            Self::Tar => &[("tar", "tar")],
            Self::FindLs => &[("find", "findutils")],
            Self::CpR => &[("cp", "coreutils")],
            Self::RandomReads | Self::Mapped | Self::Chased | Self::Mapscan | Self::Resident => &[],
        };
        let missing = needed.iter().find(|(program, _)| !is_on_path(program));
        missing.map_or(Ok(()), |&(program, package)| Err(Error::Missing { program, package }))
    }
}

pub(crate) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// How much the programs have to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Files in the source tree.
    pub files: usize,
    /// Objects to link.
    pub objects: usize,
    /// Size of the array in bytes, whole MiB.
    pub array_bytes: u64,
    /// Rows of 8 KiB read from the array.
    pub reads: usize,
    /// Size of the mapped file in bytes, whole MiB.
    pub mapped_bytes: u64,
    /// Pages read from it.
    pub mapped_reads: usize,
    /// What the program that works on much memory has of it, in MiB.
    pub resident_mib: usize,
    /// How often it reads from a file.
    pub steps: usize,
}

impl Scale {
    /// What the published programs had to do, where the disk is like theirs; more where it is faster. Over a distance each
    /// file is several requests, so there are fewer.
    pub fn of(profile: Profile) -> Self {
        let (files, reads) = match profile {
            Profile::Raid12Ms => (1_349, 2_000),
            Profile::Remote => (2_000, 2_000),
            Profile::Local | Profile::Nvme | Profile::Ssd1Ms | Profile::Hdd1Ms => (3_000, 20_000),
        };
        Self {
            files,
            objects: 562,
            array_bytes: 1 << 30,
            reads,
            mapped_bytes: 300 << 20,
            mapped_reads: 3_000,
            resident_mib: 1_024,
            steps: 400,
        }
    }

    /// Room for the data of any program, with what a file system adds.
    pub(crate) fn room_bytes(self) -> u64 {
        const FILE_BYTES: u64 = 20 << 10;
        const OBJECT_BYTES: u64 = 24 << 10;
        const SPARE: u64 = 96 << 20;
        let files = self.files as u64 * FILE_BYTES + self.objects as u64 * OBJECT_BYTES;
        let largest = self.array_bytes.max(self.mapped_bytes);
        SPARE + files + largest + largest / 16
    }
}

/// A program with its data in place.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) program: Program,
    pub(crate) plain: Invocation,
    /// The version with hints written by hand, where somebody could know what to hint.
    pub(crate) hinted: Option<Invocation>,
    /// Starts the same program without touching the data.
    pub(crate) idle: Invocation,
    /// The exit status of a run that did its work.
    pub(crate) status_expected: i32,
    pub(crate) output: Written,
}

impl Workload {
    /// Writes the data below `data`, which is the slow place; the program writes below `scratch`, which is not.
    pub(crate) fn prepare(
        program: Program,
        scale: Scale,
        data: &Path,
        scratch: &Path,
        guests: &Guests,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        match program {
            Program::Grep => Self::grep(scale, data, guests),
            Program::Ld => Self::ld(scale, data, scratch, guests, interrupt),
            Program::RandomReads => Self::random_reads(scale, data, guests),
            Program::Tar => Self::tar(scale, data, scratch, guests),
            Program::FindLs => Self::find_ls(scale, data, guests),
            Program::CpR => Self::cp_r(scale, data, scratch, guests),
            Program::Mapped | Program::Chased => Self::mapped(program, scale, data, guests),
            Program::Mapscan => Self::mapscan(scale, data, guests),
            Program::Resident => Self::resident(scale, data, guests),
        }
    }

    /// A program that goes through a tree of source files, which is called `tree`, and prints.
    fn over_tree<A: AsRef<OsStr>>(
        program: Program,
        scale: Scale,
        data: &Path,
        guests: &Guests,
        command: &[A],
    ) -> Result<Self, Error> {
        let tree = data.join("tree");
        source_tree::write(&tree, scale.files).map_err(Error::file("write the source tree", &tree))?;
        let plain = Invocation::new(data, command);
        Ok(Self {
            program,
            hinted: Some(plain.behind([guests.agrep_hinted.as_os_str(), "tree".as_ref(), "--".as_ref()])),
            idle: Invocation::new(data, [command[0].as_ref(), "--version".as_ref()]),
            plain,
            status_expected: 0,
            output: Written::default(),
        })
    }

    fn grep(scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let grep = Self::over_tree(Program::Grep, scale, data, guests, &["grep", "-r", ABSENT, "tree"])?;
        Ok(Self { status_expected: 1, ..grep })
    }

    fn tar(scale: Scale, data: &Path, scratch: &Path, guests: &Guests) -> Result<Self, Error> {
        let archive = scratch.join("archive");
        let command = ["tar".as_ref(), "cf".as_ref(), archive.as_os_str(), "tree".as_ref()];
        let tar = Self::over_tree(Program::Tar, scale, data, guests, &command)?;
        Ok(Self { output: Written(Some(archive)), ..tar })
    }

    /// No call hints attributes.
    fn find_ls(scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let find = Self::over_tree(Program::FindLs, scale, data, guests, &["find", "tree", "-ls"])?;
        Ok(Self { hinted: None, ..find })
    }

    fn cp_r(scale: Scale, data: &Path, scratch: &Path, guests: &Guests) -> Result<Self, Error> {
        let copy = scratch.join("copy");
        let command = ["cp".as_ref(), "-r".as_ref(), "tree".as_ref(), copy.as_os_str()];
        let cp = Self::over_tree(Program::CpR, scale, data, guests, &command)?;
        Ok(Self { output: Written(Some(copy)), ..cp })
    }

    fn ld(
        scale: Scale,
        data: &Path,
        scratch: &Path,
        guests: &Guests,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let folder = data.join("objects");
        fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
        objects::write(&folder, scale.objects, interrupt)?;
        let output = scratch.join("linked");
        let names: Vec<OsString> = objects::names(scale.objects).into_iter().map(OsString::from).collect();
        let entry = objects::entry();
        let head = ["ld".as_ref(), "-o".as_ref(), output.as_os_str(), "-e".as_ref(), entry.as_ref()];
        let plain = Invocation::new(&folder, names.iter()).behind(head);
        let hints =
            [guests.agrep_hinted.as_os_str()].into_iter().chain(names.iter().map(OsString::as_os_str));
        Ok(Self {
            program: Program::Ld,
            hinted: Some(plain.behind(hints.chain(["--".as_ref()]))),
            idle: Invocation::new(data, ["ld", "--version"]),
            plain,
            status_expected: 0,
            output: Written(Some(output)),
        })
    }

    fn random_reads(scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let path = data.join("array");
        array::write(&path, scale.array_bytes).map_err(Error::file("write", &path))?;
        let reads = scale.reads.to_string();
        let slices = guests.slices.as_os_str();
        let arguments = [slices, "array".as_ref(), reads.as_ref(), ARRAY_SEED.as_ref()];
        let by_hand = arguments.iter().copied().chain(["--hinted".as_ref(), READS_AHEAD.as_ref()]);
        Ok(Self {
            program: Program::RandomReads,
            hinted: Some(Invocation::new(data, by_hand)),
            idle: Invocation::new(data, [slices, "--help".as_ref()]),
            plain: Invocation::new(data, arguments),
            status_expected: 0,
            output: Written::default(),
        })
    }

    fn mapped(program: Program, scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let path = data.join("mapped");
        array::write(&path, scale.mapped_bytes).map_err(Error::file("write", &path))?;
        let mapped = guests.mapped.as_os_str();
        let reads = scale.mapped_reads.to_string();
        let reader = Invocation::new(data, [mapped, "mapped".as_ref(), reads.as_ref()]);
        let with = |options: &[&str]| {
            let mut reader = reader.clone();
            reader.arguments.extend(options.iter().map(OsString::from));
            reader
        };
        let chased = program == Program::Chased;
        Ok(Self {
            program,
            hinted: (!chased).then(|| with(&["--hinted", READS_AHEAD])),
            idle: Invocation::new(data, [mapped]),
            plain: if chased { with(&["--chased"]) } else { reader.clone() },
            status_expected: 0,
            output: Written::default(),
        })
    }

    fn mapscan(scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let mapscan = guests.mapscan.as_os_str();
        let command = [mapscan, ABSENT.as_ref(), "tree".as_ref()];
        Self::over_tree(Program::Mapscan, scale, data, guests, &command)
    }

    /// Which block it reads next is known when the work before that is done.
    fn resident(scale: Scale, data: &Path, guests: &Guests) -> Result<Self, Error> {
        let path = data.join("blocks");
        array::write(&path, scale.mapped_bytes).map_err(Error::file("write", &path))?;
        let (mib, steps) = (scale.resident_mib.to_string(), scale.steps.to_string());
        let resident = guests.resident.as_os_str();
        Ok(Self {
            program: Program::Resident,
            hinted: None,
            idle: Invocation::new(data, [resident, "1".as_ref(), "0".as_ref()]),
            plain: Invocation::new(data, [resident, mib.as_ref(), steps.as_ref(), "blocks".as_ref()]),
            status_expected: 0,
            output: Written::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-anywhere"));
    }
}
