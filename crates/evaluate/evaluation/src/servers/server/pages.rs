//! What it takes a processor to bring a page back that memory had no room for, and to bring a page of new memory.
//!
//! Pages that a fast disk brings back look like computing: the time goes into asking for them. So the same is measured of pages that are
//! out of memory, beside others that are in it: of documents of the same size, or one page here and there. What evicting others takes
//! comes on top, so that less is told than it is.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::experiments::Load;
use forebay_linux::kernel_text;
use forebay_results::median;
use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

const PAGE_BYTES: usize = 4096;
/// Pieces that are read.
const PIECES: usize = 256;
/// Pieces larger than this tell what smaller ones do.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// So often, each out of memory and in it.
const ROUNDS: usize = 5;
/// New memory that is touched at a time: more than an allocator keeps, which is up to 32 MiB.
const NEW_BYTES: usize = 48 << 20;
/// Between two pieces, so that nobody reads one ahead.
const APART_BYTES: usize = 64 << 10;

/// Seconds of processor time for each page, where the file system of `folder` has a disk.
pub(super) fn back_s(folder: &Path, load: &Load) -> io::Result<Option<f64>> {
    let piece = match load {
        Load::Documents { bytes, .. } => (*bytes as usize).clamp(1, PIECE_BYTES_MAX),
        _ => PAGE_BYTES,
    };
    let path = folder.join("pages");
    let measured = measure(&path, piece);
    fs::remove_file(&path)?;
    let (cold_s, warm_s) = measured?;
    let pages = (PIECES * piece.div_ceil(PAGE_BYTES)) as f64;
    Ok(Some((cold_s - warm_s) / pages).filter(|seconds| *seconds > 0.0))
}

/// Seconds of processor time for each page fault of new memory, with what giving the memory back takes; `None` where the kernel
/// does not count faults.
pub(super) fn new_s() -> Option<f64> {
    let costs: Vec<f64> = (0..ROUNDS)
        .filter_map(|_| {
            let (begun_s, faults) = (processor_s(), faults()?);
            let mut memory = vec![0u8; NEW_BYTES];
            memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
            drop(black_box(memory));
            let came = self::faults()?.checked_sub(faults).filter(|faults| *faults > 0)?;
            Some((processor_s() - begun_s) / came as f64)
        })
        .collect();
    median(&costs)
}

/// Page faults of this thread that waited for nothing.
fn faults() -> Option<u64> {
    let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
    kernel_text::ProcessStat::parse(&stat).map(|stat| stat.own.minor_faults)
}

/// Processor time of reading all pieces out of memory, and in it: medians, because what else the machine does comes in between.
fn measure(path: &Path, piece: usize) -> io::Result<(f64, f64)> {
    let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
    let distance = piece.next_multiple_of(PAGE_BYTES) + APART_BYTES;
    let content = vec![7; distance];
    (0..PIECES).try_for_each(|_| file.write_all(&content))?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::Random)?;
    let mut buffer = vec![0; piece];
    let mut read_all = || -> io::Result<f64> {
        let begun = processor_s();
        // In no order: what follows is not what a disk has ready.
        (0..PIECES).try_for_each(|number| {
            file.read_exact_at(&mut buffer, (number * 101 % PIECES * distance) as u64)
        })?;
        Ok(processor_s() - begun)
    };
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        cold.push(read_all()?);
        warm.push(read_all()?);
    }
    Ok((median(&cold).unwrap_or_default(), median(&warm).unwrap_or_default()))
}

fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiments::Prints;

    #[test]
    fn new_pages_take_less_than_pages_of_a_slow_disk() {
        let seconds = new_s().unwrap();
        assert!((1e-8..1e-3).contains(&seconds), "{seconds}");
    }

    #[test]
    fn pages_of_a_disk_take_a_processor_some_microseconds_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let load = Load::Command {
            arguments: vec![],
            with_fewer_clients: BTreeMap::new(),
            prints: Prints::default(),
        };
        if let Some(seconds) = back_s(folder.path(), &load).unwrap() {
            assert!((1e-8..1e-2).contains(&seconds), "{seconds}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
