//! The array whose slices are read: rows of 1,024 elements of 8 bytes, in one file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::harness::random::Random;

const CHUNK_BYTES: u64 = 1 << 20;

/// Writes `bytes` bytes of array, in whole MiB, to `path` and on to the device.
pub(crate) fn write(path: &Path, bytes: u64) -> io::Result<()> {
    let mut random = Random::new(bytes);
    let mut file = File::create(path)?;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES as usize);
    for _ in 0..bytes / CHUNK_BYTES {
        chunk.clear();
        chunk.extend((0..CHUNK_BYTES / 8).flat_map(|_| random.next().to_le_bytes()));
        file.write_all(&chunk)?;
    }
    file.sync_all()
}
