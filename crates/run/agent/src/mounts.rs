//! Reads the list of mounts for the kinds of file systems.

use forebay_protocol::mounts::Mount;
use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;
use forebay_sigsafe::turn::Turn;

const BYTES: usize = 8192;
/// Buffers of the list that are looked through.
const BUFFERS_MAX: usize = 256;
/// All readers are alike.
const READER: usize = 1;

/// In use while the list is read: so it is never in use in a forked child that becomes an original.
static LIST: Turn<[u8; BYTES]> = Turn::new([0; BYTES]);

/// Whether the file system on this device (`st_dev`) is remote; `None` where that cannot be told now.
#[inline(never)]
pub fn is_remote(device: u64) -> Option<bool> {
    let mut list = LIST.enter(READER)?;
    // SAFETY: the calls take a terminated path, and a buffer that is as large as they are told.
    unsafe {
        let flags = n::O_RDONLY | n::O_CLOEXEC;
        let file = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/mountinfo".as_ptr(), flags);
        if file < 0 {
            return None;
        }
        let (mut found, mut kept, mut at) = (false, 0usize, 0usize);
        for _ in 0..BUFFERS_MAX {
            let room = BYTES.saturating_sub(kept);
            let read = sys!(n::__NR_pread64, file, list.as_mut_ptr().add(kept.min(BYTES)), room, at);
            let Some(read) = usize::try_from(read).ok().filter(|read| *read > 0) else { break };
            at += read;
            let filled = kept.saturating_add(read).min(BYTES);
            let lines = list.get(..filled).unwrap_or_default();
            let whole = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            found |= lines
                .get(..whole)
                .unwrap_or_default()
                .split(|&byte| byte == b'\n')
                .any(|line| is_line_of(line, device));
            if found {
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
        Some(found)
    }
}

/// Whether the line is that of a remote file system on this device.
fn is_line_of(line: &[u8], device: u64) -> bool {
    Mount::parse(line).is_some_and(|mount| {
        let (major, minor) = mount.device;
        mount.is_remote && crate::attributes::device(major, minor) == device
    })
}
