//! How much of the processors a process gets beside others.

use libc::pid_t;

/// Gives the process, if it runs at idle priority, that of a normal one: on a busy machine it may get no processor for seconds
/// otherwise, and a process that was killed needs one to end. Takes a right (`CAP_SYS_NICE`, or `RLIMIT_NICE`), and is left
/// undone without it (sched(7)).
pub fn leave_idle(process: pid_t) {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call takes a number and reads a local.
    unsafe {
        if libc::sched_getscheduler(process) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_IDLE {
            libc::sched_setscheduler(process, libc::SCHED_OTHER, &raw const parameters);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_idle_process_becomes_a_normal_one_and_others_stay() {
        let of = |policy: i32| {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let (pid, parameters) = (child.id() as pid_t, libc::sched_param { sched_priority: 0 });
            // SAFETY: the calls take numbers and read a local.
            let found = unsafe {
                assert_eq!(libc::sched_setscheduler(pid, policy, &raw const parameters), 0);
                leave_idle(pid);
                libc::sched_getscheduler(pid)
            };
            child.kill().unwrap();
            child.wait().unwrap();
            found
        };
        assert_eq!(of(libc::SCHED_BATCH), libc::SCHED_BATCH);
        let found = of(libc::SCHED_IDLE);
        // SAFETY: the call takes no pointer.
        if unsafe { libc::geteuid() } == 0 {
            assert_eq!(found, libc::SCHED_OTHER);
        }
    }
}
