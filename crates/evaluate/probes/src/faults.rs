//! Page faults: memory that was never used, pages of a file that are in memory or not, and copies on write. The kernel's own
//! count of faults says how many there were.

use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use forebay_vm::{HUGE_PAGE_BYTES, PAGE_BYTES, Pages, Words};
use rustix::fs::{Advice, fadvise};

use crate::machine::{device_of, faults};
use crate::{Case, Error, Setting, Unsuited};

const COST: (&str, &str) = ("cost", "us");
const WORDS_OF_PAGE: usize = PAGE_BYTES / size_of::<u64>();
const ANONYMOUS_BYTES: usize = 8 << 20;
const HUGE_BYTES: usize = 16 << 20;
const FILE_BYTES: usize = 32 << 20;
/// Pages of a file that are waited for in a sample.
const MAJOR: usize = 64;
/// A sample is of the faults it means to be of, but for so many that the process has besides.
const BESIDES: f64 = 0.1;

/// A cost for each kind of fault.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    let file = Rc::new(file_of(setting)?);
    let (cached, copied, dropped) = (Rc::clone(&file), Rc::clone(&file), file);
    let device = device_of(&setting.folder).unwrap_or_else(|| "no device".into());
    Ok(vec![
        Case::new("page fault", "minor, anonymous", COST, || {
            let words = Words::zeroed(ANONYMOUS_BYTES, Pages::Small)?;
            cost_us(ANONYMOUS_BYTES / PAGE_BYTES, &|| store_to_each(&words, WORDS_OF_PAGE))
        }),
        Case::new("page fault", "minor, anonymous, 2 MiB", COST, || {
            let words = Words::zeroed(HUGE_BYTES, Pages::Huge)?;
            let used = &words[..HUGE_BYTES / size_of::<u64>()];
            let pages = HUGE_BYTES / HUGE_PAGE_BYTES;
            cost_us(pages, &|| store_to_each(used, HUGE_PAGE_BYTES / size_of::<u64>()))
        }),
        Case::new("page fault", "minor, file, pages around it too", COST, move || {
            let words = Words::of_file(&cached)?;
            // The kernel maps what lies around a page with it, so not every page is a fault.
            let (elapsed_s, faults) = timed(&|| load_of_each(&words))?;
            if faults == 0 { Err(strange(1, 0)) } else { Ok(elapsed_s * 1e6 / faults as f64) }
        }),
        Case::new("page fault", "copy on write", COST, move || {
            let words = Words::of_file(&copied)?;
            load_of_each(&words);
            cost_us(words.len() / WORDS_OF_PAGE, &|| store_to_each(&words, WORDS_OF_PAGE))
        }),
        Case::new("page fault", format!("major, {device}"), COST, move || major_us(&dropped)),
    ])
}

/// A file on the disk, whose name is gone already.
fn file_of(setting: &Setting) -> Result<File, Error> {
    let folder = &setting.folder;
    let make = || {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(&vec![1; FILE_BYTES])?;
        // What is not on the disk is not dropped from memory.
        file.sync_all()?;
        Ok(file)
    };
    make().map_err(|source: std::io::Error| Error::Refused {
        action: format!("write a file of 32 MiB in '{}', as the folder given by --dir", folder.display()),
        source,
    })
}

fn store_to_each(words: &[AtomicU64], step: usize) {
    words.iter().step_by(step).for_each(|word| word.store(1, Relaxed));
}

fn load_of_each(words: &[AtomicU64]) {
    let pages = words.iter().step_by(WORDS_OF_PAGE);
    std::hint::black_box(pages.fold(0, |sum, word| sum ^ word.load(Relaxed)));
}

/// Pages far from each other, so that none comes with another.
fn major_us(file: &File) -> Result<f64, Error> {
    fadvise(file, 0, None, Advice::DontNeed).map_err(Error::refused("drop a file from memory"))?;
    let words = Words::of_file(file)?;
    let step = words.len() / MAJOR;
    let before = faults()?.1;
    let begun = Instant::now();
    std::hint::black_box(words.iter().step_by(step).fold(0, |sum, word| sum ^ word.load(Relaxed)));
    let elapsed_s = begun.elapsed().as_secs_f64();
    let waited = faults()?.1 - before;
    if (waited as f64) < MAJOR as f64 * (1.0 - BESIDES) {
        return Err(Unsuited::StaysInMemory { waited, expected: MAJOR }.into());
    }
    Ok(elapsed_s * 1e6 / waited as f64)
}

/// Seconds of `touch`, and how many faults it had.
fn timed(touch: &dyn Fn()) -> Result<(f64, u64), Error> {
    let before = faults()?.0;
    let begun = Instant::now();
    touch();
    let elapsed_s = begun.elapsed().as_secs_f64();
    Ok((elapsed_s, faults()?.0 - before))
}

/// Microseconds of each of `expected` faults of `touch`.
fn cost_us(expected: usize, touch: &dyn Fn()) -> Result<f64, Error> {
    let (elapsed_s, faults) = timed(touch)?;
    if (faults as f64 - expected as f64).abs() > (expected as f64 * BESIDES).max(4.0) {
        return Err(strange(expected, faults));
    }
    Ok(elapsed_s * 1e6 / expected as f64)
}

fn strange(expected: usize, faults: u64) -> Error {
    Unsuited::OtherFaults { expected, happened: faults }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_not_measured() {
        let refusal = cost_us(1000, &|| ()).unwrap_err().to_string();
        assert!(refusal.starts_with("1000 page faults were to be measured"), "{refusal}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let setting =
            Setting { quick: true, folder: "/proc".into(), bytes_max: 1 << 20, stream_bytes: 64 << 10 };
        let refusal = cases(&setting).unwrap_err().to_string();
        assert!(refusal.contains("'/proc'") && refusal.contains("--dir"), "{refusal}");
    }
}
