//! A disk by depth: random reads of 4 KiB past the page cache, by as many threads as there are to be under way at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::machine::device_of;
use crate::{Case, Error, Setting, Unsuited};

const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const READ_BYTES: usize = 4096;
const FILE_BYTES: usize = 256 << 20;
const FILE_BYTES_QUICK: usize = 64 << 20;
/// A sample takes so long.
const SAMPLE: Duration = Duration::from_millis(60);

/// Reads a second by depth.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    let bytes = if setting.quick { FILE_BYTES_QUICK } else { FILE_BYTES };
    let file = Rc::new(file_in(setting, bytes)?);
    let device = device_of(&setting.folder).unwrap_or_else(|| "no device".into());
    let cases = DEPTHS.map(|depth| {
        let file = Rc::clone(&file);
        Case::new(format!("disk {device}"), format!("4 KiB/depth {depth}"), ("reads", "1/s"), move || {
            reads_s(&file, bytes, depth).map_err(Error::refused("read past the page cache"))
        })
    });
    Ok(cases.into())
}

/// A file on the disk, open for reads past the page cache. Its name is gone already.
fn file_in(setting: &Setting, bytes: usize) -> Result<File, Error> {
    let folder = setting.folder.display();
    let make = || -> io::Result<File> {
        let mut named = tempfile::NamedTempFile::new_in(&setting.folder)?;
        // A disk might keep blocks that are alike once.
        let mut random = fastrand::Rng::with_seed(2);
        let mut block = vec![0; 1 << 20];
        for _ in 0..bytes / block.len() {
            random.fill(&mut block);
            named.write_all(&block)?;
        }
        named.as_file().sync_all()?;
        OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(named.path())
    };
    make().map_err(|source| match source.kind() {
        io::ErrorKind::InvalidInput => Unsuited::NoDirectReads { folder: folder.to_string() }.into(),
        _ => Error::refused(format!(
            "write a file of {} MiB in '{folder}', the folder given by --dir",
            bytes >> 20
        ))(source),
    })
}

/// How many reads a second `depth` threads get.
fn reads_s(file: &File, bytes: usize, depth: usize) -> io::Result<f64> {
    let begun = Instant::now();
    let done = thread::scope(|scope| {
        let readers: Vec<_> = (0..depth)
            .map(|number| {
                scope.spawn(move || {
                    // Any two readers and samples go to other places.
                    let mut random =
                        fastrand::Rng::with_seed(begun.elapsed().as_nanos() as u64 ^ (number as u64) << 32);
                    let mut memory = vec![0; 2 * READ_BYTES];
                    let skip = memory.as_ptr().align_offset(READ_BYTES);
                    let buffer = &mut memory[skip..skip + READ_BYTES];
                    let mut reads = 0u64;
                    // A reader that began late, on a busy machine, reads once all the same.
                    loop {
                        let place = random.usize(..bytes / READ_BYTES) * READ_BYTES;
                        file.read_exact_at(buffer, place as u64)?;
                        reads += 1;
                        if begun.elapsed() >= SAMPLE {
                            return Ok(reads);
                        }
                    }
                })
            })
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader does not panic"))
            .sum::<io::Result<u64>>()
    })?;
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_used_is_named_with_a_remedy() {
        let setting =
            Setting { quick: true, folder: "/proc/self".into(), bytes_max: 1 << 20, stream_bytes: 64 << 10 };
        let refusal = cases(&setting).unwrap_err().to_string();
        assert!(refusal.contains("'/proc/self'") && refusal.contains("--dir"), "{refusal}");
    }
}
