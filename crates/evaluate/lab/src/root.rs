//! Programs that find all of their files in a folder: the root of the file systems that they see.
//!
//! A process of this same program, the *entrance*, mounts what the program shall see in a namespace of its own and waits.
//! It executes the program when the [`Gate`] opens, so that the time from there to the program's end is the program's own.
//! The mounts go with the last process in the namespace, however that ends.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::{Error, sys};

/// Set in the environment of a process that shall become an entrance, to what [`Root::encode`] makes.
const ASKED: &str = "FOREBAY_RIG_ROOT";
/// Longer than any number of mounts takes.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// Exit status of an entrance that cannot do its work, as of env(1).
const FAILURE: i32 = 125;
/// The kernel's own file systems, which every program finds where it expects them.
const OF_THE_KERNEL: [&str; 3] = ["proc", "dev", "sys"];
/// How the folders of rigs begin.
const RIG_FOLDER: &str = "/forebay-rig.";
/// Folders for files that a program needs no longer than it runs.
const IN_MEMORY: &str = "tmp";

/// What a program sees as `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The root of this process.
    Own,
    /// A folder.
    Folder(PathBuf),
    /// A folder below a layer in memory, joined by overlayfs, as the roots of containers are.
    Overlay(PathBuf),
}

/// A root, with folders from elsewhere, and the folder in it that the program starts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// What is seen as `/`.
    pub base: Base,
    /// Folders of this process's root, and the absolute paths at which the program sees them.
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// The working folder, by its path in the root.
    pub working_folder: PathBuf,
}

/// What the program waits at before it is executed.
#[derive(Debug)]
pub struct Gate {
    socket: UnixStream,
}

impl Root {
    /// The command that runs `program` in this root with these variables alone, and the gate that the program waits at. Nothing
    /// is on its standard input. The caller says where the outputs go, and starts it.
    ///
    /// # Errors
    ///
    /// A path with odd characters, or no socket.
    pub fn command(
        &self,
        program: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> Result<(Command, Gate), Error> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| Error::io("make a socket", error))?;
        ours.set_read_timeout(Some(READY_PATIENCE)).map_err(|error| Error::io("set up a socket", error))?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("forebay-rig")
            .args(program)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env(ASKED, self.encode()?)
            .stdin(OwnedFd::from(theirs));
        Ok((command, Gate { socket: ours }))
    }

    /// A line for the base, for the working folder, and for each other folder.
    fn encode(&self) -> Result<String, Error> {
        let (kind, base) = match &self.base {
            Base::Own => ("own", Path::new("/")),
            Base::Folder(folder) => ("folder", folder.as_path()),
            Base::Overlay(folder) => ("overlay", folder.as_path()),
        };
        let folders = self.folders.iter().flat_map(|(from, to)| [from.as_path(), to.as_path()]);
        let mut text = kind.to_owned();
        for path in [base, &self.working_folder].into_iter().chain(folders) {
            let path = path.to_str().filter(|path| !path.contains('\n')).ok_or_else(|| {
                Error::Cleanup(format!("the folder {} has a name with odd characters", path.display()))
            })?;
            text += "\n";
            text += path;
        }
        Ok(text)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (kind, base) = (lines.next()?, PathBuf::from(lines.next()?));
        let base = match kind {
            "own" => Base::Own,
            "folder" => Base::Folder(base),
            "overlay" => Base::Overlay(base),
            _ => return None,
        };
        let working_folder = lines.next()?.into();
        let mut folders = Vec::new();
        while let Some(from) = lines.next() {
            folders.push((from.into(), lines.next()?.into()));
        }
        Some(Self { base, folders, working_folder })
    }

    /// Makes it the root of this process and of no other.
    fn enter(&self) -> Result<(), Error> {
        sys::unshare_mounts().map_err(|error| Error::io("get a namespace of mounts", error))?;
        // What is unmounted elsewhere goes here too; what is mounted here stays here.
        let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", propagation).map_err(|error| Error::io("detach mounts", error))?;
        let root = match &self.base {
            Base::Own => {
                self.bind_folders(Path::new("/"))?;
                let_go_of_rigs();
                return self.change_folder();
            }
            Base::Folder(folder) => {
                bind(folder, folder)?;
                folder.clone()
            }
            Base::Overlay(folder) => join_with_memory(folder)?,
        };
        for name in OF_THE_KERNEL {
            bind(&Path::new("/").join(name), &root.join(name))?;
        }
        mount_memory(&root.join(IN_MEMORY))?;
        self.bind_folders(&root)?;
        change_root(&root)?;
        self.change_folder()
    }

    fn bind_folders(&self, root: &Path) -> Result<(), Error> {
        self.folders.iter().try_for_each(|(from, to)| bind(from, &inside(root, to)))
    }

    fn change_folder(&self) -> Result<(), Error> {
        std::env::set_current_dir(&self.working_folder)
            .map_err(|error| Error::at("change to", &self.working_folder, error))
    }
}

impl Gate {
    /// Waits until the program could be executed.
    ///
    /// # Errors
    ///
    /// The root cannot be had.
    pub fn wait(&self) -> Result<(), Error> {
        let mut line = String::new();
        let heard = BufReader::new(&self.socket).read_line(&mut line);
        match (heard, line.trim_end()) {
            (Ok(_), "") => Err(Error::Cleanup("the entrance of the root is gone".into())),
            (Ok(_), "ready") => Ok(()),
            (Ok(_), why) => Err(Error::Cleanup(why.to_owned())),
            (Err(error), _) => Err(Error::io("wait for the entrance of a root", error)),
        }
    }

    /// Has the program executed.
    ///
    /// # Errors
    ///
    /// The entrance is gone.
    pub fn open(mut self) -> Result<(), Error> {
        self.socket.write_all(b"go\n").map_err(|error| Error::io("open the gate of a root", error))
    }
}

/// Becomes the entrance of a root, and never returns, in a process that [`Root::command`] made. Returns at once in every other.
pub(crate) fn enter_if_asked() {
    let Some(asked) = std::env::var_os(ASKED) else { return };
    let why = execute(&asked.to_string_lossy());
    // The gate tells it while it is shut; then the program's standard error is left.
    eprintln!("forebay: {why}");
    std::process::exit(FAILURE);
}

/// Returns why the program was not executed.
fn execute(asked: &str) -> Error {
    let mut socket = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => UnixStream::from(socket),
        Err(error) => return Error::io("take over the socket", error),
    };
    let Some(root) = Root::decode(asked) else { return Error::Cleanup("no root was named".into()) };
    if let Err(error) = root.enter() {
        let line = error.to_string().replace('\n', " ") + "\n";
        let _ = socket.write_all(line.as_bytes());
        return error;
    }
    let mut go = [0];
    let waited = socket.write_all(b"ready\n").and_then(|()| socket.read_exact(&mut go));
    if let Err(error) = waited {
        return Error::io("wait at the gate", error);
    }
    drop(socket);
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { return Error::Cleanup("no program was named".into()) };
    let failed = Command::new(&program).args(arguments).env_remove(ASKED).stdin(Stdio::null()).exec();
    Error::at("execute", Path::new(&program), failed)
}

/// `path`, which is absolute, in `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn bind(from: &Path, to: &Path) -> Result<(), Error> {
    rustix::mount::mount_bind_recursive(from, to).map_err(|error| Error::at("bind a folder to", to, error))
}

/// Takes the disks of all rigs out of this namespace, so that each can be made cold and be taken down elsewhere.
fn let_go_of_rigs() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The fifth field is the mount point (proc_pid_mountinfo(5)).
    let points = mounts.lines().filter_map(|mount| mount.split(' ').nth(4));
    for point in points.filter(|point| point.contains(RIG_FOLDER)) {
        // One that is gone or busy in another way does no harm here.
        let _ = rustix::mount::unmount(point, UnmountFlags::DETACH);
    }
}

fn mount_memory(place: &Path) -> Result<(), Error> {
    rustix::mount::mount("tmpfs", place, "tmpfs", MountFlags::empty(), c"mode=1777")
        .map_err(|error| Error::at("mount memory at", place, error))
}

/// An overlayfs over `folder`, mounted in memory in its folder for temporary files. Only this namespace has it.
fn join_with_memory(folder: &Path) -> Result<PathBuf, Error> {
    let memory = folder.join(IN_MEMORY);
    mount_memory(&memory)?;
    let [upper, work, joined] = ["upper", "work", "joined"].map(|name| memory.join(name));
    for made in [&upper, &work, &joined] {
        fs::create_dir(made).map_err(|error| Error::at("make", made, error))?;
    }
    let options =
        format!("lowerdir={},upperdir={},workdir={}", folder.display(), upper.display(), work.display());
    let options = std::ffi::CString::new(options).map_err(|error| Error::io("name a layer", error))?;
    rustix::mount::mount("overlay", &joined, "overlay", MountFlags::empty(), options.as_c_str())
        .map_err(|error| Error::at("mount an overlay at", &joined, error))?;
    Ok(joined)
}

/// Makes the mount at `root` the root, and takes all other mounts out of this namespace, so that it holds nobody's disk.
fn change_root(root: &Path) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(|error| Error::at("change to", root, error))?;
    let changed = rustix::process::pivot_root(".", ".")
        .and_then(|()| rustix::mount::unmount(".", UnmountFlags::DETACH));
    // The first root of all, that of an initial RAM disk, cannot be exchanged.
    changed.or_else(|_| rustix::process::chroot(".")).map_err(|error| Error::at("enter", root, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_arrives_as_it_was_sent() {
        for base in [Base::Own, Base::Folder("/a folder".into()), Base::Overlay("/b".into())] {
            for folders in [vec![], vec![("/from".into(), "/to".into()), ("/x".into(), "/y/z".into())]] {
                let root = Root { base: base.clone(), folders, working_folder: "/mnt".into() };
                assert_eq!(Root::decode(&root.encode().unwrap()), Some(root));
            }
        }
        for text in ["", "own", "own\n/", "other\n/\n/mnt", "own\n/\n/mnt\n/from"] {
            assert_eq!(Root::decode(text), None, "{text:?}");
        }
    }
}
