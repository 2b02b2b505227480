//! How many files the process may have open. Each client needs a connection and, if all play different files, a file. A playlist
//! needs all of its files at the same time, so those are counted too ([`crate::catalog`]).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the server has open besides.
const OWN: usize = 500;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub connections: usize,
    /// Media files, whatever number of connections is chosen later.
    pub files: usize,
}

/// Raises the limit of open files to what so many connections need, as far as the hard limit permits. Returns how many
/// connections there may be: with all descriptors in use, the server could not even turn a client away.
pub(crate) fn allow(connections: usize) -> Allowed {
    let wanted = needed(connections);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let most = maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // Where that is refused, what there is does for fewer.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    }
    let allowed = getrlimit(Resource::Nofile).current;
    let each = allowed.map_or(usize::MAX, affordable);
    Allowed { connections: connections.min(each), files: each }
}

fn needed(connections: usize) -> u64 {
    (connections.saturating_mul(2) + OWN) as u64
}

fn affordable(descriptors: u64) -> usize {
    (usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(OWN) / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_descriptors_for_as_many_connections_as_are_allowed() {
        for connections in [1, 10, 20_000] {
            assert_eq!(affordable(needed(connections)), connections);
        }
        assert_eq!((affordable(1024), affordable(0)), (262, 1));
        let Allowed { connections: allowed, files } = allow(100);
        assert!(files >= allowed);
        assert!((1..=100).contains(&allowed));
        let current = getrlimit(Resource::Nofile).current;
        assert!(current.is_none_or(|current| current >= needed(allowed) || allowed == 1));
    }
}
