//! Taking down what a rig put into the tree of directories. The cleanup process does it, and its owner should the cleanup process be
//! killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_linux::kernel_text;

use super::protocol::Layer;
use crate::rig::{file_system, memory_group, mounts};
use crate::{Error, sys};

/// How long a disk, or a folder that fills again while it is emptied, may still be in use.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the file system is mounted, in a rig's folder.
pub(super) fn mount_point(layer: Layer, folder: &Path) -> PathBuf {
    match layer {
        Layer::Folder | Layer::Swap | Layer::SwapFile | Layer::MemoryGroup => folder.to_owned(),
        Layer::Disk(_) | Layer::Remote => folder.join("disk"),
    }
}

/// The file that is swapped to, in a rig's folder.
pub(super) fn swap_file(folder: &Path) -> PathBuf {
    folder.join("swap")
}

/// Stops using `device` and removes `folder`. What is not there is fine; every step is tried; the first failure is told.
pub(super) fn remove(layer: Layer, folder: Option<&Path>, device: Option<&Path>) -> Result<(), Error> {
    let swap = device.map_or(Ok(()), stop_swapping);
    let Some(folder) = folder else { return swap };
    match layer {
        Layer::Folder => return swap.and(remove_with_contents(folder)),
        Layer::SwapFile => {
            return swap
                .and(stop_swapping_to_file(&swap_file(folder)))
                .and_then(|()| remove_with_contents(folder));
        }
        Layer::MemoryGroup => return swap.and(memory_group::remove(folder, PATIENCE)),
        Layer::Swap | Layer::Disk(_) | Layer::Remote => {}
    }
    let mount_point = mount_point(layer, folder);
    // Lazily if it stays in use; that call also says what else may be wrong, or that nothing is mounted.
    let unmounted = mounts::unmount(&mount_point, PATIENCE).or_else(|_| mounts::unmount_lazily(&mount_point));
    let emptied = match layer {
        // What the image was made of.
        Layer::Disk(file_system) if file_system.is_image() => {
            unmounted.and_then(|()| remove_with_contents(&mount_point))
        }
        _ => unmounted.and(remove_empty(&mount_point)),
    };
    swap.and(emptied).and(remove_empty(&file_system::upper_layer(&mount_point))).and(remove_empty(folder))
}

fn stop_swapping(device: &Path) -> Result<(), Error> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if kernel_text::swaps(&swaps).any(|swap| Path::new(swap.path) == device) {
        sys::swap_off(device).map_err(|error| Error::at("stop swapping to", device, error))?;
    }
    Ok(())
}

/// The kernel tells of a file by another name than ours where that leads through a link or has a blank. So it is not asked.
fn stop_swapping_to_file(file: &Path) -> Result<(), Error> {
    match sys::swap_off(file) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
            Err(Error::at("stop swapping to", file, error))
        }
        _ => Ok(()),
    }
}

fn remove_with_contents(folder: &Path) -> Result<(), Error> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Somebody is still writing.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result.map_err(|error| Error::at("remove", folder, error)),
        }
    }
}

fn remove_empty(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at("remove", folder, error)),
        _ => Ok(()),
    }
}
