//! What machines tell each other at the barrier: a word that is the same where hosts call the same. It begins with a number for
//! the name of the call, so that a host can tell what another machine's hosts called.

use forebay_coherence::Other;

use crate::board::DIFFERENT;

/// Names of calls that all hosts make together. Their order is part of the protocol.
const NAMES: [&str; 14] = [
    "barrier",
    "rows_in_chunks",
    "array",
    "alloc",
    "team",
    "team_barrier",
    "reduce",
    "all_reduce",
    "broadcast",
    "all_gather",
    "free",
    "semaphore",
    "condition",
    "read_write_lock",
];

/// Bits of the digest.
const DIGEST: u32 = 56;

/// The word of a call that reads like this, by a digest of all that hosts should say alike.
pub fn word(digest: u64, call: &str) -> u64 {
    let name = call.split('(').next().unwrap_or_default();
    let number = NAMES.iter().position(|known| *known == name).map_or(0, |index| index as u64 + 1);
    let digest = digest & ((1 << DIGEST) - 1);
    (number << DIGEST | digest).max(DIFFERENT + 1)
}

/// What a host of another machine called, where this one made a call that reads like `mine`.
pub fn called(other: Other, mine: &str) -> String {
    let host = other.host.0;
    let name = match other.word {
        Other::LEFT => Some("leave"),
        word => ((word >> DIGEST) as usize).checked_sub(1).and_then(|index| NAMES.get(index).copied()),
    };
    let is_same = |name: &&str| mine.split('(').next() == Some(*name);
    match name {
        None => format!("a host on the machine of host {host} called something else"),
        Some("barrier" | "leave") => format!("host {host} called {}()", name.unwrap_or_default()),
        Some(name) if is_same(&name) => format!("host {host} called {name}() with other arguments"),
        Some(name) => format!("host {host} called {name}()"),
    }
}

#[cfg(test)]
mod tests {
    use forebay_coherence::HostId;

    use super::*;

    #[test]
    fn a_word_tells_the_name_of_a_call() {
        let told = |word| called(Other { host: HostId(3), word }, "array((3, 3), float64)");
        assert_eq!(told(word(u64::MAX, "barrier()")), "host 3 called barrier()");
        assert_eq!(told(word(7, "array((4, 3), float64)")), "host 3 called array() with other arguments");
        assert_eq!(told(word(0, "rows_in_chunks(1, 2)")), "host 3 called rows_in_chunks()");
        assert_eq!(told(Other::LEFT), "host 3 called leave()");
        assert_eq!(told(word(0, "dance()")), "a host on the machine of host 3 called something else");
        assert_eq!(told(DIFFERENT), "a host on the machine of host 3 called something else");
    }
}
