//! The kernel's list of locks. A process that closes any descriptor of a file loses the POSIX locks that it holds on the file, whichever
//! descriptor it took them by (fcntl_locking(2)). They outlast execve(2).

/// The process that holds the POSIX lock which a line of `/proc/locks` (proc_locks(5)) tells of; `None` where it tells of none.
#[must_use]
pub fn holder(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    if fields.nth(1)? != b"POSIX" {
        return None;
    }
    fields.nth(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_posix_locks_are_told_from_all_others() {
        let cases: [(&[u8], Option<&[u8]>); 7] = [
            (b"1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF", Some(b"3568")),
            (b"12: POSIX  ADVISORY  READ 77 08:08:3548315 128 128", Some(b"77")),
            (b"1: -> POSIX  ADVISORY  WRITE 3569 fd:00:2531452 0 EOF", None),
            (b"2: FLOCK  ADVISORY  WRITE 3517 fd:00:2531448 0 EOF", None),
            (b"3: OFDLCK ADVISORY  READ -1 00:06:1 0 EOF", None),
            (b"4: LEASE  ACTIVE    READ 3568 fd:00:2531452 0 EOF", None),
            (b"", None),
        ];
        for (line, process) in cases {
            assert_eq!(holder(line), process, "{}", line.escape_ascii());
        }
    }
}
