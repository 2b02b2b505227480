//! Programs with little memory swap, to a slow device where there is one, and all of it goes again.
#![forbid(unsafe_code)]

use std::fs;
use std::process::{Child, Command, Stdio};

use forebay_lab::{Error, MemoryLimit, Profile, SlowDevice, SlowSwap};
use forebay_testkit::{guests, skip};

const MIB: u64 = 1 << 20;

/// Says why and returns nothing where there can be no limit.
fn limit(test: &str, bytes: u64) -> Option<MemoryLimit> {
    match MemoryLimit::start(bytes) {
        Err(error @ Error::Unsupported { .. }) => {
            skip(test, &error);
            None
        }
        started => Some(started.unwrap()),
    }
}

/// A command that joins the group first, as any process can.
fn within(limit: &MemoryLimit, program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo 0 > "$0" && exec "$@""#]).arg(limit.processes_file()).arg(program);
    command
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_program_that_does_not_fit_swaps_to_the_slow_device() {
    let test = "a_program_that_does_not_fit_swaps_to_the_slow_device";
    let Some(limit) = limit(test, 24 * MIB) else { return };
    if let Err(error) = SlowDevice::supported() {
        return skip(test, &error);
    }
    let swap = SlowSwap::start(Profile::Ssd1Ms, 128 * MIB).unwrap();
    let gather = guests::build("gather");
    let run = within(&limit, gather.to_str().unwrap()).args(["48", "200"]).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let unlimited = Command::new(gather).args(["48", "200"]).output().unwrap();
    assert_eq!(run.stdout, unlimited.stdout);
    let stats = swap.device().unwrap().stats().unwrap();
    assert!(stats.bytes_written > 16 * MIB && stats.reads > 50, "{stats:?}");
    assert_eq!(limit.kills().unwrap(), 0);
}

#[test]
fn slow_swap_is_used_before_all_other_swap_and_ends_with_its_owner() {
    if let Err(error) = SlowDevice::supported() {
        return skip("slow_swap_is_used_before_all_other_swap_and_ends_with_its_owner", &error);
    }
    let swap = SlowSwap::start(Profile::Raid12Ms, 8 * MIB).unwrap();
    let device = swap.device().unwrap().path().to_str().unwrap().to_owned();
    let priority_of = |line: &str| line.split_whitespace().last().unwrap().parse::<i32>().unwrap();
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    let (ours, others): (Vec<&str>, Vec<&str>) =
        swaps.lines().skip(1).partition(|line| line.split_whitespace().next() == Some(&device));
    assert_eq!(ours.len(), 1, "{swaps}");
    // Another test's may have come later.
    assert!(others.iter().all(|other| !other.contains("-2") || priority_of(other) < priority_of(ours[0])));
    assert!(priority_of(ours[0]) >= 100, "{swaps}");
    drop(swap);
    assert!(!fs::read_to_string("/proc/swaps").unwrap().contains(&format!("{device} ")));
}

#[test]
fn swap_on_the_local_disk_is_a_file_that_goes_with_its_owner() {
    let test = "swap_on_the_local_disk_is_a_file_that_goes_with_its_owner";
    let swap = match SlowSwap::start(Profile::Local, 8 * MIB) {
        Err(error @ (Error::Unsupported { .. } | Error::Io { .. })) => return skip(test, &error),
        started => started.unwrap(),
    };
    assert!(swap.device().is_none());
    let file = || {
        let swaps = fs::read_to_string("/proc/swaps").unwrap();
        let ours = format!("forebay-rig.{}.", std::process::id());
        swaps
            .lines()
            .find(|line| line.contains(&ours) && line.contains(" file"))?
            .split(' ')
            .next()
            .map(String::from)
    };
    let path = file().expect("it is swapped to");
    assert!(fs::metadata(&path).unwrap().len() == 8 * MIB);
    drop(swap);
    assert_eq!((file(), fs::exists(path).unwrap()), (None, false));
}

#[test]
fn processes_join_by_themselves_or_are_added() {
    let Some(limit) = limit("processes_join_by_themselves_or_are_added", 64 * MIB) else { return };
    assert_eq!(limit.processes().unwrap(), [0; 0]);
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    limit.add(child.id()).unwrap();
    assert_eq!(limit.processes().unwrap(), [child.id()]);
    end(child);
    let said = within(&limit, "cat").arg("/proc/self/cgroup").stdout(Stdio::piped()).output().unwrap().stdout;
    let name = limit.folder().file_name().unwrap().to_str().unwrap();
    assert!(String::from_utf8_lossy(&said).contains(name));
    assert!(limit.add(u32::MAX >> 1).is_err());
}

#[test]
fn a_process_that_outlives_its_group_leaves_it() {
    let Some(limit) = limit("a_process_that_outlives_its_group_leaves_it", 64 * MIB) else { return };
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    limit.add(child.id()).unwrap();
    let folder = limit.folder().to_owned();
    drop(limit);
    assert!(!folder.exists());
    assert!(child.try_wait().unwrap().is_none());
    end(child);
}
