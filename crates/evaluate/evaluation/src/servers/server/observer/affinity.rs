//! The processors that threads may use (sched_setaffinity(2), cpuset(7)).

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::{THREADS_MAX, Thread};

/// How many processors any of these threads may use; `None` where all have ended. No more are looked at than in a look.
pub(super) fn allowed_processors(threads: impl Iterator<Item = Thread>) -> Option<f64> {
    let of = |(_, task): Thread| sched_getaffinity(Some(Pid::from_raw(task.try_into().ok()?)?)).ok();
    let together = threads.take(THREADS_MAX).filter_map(of).reduce(|mut all, one| {
        (0..CpuSet::MAX_CPU)
            .filter(|processor| one.is_set(*processor))
            .for_each(|processor| all.set(processor));
        all
    });
    together.map(|all| f64::from(all.count()))
}

#[cfg(test)]
mod tests {
    use rustix::thread::{gettid, sched_setaffinity};

    use super::*;

    #[test]
    fn threads_may_use_what_any_of_them_may() {
        let process = std::process::id();
        let own = |task: Pid| (process, task.as_raw_nonzero().get() as u32);
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|processor| all.is_set(*processor)).unwrap();
        let main = own(gettid());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut one = CpuSet::new();
                one.set(first);
                sched_setaffinity(None, &one).unwrap();
                let bound = own(gettid());
                assert_eq!(allowed_processors([bound].into_iter()), Some(1.0));
                assert_eq!(allowed_processors([bound, main].into_iter()), Some(f64::from(all.count())));
            });
        });
        assert_eq!(allowed_processors(std::iter::empty()), None);
    }
}
