//! Programs that need more memory than they are given: a recogniser of speech, and four computations.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_lab::Profile;

use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::guests::Guests;
use crate::harness::interrupt::Interrupt;
use crate::harness::written::Written;
use crate::run::programs::is_on_path;
use crate::run::speech;

const MODEL: &str = "/usr/share/pocketsphinx/model/en-us";
const UTTERANCE: &str = "utterance";
/// One pass, with a search that keeps few candidates: a few seconds for a minute of speech.
const SEARCH: &str = "-fwdflat no -bestpath no -maxhmmpf 1500 -maxwpf 10 -ds 3 -topn 1";

/// A program that swaps where memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SwappingProgram {
    /// Recognition of one long utterance: CMU PocketSphinx.
    Sphinx,
    /// A matrix times a vector.
    Matvec,
    /// A Fourier transform in place.
    Fft,
    /// Poisson's equation by V-cycles over grids of several sizes.
    Multigrid,
    /// A gather through an index, in no order.
    Gather,
}

// That of the published table first.
forebay_names::names! { "program that swaps": SwappingProgram {
    Sphinx = "sphinx",
    Matvec = "matvec",
    Fft = "fft",
    Multigrid = "multigrid",
    Gather = "gather",
} }

impl SwappingProgram {
    /// Whether the program and what makes its data are installed.
    ///
    /// # Errors
    ///
    /// What is missing and its package.
    pub fn check_installed(self) -> Result<(), Error> {
        if self != Self::Sphinx {
            return Ok(());
        }
        let needs = [
            (is_on_path("pocketsphinx_batch"), "pocketsphinx_batch", "pocketsphinx"),
            (Path::new(MODEL).is_dir(), "the model en-us of pocketsphinx", "pocketsphinx-en-us"),
            (is_on_path("espeak-ng"), "espeak-ng", "espeak-ng"),
        ];
        let missing = needs.into_iter().find(|(there, ..)| !there);
        missing.map_or(Ok(()), |(_, program, package)| Err(Error::Missing { program, package }))
    }
}

/// How much the programs have to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Words of the utterance, some 200 a minute.
    pub words: usize,
    /// The matrix, twice multiplied, in MiB.
    pub matvec_mib: usize,
    /// What is transformed, in MiB.
    pub fft_mib: usize,
    /// All grids, gone over in one cycle, in MiB.
    pub multigrid_mib: usize,
    /// What is gathered from, in MiB.
    pub gather_mib: usize,
    /// Values gathered.
    pub gathered: usize,
}

impl Size {
    /// A few seconds a program on a disk of 1 ms.
    pub const FULL: Self =
        Self { words: 150, matvec_mib: 64, fft_mib: 32, multigrid_mib: 72, gather_mib: 64, gathered: 4_000 };

    /// As [`Self::FULL`], but where a value comes within 0.1 ms more of them, so that the gather takes about a second.
    #[must_use]
    pub const fn on(profile: Profile) -> Self {
        match profile {
            Profile::Local | Profile::Nvme => Self { gathered: 20_000, ..Self::FULL },
            _ => Self::FULL,
        }
    }
}

/// A program with its data in place.
#[derive(Debug)]
pub(crate) struct Swapper {
    pub(crate) invocation: Invocation,
    /// What the program reads, to be cold at its start.
    pub(crate) data: Vec<PathBuf>,
    pub(crate) output: Written,
}

impl Swapper {
    /// Writes the data into `folder`, which is on a disk.
    pub(crate) fn prepare(
        program: SwappingProgram,
        size: Size,
        folder: &Path,
        guests: &Guests,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let guest = |guest: &Path, numbers: &[usize]| {
            let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
            let arguments = [guest.as_os_str()].into_iter().chain(numbers.iter().map(OsStr::new));
            Ok(Self {
                invocation: Invocation::new(folder, arguments),
                data: Vec::new(),
                output: Written::default(),
            })
        };
        match program {
            SwappingProgram::Sphinx => Self::sphinx(size, folder, interrupt),
            SwappingProgram::Matvec => guest(&guests.matvec, &[size.matvec_mib, 2]),
            SwappingProgram::Fft => guest(&guests.fft, &[size.fft_mib, 1]),
            SwappingProgram::Multigrid => guest(&guests.multigrid, &[size.multigrid_mib, 1]),
            SwappingProgram::Gather => guest(&guests.gather, &[size.gather_mib, size.gathered]),
        }
    }

    fn sphinx(size: Size, folder: &Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let utterance = folder.join(UTTERANCE).with_extension("raw");
        speech::write(&utterance, size.words, interrupt)?;
        let list = folder.join("utterances");
        fs::write(&list, UTTERANCE).map_err(Error::file("write", &list))?;
        let output = folder.join("recognised");
        let model = |name: &str| Path::new(MODEL).join(name).into_os_string();
        let (acoustic, language, dictionary) =
            (model("en-us"), model("en-us.lm.bin"), model("cmudict-en-us.dict"));
        let options: [(&str, &OsStr); 9] = [
            ("-hmm", &acoustic),
            ("-lm", &language),
            ("-dict", &dictionary),
            ("-adcin", "yes".as_ref()),
            ("-cepdir", folder.as_os_str()),
            ("-cepext", ".raw".as_ref()),
            ("-ctl", list.as_os_str()),
            ("-hyp", output.as_os_str()),
            // Its log tells times.
            ("-logfn", "/dev/null".as_ref()),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [OsStr::new(name), value]);
        let search = SEARCH.split(' ').map(OsStr::new);
        let arguments = [OsStr::new("pocketsphinx_batch")].into_iter().chain(options).chain(search);
        Ok(Self {
            invocation: Invocation::new(folder, arguments),
            data: vec![MODEL.into(), utterance],
            output: Written(Some(output)),
        })
    }
}
