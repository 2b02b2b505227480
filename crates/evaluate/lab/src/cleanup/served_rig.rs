//! The rig as its cleanup process has it: built up from below, taken down from above.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::leftovers;
use super::protocol::{Answer, Layer, Order};
use crate::rig::loop_device::LoopDevice;
use crate::rig::remote::{Remote, RemoteMount};
use crate::rig::server::Server;
use crate::rig::{Device, file_system, memory_group, mounts, swap};
use crate::{Error, Profile};

const READ_AHEAD_KIB: u32 = 128;
/// How long making the disk cold waits for those who still use it.
const COLD_PATIENCE: Duration = Duration::from_secs(5);
/// How long it then waits for other namespaces of mounts, each of which may have the file system still.
const NAMESPACE_PATIENCE: Duration = Duration::from_secs(1);
/// How long the FUSE server may take to notice that nobody uses the image any more.
const SERVER_PATIENCE: Duration = Duration::from_secs(2);
/// Folders that may be left of others with the same process id.
const FOLDERS_TRIED_MAX: u32 = 1_000;

/// Whatever of a rig there is at the moment. Dropping it takes it down.
#[derive(Debug, Default)]
pub(super) struct ServedRig {
    layer: Option<Layer>,
    folder: Option<PathBuf>,
    server: Option<Server>,
    slow: bool,
    filling: bool,
    device: Option<Arc<Device>>,
    disk: Option<LoopDevice>,
    remote: Option<(Arc<Remote>, Option<RemoteMount>)>,
}

impl ServedRig {
    pub(super) fn obey(&mut self, order: Order) -> Result<Answer, Error> {
        match order {
            Order::Start { layer, profile, size_bytes, parent } => {
                let started = self.start(layer, profile, size_bytes, &parent);
                if started.is_err() {
                    // The reason for failing says more than what it leads to.
                    let _ = self.remove();
                }
                return started.map_err(|error| without_right(layer, error));
            }
            Order::Slow(on) => self.set_slow(on),
            Order::Opens(opens) => {
                let (remote, _) =
                    self.remote.as_ref().ok_or_else(|| Error::Cleanup("nothing is remote".into()))?;
                remote.set_opens(opens);
            }
            Order::Cold => self.make_cold()?,
            Order::Filling(on) => self.set_filling(on)?,
            Order::ReadAhead(kib) => {
                if let Some(disk) = &self.disk {
                    disk.set_read_ahead_kib(kib)?;
                }
            }
            Order::Stats => {
                let of_remote = self.remote.as_ref().map(|(remote, _)| remote.stats());
                let stats = self.device.as_ref().map(|device| device.stats()).or(of_remote);
                return Ok(Answer::Counted(stats.unwrap_or_default()));
            }
            Order::ResetStats => {
                if let Some(device) = &self.device {
                    device.reset_stats();
                }
                if let Some((remote, _)) = &self.remote {
                    remote.reset_stats();
                }
            }
            Order::Stop => self.remove()?,
        }
        Ok(Answer::Done)
    }

    fn start(
        &mut self,
        layer: Layer,
        profile: Profile,
        size_bytes: u64,
        parent: &Path,
    ) -> Result<Answer, Error> {
        if self.layer.is_some() {
            return Err(Error::Cleanup("it has a rig already".into()));
        }
        self.layer = Some(layer);
        if layer != Layer::Swap {
            self.folder = Some(new_folder(parent)?);
        }
        if let (Layer::MemoryGroup, Some(group)) = (layer, &self.folder) {
            memory_group::set_limit(group, size_bytes)?;
        } else if let (Layer::Remote, Some(folder), Some(latency)) = (layer, &self.folder, profile.latency())
        {
            let mount_point = leftovers::mount_point(layer, folder);
            fs::create_dir(&mount_point).map_err(|error| Error::at("make", &mount_point, error))?;
            let remote = Arc::new(Remote::new(latency));
            let mount = RemoteMount::start(Arc::clone(&remote), &mount_point)?;
            self.remote = Some((remote, Some(mount)));
        } else if let Some(latency) = profile.latency() {
            let device = Arc::new(Device::new(latency));
            self.device = Some(Arc::clone(&device));
            let server = self.server.insert(Server::start(device, size_bytes.next_multiple_of(4096))?);
            let image = server.open_image()?;
            let disk = LoopDevice::attach(std::os::fd::AsFd::as_fd(&image))?;
            server.release();
            disk.set_not_rotational()?;
            // The kernel's own choice for a device without a say in it varies with its version.
            disk.set_read_ahead_kib(READ_AHEAD_KIB)?;
            self.disk = Some(disk);
        }
        if let (Layer::Disk(file_system), Some(folder), Some(disk)) = (layer, &self.folder, &self.disk) {
            let mount_point = leftovers::mount_point(layer, folder);
            for made in [&mount_point, &file_system::upper_layer(&mount_point)] {
                fs::create_dir(made).map_err(|error| Error::at("make", made, error))?;
            }
            file_system.make(disk.path())?;
            self.filling = file_system.is_filled_apart();
            file_system.mount(disk.path(), &mount_point, self.filling)?;
        }
        if let (Layer::Swap, Some(disk)) = (layer, &self.disk) {
            swap::make(disk.path())?;
            swap::start(disk.path())?;
        }
        if let (Layer::SwapFile, Some(folder)) = (layer, &self.folder) {
            let file = leftovers::swap_file(folder);
            swap::allocate(&file, size_bytes)?;
            swap::make(&file)?;
            swap::start_file(&file)?;
        }
        if let Some(device) = &self.device {
            device.reset_stats();
        }
        let device = self.disk.as_ref().map(|disk| disk.path().to_owned());
        Ok(Answer::Started { folder: self.folder.clone(), device })
    }

    fn set_slow(&mut self, slow: bool) {
        self.slow = slow;
        if let Some(device) = &self.device {
            device.set_slow(slow);
        }
        if let Some((remote, _)) = &self.remote {
            remote.set_slow(slow);
        }
    }

    fn set_filling(&mut self, filling: bool) -> Result<(), Error> {
        let (Some(layer @ Layer::Disk(file_system)), Some(folder), Some(disk)) =
            (self.layer, &self.folder, &self.disk)
        else {
            return Err(Error::Cleanup("there is no file system to fill".into()));
        };
        let mount_point = leftovers::mount_point(layer, folder);
        mounts::unmount(&mount_point, COLD_PATIENCE)?;
        if !filling {
            file_system.pack(disk.path(), &mount_point)?;
            disk.flush_buffers()?;
        }
        self.filling = filling;
        file_system.mount(disk.path(), &mount_point, filling)
    }

    fn make_cold(&mut self) -> Result<(), Error> {
        if let (Some(Layer::Remote), Some(folder), Some((remote, mount))) =
            (self.layer, &self.folder, &mut self.remote)
        {
            let mount_point = leftovers::mount_point(Layer::Remote, folder);
            mounts::unmount(&mount_point, COLD_PATIENCE)?;
            if let Some(mount) = mount.take() {
                mount.join();
            }
            *mount = Some(RemoteMount::start(Arc::clone(remote), &mount_point)?);
            return Ok(());
        }
        let (Some(layer @ Layer::Disk(file_system)), Some(folder), Some(disk), Some(device)) =
            (self.layer, &self.folder, &self.disk, &self.device)
        else {
            return Err(Error::Cleanup("there is no file system to make cold".into()));
        };
        let mount_point = leftovers::mount_point(layer, folder);
        device.set_slow(false);
        let remounted = mounts::unmount(&mount_point, COLD_PATIENCE).and_then(|()| {
            let is_gone = disk.is_let_go(NAMESPACE_PATIENCE);
            // The mount is put back whatever the flush says.
            let flushed = disk.flush_buffers();
            let mounted = file_system.mount(disk.path(), &mount_point, self.filling);
            let evicted = if is_gone { Ok(()) } else { evict_all(&mount_point) };
            mounted.and(flushed).and(evicted)
        });
        device.set_slow(self.slow);
        remounted
    }

    /// Takes everything down. Does what it can and returns the first failure.
    pub(super) fn remove(&mut self) -> Result<(), Error> {
        // What is still to be written back need not take its time.
        self.set_slow(false);
        let Some(layer) = self.layer.take() else { return Ok(()) };
        let disk = self.disk.take();
        let device = disk.as_ref().map(|disk| disk.path().to_owned());
        let folder = self.folder.take();
        let left = leftovers::remove(layer, folder.as_deref(), device.as_deref());
        if left.is_err() && layer == Layer::SwapFile {
            // Where memory does not suffice now, it may at the next try.
            (self.layer, self.folder) = (Some(layer), folder);
        }
        let detached = disk.map_or(Ok(()), LoopDevice::detach);
        let server = self.server.take();
        self.device = None;
        left.and(detached)?;
        if let Some((_, mount)) = self.remote.take() {
            // Its threads end with the process where it is still in use.
            drop(mount);
        }
        // Without its loop device the image has no user left.
        server.map_or(Ok(()), |mut server| {
            server.release();
            wait_for_end(&server)
        })
    }
}

impl Drop for ServedRig {
    fn drop(&mut self) {
        // Whoever wants to know what went wrong has called it before.
        let _ = self.remove();
    }
}

/// Empties the caches of the whole machine: another namespace has the file system, so that unmounting it has emptied none.
fn evict_all(mount_point: &Path) -> Result<(), Error> {
    let folder = fs::File::open(mount_point).map_err(|error| Error::at("open", mount_point, error))?;
    rustix::fs::syncfs(&folder).map_err(|error| Error::at("sync", mount_point, error))?;
    let everything = "/proc/sys/vm/drop_caches";
    fs::write(everything, "3").map_err(|error| Error::at("write to", Path::new(everything), error))
}

fn wait_for_end(server: &Server) -> Result<(), Error> {
    let give_up = Instant::now() + SERVER_PATIENCE;
    while !server.has_ended() {
        if Instant::now() > give_up {
            return Err(Error::Cleanup("something still has its image open".into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn new_folder(parent: &Path) -> Result<PathBuf, Error> {
    let owner = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    for number in 0..FOLDERS_TRIED_MAX {
        let folder = parent.join(format!("forebay-rig.{owner}.{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::at("make", &folder, error)),
        }
    }
    Err(Error::Cleanup(format!("{} is full of folders of other rigs", parent.display())))
}

/// Root that may not mount is a container's.
fn without_right(layer: Layer, error: Error) -> Error {
    match error {
        Error::Io { what, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Unsupported {
                feature: layer.feature().into(),
                needs: format!("the right to {what}"),
                how_to_enable: "In a container, run it with --privileged.".into(),
            }
        }
        other => other,
    }
}
