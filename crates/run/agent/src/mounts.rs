//! Kinds of file systems, by the list of mounts: no file system is asked.

use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::Turn;
use forebay_sigsafe::{sys, text};

const BYTES: usize = 8192;
/// Buffers of the list that are looked through.
const BUFFERS_MAX: usize = 256;
/// All readers are alike.
const READER: usize = 1;

/// In use while the list is read: so it is never in use in a forked child that becomes an original.
static LIST: Turn<[u8; BYTES]> = Turn::new([0; BYTES]);

/// File systems whose look-ups, opens and listings are requests to another process or machine, by the beginnings of their names.
const REMOTE: [&[u8]; 10] =
    [b"fuse", b"nfs", b"cifs", b"smb", b"9p", b"ceph", b"afs", b"lustre", b"gpfs", b"virtiofs"];

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

/// Whether the line is that of a remote file system on this device (proc_pid_mountinfo(5)).
fn is_line_of(line: &[u8], device: u64) -> bool {
    let mut fields = line.split(|&byte| byte == b' ');
    let Some((major, rest)) = fields.nth(2).and_then(text::parse_decimal) else { return false };
    let Some((minor, _)) = rest.split_first().and_then(|(_, minor)| text::parse_decimal(minor)) else {
        return false;
    };
    if crate::attributes::device(major as u32, minor as u32) != device {
        return false;
    }
    let Some(kind) = fields.skip_while(|field| *field != b"-").nth(1) else { return false };
    REMOTE.into_iter().any(|name| kind.starts_with(name)) && kind != b"fusectl"
}
