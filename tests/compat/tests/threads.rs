//! Programs with several threads: any thread that waits has a speculator, and the others go on as they would without.

use std::fs;
use std::rc::Rc;

use forebay_compat::guests::build;
use forebay_compat::{Case, Outcome, comes_to, skip};
use forebay_lab::{Profile, SlowDisk};

/// Files of the pool.
const FILES: usize = 600;

/// The pool's files, on a slow disk.
fn pool(name: &str) -> Option<Rc<SlowDisk>> {
    let disk = match SlowDisk::start(Profile::Ssd1Ms, 256 << 20) {
        Ok(disk) => disk,
        Err(why) => {
            skip(name, why.to_string());
            return None;
        }
    };
    let filled = disk.fill(|folder| {
        (0..FILES).try_for_each(|file| {
            let contents = format!("file {file}\n").repeat(900 + file);
            fs::write(folder.join(file.to_string()), contents)
        })
    });
    filled.expect("fill the slow disk").expect("write the pool");
    Some(Rc::new(disk))
}

fn on_pool(name: &str, way: &str, disk: &Rc<SlowDisk>) -> Case {
    let argv = [build("thread_pool").into_os_string(), way.into(), disk.mount_point().into()];
    let disk = Rc::clone(disk);
    Case::new(name, argv).seconds(60).setup(move |_| {
        disk.make_cold().expect("empty the caches of the slow disk");
    })
}

/// Hints that were used, beyond those that were for nothing.
fn of_use(outcome: &Outcome) -> f64 {
    outcome.figure("hints_used") - outcome.figure("hints_unused")
}

#[test]
fn threads_that_share_a_list_use_hints() {
    let name = "threads_that_share_a_list_use_hints";
    let Some(disk) = pool(name) else { return };
    let _ = comes_to(name, FILES as f64 / 6.0, of_use, || on_pool(name, "shared", &disk));
}

#[test]
fn threads_with_lists_of_their_own_use_hints() {
    let name = "threads_with_lists_of_their_own_use_hints";
    let Some(disk) = pool(name) else { return };
    let _ = comes_to(name, FILES as f64 / 6.0, of_use, || on_pool(name, "own", &disk));
}

/// A thread that was cancelled while its stall was attended to would leave none of the later stalls to the others.
#[test]
fn cancelled_threads_leave_speculation_to_the_others() {
    let name = "cancelled_threads_leave_speculation_to_the_others";
    let stalls = |outcome: &Outcome| outcome.figure("stalls_before");
    let _ = comes_to(name, 500.0, stalls, || {
        let argv = [build("thread_cancels").into_os_string(), "data".into()];
        Case::new(name, argv).seconds(60).setup(|scratch| {
            scratch.noise("data", 8 << 20, 9);
        })
    });
}
