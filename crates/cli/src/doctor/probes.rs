//! The probes of the machine that doctor makes.

use std::{
    env,
    ffi::CStr,
    fs::{self, File},
    io::{self, IoSliceMut},
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    path::Path,
    process::Command,
};

use forebay_lab::{Error as LabError, MemoryLimit};
use forebay_linux::{cachestat, kernel_text, limit};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::process::{Resource, geteuid};

use super::Remedy;

/// Where the dynamic loader finds libraries besides what its cache lists.
const LIBRARY_FOLDERS: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib"];

/// Whether the dynamic loader would find a library. This binary is static, so the probe searches as the loader does.
pub fn has_library(name: &str) -> bool {
    let listed = |ldconfig: &str| {
        let output = Command::new(ldconfig).arg("-p").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(name))
    };
    let set = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders = env::split_paths(&set).chain(LIBRARY_FOLDERS.map(Into::into));
    folders.any(|folder| folder.join(name).exists()) || listed("ldconfig") || listed("/sbin/ldconfig")
}

/// Whether a program is on PATH or in the folders of administration, where `forebay evaluate` looks as well.
pub fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/local/sbin".into(), "/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).any(|file| file.is_file())
}

/// Whether GStreamer's streaming server can be built here, and films encoded.
pub fn has_gstreamer_server() -> bool {
    let succeeds = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    ["cc", "gst-launch-1.0"].iter().all(|program| has_program(program))
        && succeeds("pkg-config", &["--exists", "gstreamer-rtsp-server-1.0"])
        && ["x264enc", "h264parse", "mp4mux", "rtph264pay"]
            .iter()
            .all(|part| succeeds("gst-inspect-1.0", &[part]))
}

pub fn has_real_time() -> bool {
    geteuid().is_root()
        || limit(Resource::Rtprio).is_some_and(|limit| limit.current.is_none_or(|most| most > 1))
}

pub fn has_steady_counter() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = kernel_text::field(&text, "flags").unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|wanted| flags.split(' ').any(|flag| flag == *wanted))
}

/// Whether the hard limit of this process allows `count` open files.
pub fn has_descriptors(count: u64) -> bool {
    limit(Resource::Nofile).is_some_and(|limit| limit.maximum.is_none_or(|most| most >= count))
}

/// Whether sockets may have send buffers as large as `forebay serve` requests.
pub fn has_socket_buffers() -> bool {
    let text = fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap_or_default();
    text.trim().parse::<usize>().is_ok_and(|most| most >= forebay_server::KERNEL_BYTES)
}

/// Whether the default port of `forebay serve` is free.
pub fn has_free_port() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, forebay_server::PORT))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, forebay_server::PORT)))
        .is_ok()
}

/// What evaluate lacks of the rights of root. Root of a user namespace has none over the devices of the machine.
pub fn why_no_root() -> Option<Remedy> {
    if !geteuid().is_root() {
        return Some("run the command with sudo".into());
    }
    let map = fs::read_to_string("/proc/self/uid_map");
    let is_outermost = map.map_or(true, |map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    (!is_outermost).then(|| "run the command as root of the machine, outside of this user namespace".into())
}

/// What evaluate server router lacks.
pub fn why_no_network_namespaces() -> Option<Remedy> {
    if !["ip", "unshare", "nsenter"].iter().all(|tool| has_program(tool)) {
        return Some("install the tools with: apt install iproute2 util-linux".into());
    }
    if !geteuid().is_root() {
        return Some("run the command with sudo".into());
    }
    let is_there = Path::new("/proc/self/ns/net").exists();
    (!is_there).then(|| "mount /proc, and run a kernel built with CONFIG_NET_NS".into())
}

/// What limits of memory lack, as the command says that needs one.
pub fn why_no_memory_limit() -> Option<Remedy> {
    match MemoryLimit::supported().err()? {
        LabError::Unsupported { how_to_enable, .. } => {
            let mut chars = how_to_enable.trim_end_matches('.').chars();
            let first = chars.next().map(|first| first.to_ascii_lowercase());
            Some(first.into_iter().chain(chars).collect::<String>().into())
        }
        error => Some(error.to_string().into()),
    }
}

/// Asks the file system of the working folder, or that of the forebay binary if the folder is read-only.
pub fn has_rwf_nowait() -> bool {
    let supports = |file: &File| {
        let mut byte = [0u8];
        let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
        matches!(read, Ok(_) | Err(Errno::AGAIN))
    };
    let file = unnamed_file(c".").or_else(|_| File::open("/proc/self/exe"));
    file.is_ok_and(|file| supports(&file))
}

/// Why cachestat does not work, as its remedy. The probe uses a file of its own: the kernel refuses to report on files of
/// other users.
pub fn why_no_cachestat() -> Option<Remedy> {
    let own = unnamed_file(c".").or_else(|_| unnamed_file(c"/tmp")).or_else(|_| unnamed_file(c"/dev/shm"));
    match own {
        Ok(file) => remedy_for_cachestat(cachestat(&file).map(drop)).map(Into::into),
        Err(_) => Some("ask in a folder that can be written, such as /tmp".into()),
    }
}

fn remedy_for_cachestat(said: io::Result<()>) -> Option<&'static str> {
    match Errno::from_io_error(&said.err()?) {
        Some(Errno::NOSYS) => Some("run Linux 6.5 or later, in a container whose profile allows cachestat"),
        // On a file of its own owner, the refusal comes from a seccomp filter.
        Some(Errno::PERM | Errno::ACCESS) => {
            Some("the kernel has it: run in a container whose profile allows cachestat")
        }
        _ => Some("keep data on ext4, xfs or btrfs"),
    }
}

/// An unnamed file in a folder.
fn unnamed_file(folder: &CStr) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat2(CWD, folder, flags, Mode::RUSR | Mode::WUSR, ResolveFlags::empty()).map(File::from)
}

pub fn has_resolve_cached() -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::CACHED);
    matches!(opened, Ok(_) | Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_cachestat_has_its_remedy() {
        let remedy = |error: Errno| remedy_for_cachestat(Err(error.into())).unwrap();
        assert!(remedy(Errno::NOSYS).contains("Linux 6.5"));
        assert!(remedy(Errno::PERM).contains("profile") && !remedy(Errno::PERM).contains("Linux"));
        assert!(remedy(Errno::OPNOTSUPP).contains("ext4"));
        assert_eq!(remedy_for_cachestat(Ok(())), None);
    }
}
