//! Teams, and rows that are gathered and scattered: hosts in one process, each on a machine of its own, all on one machine, and on
//! machines of several.

use std::{
    thread,
    time::{Duration, Instant},
};

use forebay_millipage::{Error, Host, NumberType, Options, Placement, Reduction, Team, in_process_machines};

const HOSTS: u16 = 4;

/// Hosts of all kinds.
fn each(act: impl Fn(&Host) + Sync) {
    let options = Options { bytes: 2 << 20, ..Options::default() };
    let machines = [vec![1; HOSTS.into()], vec![HOSTS], vec![HOSTS - 2, 2]];
    for machines in machines {
        let hosts = in_process_machines(&machines, options).unwrap();
        thread::scope(|scope| {
            for host in &hosts {
                scope.spawn(|| act(host));
            }
        });
    }
}

/// As many as take several rounds.
const MANY: usize = 10_000;

#[test]
fn all_hosts_reduce_broadcast_and_gather() {
    each(|host| {
        let (team, me) = (host.everyone().unwrap(), u64::from(host.rank()));
        for round in 0..3u64 {
            let mut sums: Vec<u64> = (0..MANY as u64).map(|index| index * (me + 1) + round).collect();
            team.all_reduce(&mut sums, Reduction::Sum).unwrap();
            assert!(sums.iter().enumerate().all(|(index, sum)| *sum == 10 * index as u64 + 4 * round));
            let mut largest = [me as f64, -(me as f64)];
            team.reduce(&mut largest, Reduction::Max, 2).unwrap();
            let wanted = if me == 2 { [3.0, 0.0] } else { [me as f64, -(me as f64)] };
            assert_eq!(largest, wanted);
            let mut text = if me == round { vec![7u8; MANY] } else { vec![0; MANY] };
            team.broadcast(&mut text, round as usize).unwrap();
            assert_eq!(text, vec![7; MANY]);
            let mut all = [0; 8];
            team.all_gather(&[me, round], &mut all).unwrap();
            assert_eq!(all, [0, round, 1, round, 2, round, 3, round]);
            team.barrier().unwrap();
        }
    });
}

#[test]
fn each_reduction_is_that_of_each_type() {
    each(|host| {
        let team = host.everyone().unwrap();
        let me = host.rank();
        let reduced = |value: u16, reduction| {
            let mut value = [value];
            team.all_reduce(&mut value, reduction).unwrap();
            value[0]
        };
        assert_eq!(reduced(me + 40_000, Reduction::Sum), (160_006u32 % 65_536) as u16);
        assert_eq!(reduced(me + 1, Reduction::Product), 24);
        assert_eq!(reduced(me + 1, Reduction::Min), 1);
        assert_eq!(reduced(!(1 << me), Reduction::And), u16::MAX - 15);
        assert_eq!(reduced(1 << me, Reduction::Or), 15);
        assert_eq!(reduced(3 << me, Reduction::Xor), 0b10001);
        let mut floats = [f32::from(me) - 1.5];
        team.all_reduce(&mut floats, Reduction::Product).unwrap();
        assert_eq!(floats, [0.5625]);
        for reduction in [Reduction::Min, Reduction::Max] {
            // What is no number comes of one of them first, in between and last, in both precisions.
            let mut single: [f32; 5] = std::array::from_fn(|at| if at == me.into() { f32::NAN } else { 1.5 });
            let mut double = single.map(f64::from);
            team.all_reduce(&mut single, reduction).unwrap();
            team.all_reduce(&mut double, reduction).unwrap();
            assert_eq!(single.map(f32::is_nan), [true, true, true, true, false], "{reduction:?}");
            assert_eq!(double.map(f64::is_nan), [true, true, true, true, false], "{reduction:?}");
            assert_eq!((single[4], double[4]), (1.5, 1.5));
        }
        let extremes = [Reduction::Min, Reduction::Max].map(|reduction| {
            let mut value = [f64::from(me)];
            team.all_reduce(&mut value, reduction).unwrap();
            value[0]
        });
        assert_eq!(extremes, [0.0, 3.0]);
        assert!(matches!(team.all_reduce(&mut floats, Reduction::Or), Err(Error::NoReduction)));
        let part = team.reduce_bytes("7 bytes", &mut [0; 7], NumberType::I32, Reduction::Sum, None);
        assert!(matches!(part, Err(Error::NoNumbers { bytes: 7, size: 4 })));
        assert!(matches!(team.broadcast(&mut floats, 4), Err(Error::NoRoot { root: 4, members: 4 })));
    });
}

#[test]
fn teams_work_apart_from_each_other() {
    each(|host| {
        let me = host.rank();
        // Two halves, one of them in another order.
        let teams = [host.team(&[2, 0]).unwrap(), host.team(&[1, 3]).unwrap()];
        let (mine, other) = (&teams[usize::from(me % 2)], &teams[usize::from(1 - me % 2)]);
        assert_eq!((mine.rank(), other.rank()), (mine.members().iter().position(|host| *host == me), None));
        for round in 0..10 + u64::from(me % 2) * 5 {
            let mut gathered = [0; 2];
            mine.all_gather(&[100 * round + u64::from(me)], &mut gathered).unwrap();
            let wanted = [0, 1].map(|place: usize| 100 * round + u64::from(mine.members()[place]));
            assert_eq!(gathered, wanted);
            let mut sum = [u32::from(me) + 1];
            mine.reduce(&mut sum, Reduction::Sum, 1).unwrap();
            let is_root = mine.rank() == Some(1);
            assert_eq!(sum[0], if is_root { [4, 6][usize::from(me % 2)] } else { u32::from(me) + 1 });
        }
        assert!(matches!(other.barrier(), Err(Error::NotOfTeam { host }) if host == me));
        assert!(matches!(host.team(&[0, 9]), Err(Error::NoMember { host: 9, hosts: HOSTS })));
        assert!(matches!(host.team(&[1, 0, 1]), Err(Error::NoMember { host: 1, .. })));
        host.barrier().unwrap();
    });
}

#[test]
fn members_that_call_different_things_are_told() {
    fn said(team: &Team, is_odd: bool) -> [String; 2] {
        let mut values = [1u8; 3];
        let first = if is_odd { team.barrier() } else { team.broadcast(&mut values, 0) };
        let second = team.all_reduce(&mut values[..2 + usize::from(is_odd)], Reduction::Sum);
        [first, second].map(|result| result.unwrap_err().to_string())
    }
    each(|host| {
        let three = host.team(&[3, 1, 0]).unwrap();
        if let Some(place) = three.rank() {
            let [first, second] = said(&three, place == 1);
            let wanted = if place == 1 {
                "host 3 called broadcast(3 bytes, root=0)"
            } else {
                "host 1 called team_barrier()"
            };
            assert!(first.contains(wanted), "{first}");
            let wanted = if place == 1 {
                "host 3 called all_reduce(2 U8, Sum)"
            } else {
                "host 1 called all_reduce(3 U8, Sum)"
            };
            assert!(second.contains(wanted), "{second}");
            three.barrier().unwrap();
        }
        let is_odd = host.rank() == 2;
        let [first, _] = said(host.everyone().unwrap(), is_odd);
        let wanted = if is_odd { "called broadcast(" } else { "host 2 called team_barrier()" };
        // A machine does not tell which of its hosts called something else.
        let is_vague =
            |said: &str| !is_odd && said.contains("on the machine of host 0 called something else");
        assert!(first.contains(wanted) || is_vague(&first), "{first}");
        let error = if is_odd { host.barrier() } else { host.everyone().unwrap().barrier() };
        let said = error.unwrap_err().to_string();
        let wanted = if is_odd { "called team_barrier()" } else { "host 2 called barrier()" };
        assert!(said.contains(wanted) || is_vague(&said), "{said}");
        host.barrier().unwrap();
    });
}

/// Within this time calls end that wait in vain.
const IN_VAIN_MAX: Duration = Duration::from_secs(10);

#[test]
fn hosts_that_wait_for_each_other_in_calls_of_different_teams_are_told() {
    each(|host| {
        let (two, three) = (host.team(&[0, 1]).unwrap(), host.team(&[3, 2, 1]).unwrap());
        let called = ["all_reduce(1 U64, Sum)", "broadcast(8 bytes, root=0)", "barrier()", "barrier()"];
        let me = usize::from(host.rank());
        let call = || match me {
            0 => two.all_reduce(&mut [1u64], Reduction::Sum),
            1 => three.broadcast(&mut [1u64], 0),
            _ => host.barrier(),
        };
        let begun = Instant::now();
        let said = call().unwrap_err().to_string();
        assert!(begun.elapsed() < IN_VAIN_MAX, "{:?}", begun.elapsed());
        let others = [&[1][..], &[2, 3], &[0, 1], &[0, 1]][me];
        let names = |other: &usize| {
            said.contains(&format!(
                "host {me} of 4 called {}; host {other} called {};",
                called[me], called[*other]
            ))
        };
        assert!(others.iter().any(names), "{said}");
        // Others count on this host where it will never come.
        assert_eq!(host.barrier().unwrap_err().to_string(), said);
    });
}

#[test]
fn hosts_that_wait_long_for_each_other_are_told_nothing_while_one_computes() {
    each(|host| {
        let pairs = [host.team(&[0, 1]).unwrap(), host.team(&[1, 2]).unwrap()];
        let late = Instant::now() + 4 * IN_VAIN_MAX / 10;
        for pair in pairs.iter().rev().filter(|pair| pair.rank().is_some()) {
            // Time is what this is about: the others look for calls in vain meanwhile.
            thread::sleep(if host.rank() == 2 {
                late.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            });
            pair.barrier().unwrap();
        }
        host.barrier().unwrap();
    });
}

#[test]
fn rows_are_gathered_and_scattered_together() {
    each(|host| {
        let rows = host.rows::<u8>(60, 40, Placement::Blocks).unwrap();
        let mine: Vec<usize> = (0..60).filter(|row| row % 4 == usize::from(host.rank())).collect();
        let starts = |chosen: &[usize]| -> Vec<usize> {
            chosen.iter().map(|row| rows.row(*row).as_ptr() as usize).collect()
        };
        let values: Vec<u8> = mine.iter().flat_map(|row| [*row as u8; 40]).collect();
        host.scatter(&starts(&mine), &values).unwrap();
        host.barrier().unwrap();
        let chosen = [59, 0, 17, 17, 30];
        let mut found = vec![0; 5 * 40];
        host.gather(&starts(&chosen), &mut found).unwrap();
        assert_eq!(found, chosen.iter().flat_map(|row| [*row as u8; 40]).collect::<Vec<_>>());
        host.gather(&[], &mut []).unwrap();
        let said = host.gather(&starts(&chosen), &mut found[..199]).unwrap_err().to_string();
        assert!(said.contains("199 bytes are not 5 rows"), "{said}");
        let said = host.scatter(&[&raw const found as usize], &[1]).unwrap_err().to_string();
        assert!(said.contains("not all of one allocation"), "{said}");
        host.barrier().unwrap();
    });
}

#[test]
fn small_values_share_pages_and_a_full_memory_tells_the_remedy() {
    each(|host| {
        let before = host.left();
        let values: Vec<_> = (0..64).map(|_| host.value::<u32>(Placement::Cyclic).unwrap()).collect();
        // Sixteen views, so sixteen to a page.
        assert_eq!(before - host.left(), 4 * 4096);
        let me = usize::from(host.rank());
        values.iter().skip(me).step_by(4).for_each(|value| value.set(7));
        host.barrier().unwrap();
        assert!(values.iter().all(|value| value.get() == 7));
        host.barrier().unwrap();
        let said = host.rows::<u64>(100_000, 1, Placement::Blocks).err().unwrap().to_string();
        assert!(
            said.starts_with("800000 bytes of shared memory do not fit: they take 25600000, and "),
            "{said}"
        );
        assert!(
            said.ends_with("give the job more: forebay share --size, or the size given to join()"),
            "{said}"
        );
        host.barrier().unwrap();
    });
}
