//! Which processes there are, and which sockets they have (proc(5)).

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// The numbers of all processes that can be seen.
pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process with its name, such as `nginx (process 71)`.
#[must_use]
pub fn named(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("{} (process {process})", name.trim_end())
}

/// The sockets that a process has; none of one that has ended.
///
/// # Errors
/// They may not be seen.
pub fn sockets_of(process: u32) -> io::Result<BTreeSet<u32>> {
    match fs::read_dir(format!("/proc/{process}/fd")) {
        Ok(descriptors) => {
            let links = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
            Ok(links.filter_map(|link| socket_of(link.to_str()?)).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The socket that the link of a descriptor leads to.
#[must_use]
pub fn socket_of(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The first process that is seen to have one of these sockets.
#[must_use]
pub fn holder_of(sockets: &BTreeSet<u32>) -> Option<u32> {
    processes().find(|process| sockets_of(*process).is_ok_and(|own| !own.is_disjoint(sockets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_leads_to_the_process_that_has_it() {
        let own = std::process::id();
        let before = sockets_of(own).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let new: BTreeSet<u32> = &sockets_of(own).unwrap() - &before;
        assert!(!new.is_empty());
        assert_eq!(holder_of(&new).map(named), Some(named(own)));
        drop(socket);
        assert!(processes().any(|process| process == own));
        assert_eq!(sockets_of(u32::MAX).unwrap(), BTreeSet::new());
    }
}
