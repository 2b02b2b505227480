//! A loop device over an opened image, without a cache between the two.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, sys};

/// As many devices are tried as others could take at the same moment.
const ATTEMPTS_MAX: usize = 64;
const DETACH_PATIENCE: Duration = Duration::from_secs(1);

/// The device has the image as long as this, or a mount, or swap, has the device.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    device: File,
}

impl LoopDevice {
    pub(crate) fn attach(image: BorrowedFd<'_>) -> Result<Self, Error> {
        let control =
            File::open("/dev/loop-control").map_err(|error| Error::io("open /dev/loop-control", error))?;
        for _ in 0..ATTEMPTS_MAX {
            let number =
                sys::free_loop_device(&control).map_err(|error| Error::io("find a loop device", error))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(|error| Error::at("open", &path, error))?;
            match sys::configure_loop_device(&device, image, "forebay-slow-disk") {
                Ok(()) => {
                    let device = Self { path, device };
                    device.insist_on_direct_io()?;
                    return Ok(device);
                }
                // Somebody else was faster.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(Error::at("configure", &path, error)),
            }
        }
        Err(Error::Cleanup("every free loop device was taken by somebody else first".into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Drops every block of the device that the kernel has in memory.
    pub(crate) fn flush_buffers(&self) -> Result<(), Error> {
        sys::flush_block_buffers(&self.device).map_err(|error| Error::at("flush", &self.path, error))
    }

    /// How far the kernel reads ahead in a file that is read in order.
    pub(crate) fn set_read_ahead_kib(&self, kib: u32) -> Result<(), Error> {
        self.set_attribute("queue/read_ahead_kb", &kib.to_string())
    }

    /// File systems and swap treat the device as one without moving parts.
    pub(crate) fn set_not_rotational(&self) -> Result<(), Error> {
        self.set_attribute("queue/rotational", "0")
    }

    /// Waits until no file system is mounted from it in any namespace, for as long as `patience`; tells whether that is so.
    pub(crate) fn is_let_go(&self, patience: Duration) -> bool {
        let give_up = Instant::now() + patience;
        loop {
            // A mounted file system has its device for itself (open(2), O_EXCL).
            let exclusive = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.path);
            match exclusive {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => return opened.is_ok(),
            }
        }
    }

    /// Gives the image back and waits until it is given back.
    pub(crate) fn detach(self) -> Result<(), Error> {
        let backing = self.attribute_path("loop/backing_file");
        // With another user the kernel does it when that one is gone; ENXIO: it is done already.
        match sys::clear_loop_device(&self.device) {
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => {
                return Err(Error::at("detach", &self.path, error));
            }
            _ => drop(self.device),
        }
        let give_up = Instant::now() + DETACH_PATIENCE;
        while backing.exists() {
            if Instant::now() > give_up {
                return Err(Error::Busy {
                    path: self.path,
                    users: "a mount, swap or an open descriptor".into(),
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn insist_on_direct_io(&self) -> Result<(), Error> {
        let path = self.attribute_path("loop/dio");
        let dio = std::fs::read_to_string(&path).map_err(|error| Error::at("read", &path, error))?;
        if dio.trim() == "1" {
            return Ok(());
        }
        Err(Error::Unsupported {
            feature: "The slow disk".into(),
            needs: "direct I/O from a loop device to a FUSE file".into(),
            how_to_enable: "Use Linux 5.10 or later.".into(),
        })
    }

    fn set_attribute(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.attribute_path(name);
        std::fs::write(&path, value).map_err(|error: io::Error| Error::at("write", &path, error))
    }

    fn attribute_path(&self, name: &str) -> PathBuf {
        let device = self.path.file_name().unwrap_or_default();
        Path::new("/sys/block").join(device).join(name)
    }
}
