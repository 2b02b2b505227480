//! Reads the list of mounts, and what sysfs says of their devices, for the kinds of file systems.

use forebay_policy::price::READ_AHEAD_FAR_KIB;
use forebay_protocol::mounts::{BlockDevice, Mount};
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::turn::Turn;
use forebay_sigsafe::{sys, text};

use crate::attributes;

const BYTES: usize = 8192;
/// Buffers of the list that are looked through.
const BUFFERS_MAX: usize = 256;
/// The longest path that is looked at: of a mount, or in sysfs.
const PATH_BYTES: usize = 256;
/// All readers are alike.
const READER: usize = 1;

/// In use while the list is read: so it is never in use in a forked child that becomes an original.
static LIST: Turn<[u8; BYTES]> = Turn::new([0; BYTES]);

/// What kind of file system is on this device (`st_dev`), in bits of `file_system`; `None` where that cannot be told now.
#[inline(never)]
pub fn kind(device: u64) -> Option<u32> {
    let mut list = LIST.enter(READER)?;
    // SAFETY: the calls take a terminated path, and a buffer that is as large as they are told.
    unsafe {
        let flags = n::O_RDONLY | n::O_CLOEXEC;
        let file = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/mountinfo".as_ptr(), flags);
        if file < 0 {
            return None;
        }
        let (mut found, mut kept, mut at) = (None, 0usize, 0usize);
        for _ in 0..BUFFERS_MAX {
            let room = BYTES.saturating_sub(kept);
            let read = sys!(n::__NR_pread64, file, list.as_mut_ptr().add(kept.min(BYTES)), room, at);
            let Some(read) = usize::try_from(read).ok().filter(|read| *read > 0) else { break };
            at += read;
            let filled = kept.saturating_add(read).min(BYTES);
            let lines = list.get(..filled).unwrap_or_default();
            let whole = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let mut lines_of = lines.get(..whole).unwrap_or_default().split(|&byte| byte == b'\n');
            found = lines_of.find_map(|line| kind_of(line, device));
            if found.is_some() {
                break;
            }
            // A line that fills the buffer is none of these.
            let whole = if whole == 0 { filled } else { whole };
            kept = filled - whole;
            for index in 0..kept {
                let byte = list.get(whole + index).copied().unwrap_or(0);
                if let Some(place) = list.get_mut(index) {
                    *place = byte;
                }
            }
        }
        let _ = sys!(n::__NR_close, file);
        Some(found.unwrap_or(0))
    }
}

/// What the line says of the device, if it is about that.
fn kind_of(line: &[u8], device: u64) -> Option<u32> {
    let mount = Mount::parse(line)?;
    let is_of = mount.is_of(attributes::major_and_minor(device), device_at);
    is_of.then(|| mount.kind(READ_AHEAD_FAR_KIB, said))
}

/// What a place tells of its device.
fn device_at(path: &[u8]) -> Option<(u32, u32)> {
    let mut terminated = PathBuffer::<PATH_BYTES>::new();
    let stat = if terminated.push(path) { attributes::at(&terminated) } else { None };
    stat.map(|stat| attributes::major_and_minor(stat.st_dev))
}

/// The number in the first of these files of sysfs that there is.
fn said(device: &BlockDevice<'_>, files: [&str; 2]) -> Option<u64> {
    files.iter().find_map(|name| {
        let mut path = PathBuffer::<PATH_BYTES>::new();
        let is_whole = match *device {
            BlockDevice::Number(major, minor) => {
                path.push(b"/sys/dev/block/")
                    && path.push_number(major.into())
                    && path.push(b":")
                    && path.push_number(minor.into())
            }
            BlockDevice::Name(name) => path.push(b"/sys/class/block/") && path.push(name),
        };
        if is_whole && path.push(b"/") && path.push(name.as_bytes()) { number_in(&path) } else { None }
    })
}

fn number_in(path: &PathBuffer<PATH_BYTES>) -> Option<u64> {
    let mut digits = [0u8; 20];
    // SAFETY: a terminated path, and a local as long as the call is told.
    let read = unsafe {
        let file = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC);
        let read = sys!(n::__NR_read, file, digits.as_mut_ptr(), digits.len());
        let _ = sys!(n::__NR_close, file);
        read
    };
    let digits = digits.get(..usize::try_from(read).ok()?)?;
    text::parse_decimal(digits).map(|(number, _)| number)
}
