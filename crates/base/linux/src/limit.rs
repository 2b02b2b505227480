//! getrlimit(2), which may be refused. rustix takes it that limits are always told.

use rustix::process::{Resource, Rlimit};

/// A limit of this process. `None` where that is not told, as in a service whose system calls are filtered.
#[must_use]
pub fn limit(resource: Resource) -> Option<Rlimit> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills a local.
    let is_told = unsafe { libc::getrlimit(resource as libc::__rlimit_resource_t, &raw mut found) } == 0;
    let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
    is_told.then(|| Rlimit { current: finite(found.rlim_cur), maximum: finite(found.rlim_max) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_the_kernel_lists() {
        let listed = std::fs::read_to_string("/proc/self/limits").unwrap();
        let told =
            |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
        for (resource, name) in [
            (Resource::Nofile, "Max open files"),
            (Resource::As, "Max address space"),
            (Resource::Core, "Max core file size"),
            (Resource::Stack, "Max stack size"),
        ] {
            let line = listed.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let found = limit(resource).unwrap();
            let [current, maximum] = [found.current, found.maximum].map(told);
            assert!(
                line.split_whitespace().take(2).eq([current, maximum]),
                "{name}: {line}, found {found:?}"
            );
        }
    }
}
