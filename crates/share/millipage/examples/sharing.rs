//! Hosts that write rows of several sizes, and check the rows that other hosts wrote; for tests.
//!
//! - `sharing check [ROUNDS]` writes and checks.
//! - `sharing crowd` writes and checks a little.
//! - `sharing grow SIZE [PRIVATE]` has so many private bytes, allocates so many shared ones and uses some. It says how much
//!   memory the process has had.
//! - `sharing many COUNT` has so many rows of 8 bytes, uses some, and frees them. It says how much memory they have taken.
//! - `sharing freed` uses rows that hosts have freed, in the first host.
//! - `sharing rank [ADDRESS]` prints its rank, with the memory at that address.
//! - `sharing wait WHERE` joins and waits without end: in a `fault`, at a `barrier`, for a `lock`, or while
//!   `computing`. With `late`, the first host may be late at the barrier. The last host writes its process id instead.

use std::{
    env,
    error::Error,
    fs,
    process::{self, ExitCode},
    time::Duration,
};

use forebay_millipage::{Host, Options, Placement, join};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let at = match arguments[..] {
        ["rank", address] => Some(address.parse()?),
        _ => None,
    };
    let host = join(Options { bytes: 32 << 20, at, ..Options::default() })?;
    match arguments[..] {
        ["check", ..] => check(&host, arguments.get(1).map_or(Ok(3), |rounds| rounds.parse())?)?,
        ["crowd"] => {
            write_and_check(&host, 1, &[3, 1_000, 5_000])?;
            add(&host, 3)?;
        }
        ["wait", place] => wait(&host, place)?,
        ["grow", bytes] => grow(&host, bytes.parse()?, 0)?,
        ["grow", bytes, private] => grow(&host, bytes.parse()?, private.parse()?)?,
        ["freed"] => freed(&host)?,
        ["many", count] => many(&host, count.parse()?)?,
        ["rank", ..] => println!("{} of {}", host.rank(), host.hosts()),
        _ => return Err("say what to do: check, crowd, wait, grow, many, freed or rank".into()),
    }
    host.leave()?;
    Ok(())
}

/// Rows of all sizes, and a sum.
fn check(host: &Host, rounds: usize) -> Outcome {
    write_and_check(host, rounds, &[1, 3, 64, 128, 1_000, 4_096, 5_000, 70_000, 3 << 20])?;
    add(host, 100)
}

/// Every host writes some of the rows in each round, and all check all.
fn write_and_check(host: &Host, rounds: usize, sizes: &[usize]) -> Outcome {
    let (rank, hosts) = (usize::from(host.rank()), usize::from(host.hosts()));
    for &bytes in sizes {
        let is_large = bytes > 1 << 20;
        let (count, rounds) = if is_large { (2, 1) } else { (2 * hosts + 1, rounds) };
        let rows = host.rows::<u8>(count, bytes, Placement::Cyclic)?;
        let value = |round: usize, row: usize, column: usize| (round * 31 + row * 7 + column / 3) as u8;
        for round in 0..rounds {
            for row in (0..count).filter(|row| (row + round) % hosts == rank) {
                (0..bytes).for_each(|column| rows.row(row).set(column, value(round, row, column)));
            }
            host.barrier()?;
            for row in 0..count {
                let wrong =
                    (0..bytes).find(|column| rows.row(row).get(*column) != value(round, row, *column));
                if let Some(column) = wrong {
                    return Err(format!("byte {column} of row {row} of {bytes} bytes is wrong").into());
                }
            }
            host.barrier()?;
        }
    }
    Ok(())
}

/// Every host adds one so often.
fn add(host: &Host, times: u64) -> Outcome {
    let sum = host.rows::<u64>(1, 1, Placement::On(0))?;
    for _ in 0..times {
        host.lock(1)?;
        sum.row(0).set(0, sum.row(0).get(0) + 1);
        host.unlock(1)?;
    }
    host.barrier()?;
    if sum.row(0).get(0) != times * u64::from(host.hosts()) {
        return Err(format!("the sum is {}", sum.row(0).get(0)).into());
    }
    host.barrier()?;
    Ok(())
}

/// An array of which only the ends are used, and a small one if there is no room for it.
fn grow(host: &Host, bytes: usize, private: usize) -> Outcome {
    let private = std::hint::black_box(vec![1u8; private]);
    host.barrier()?;
    let rows = match host.rows::<u8>(1, bytes, Placement::On(0)) {
        Ok(rows) => rows,
        Err(error) => {
            let small = host.rows::<u8>(1, 1 << 20, Placement::On(0))?;
            small.row(0).set(0, 1);
            println!("refused: {error}");
            drop(private);
            return Ok(());
        }
    };
    rows.row(0).set(bytes - 1, 1);
    host.barrier()?;
    let usage = fs::read_to_string("/proc/self/status")?;
    let resident = usage.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    println!("{} of {bytes}, {resident}", rows.row(0).get(0) + rows.row(0).get(bytes - 1));
    Ok(())
}

/// Rows of 8 bytes, of which neighbours are written by different hosts.
fn many(host: &Host, count: usize) -> Outcome {
    let before = host.left();
    let rows = host.rows::<u64>(count, 1, Placement::Blocks)?;
    let taken = before - host.left();
    let hosts = usize::from(host.hosts());
    let of = |host: usize| (host..count).step_by(hosts * 97);
    of(host.rank().into()).for_each(|row| rows.row(row).set(0, row as u64 + 1));
    host.barrier()?;
    if !(0..hosts).flat_map(of).all(|row| rows.row(row).get(0) == row as u64 + 1) {
        return Err("a row is not as it was written".into());
    }
    host.free_together(rows.row(0).as_ptr() as usize)?;
    if host.left() != before {
        return Err(format!("{} of {before} bytes are left", host.left()).into());
    }
    println!("{taken}");
    Ok(())
}

/// A program's mistake, which ends the first host.
fn freed(host: &Host) -> Outcome {
    let rows = host.rows::<u64>(1000, 10, Placement::Cyclic)?;
    rows.row(500).set(0, 1);
    host.free_together(rows.row(0).as_ptr() as usize)?;
    if host.rank() == 0 {
        return Err(format!("a row that is free holds {}", rows.row(500).get(0)).into());
    }
    Ok(host.barrier()?)
}

/// What the last host alone could end.
fn wait(host: &Host, place: &str) -> Outcome {
    let last = host.hosts() - 1;
    let rows = host.rows::<u64>(1, 1, Placement::On(last))?;
    if host.rank() == last {
        host.lock(1)?;
        host.barrier()?;
        println!("{}", process::id());
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    host.barrier()?;
    match place {
        "fault" => loop {
            // Until it is lost the last host answers.
            std::hint::black_box(rows.row(0).get(0));
            rows.row(0).set(0, 1);
            std::thread::sleep(Duration::from_millis(50));
        },
        "lock" => host.lock(1)?,
        "barrier" => {
            // A barrier after the loss must tell of it too, though this host has come to the one before.
            let lost = host.barrier().err().ok_or("the barrier was passed")?;
            host.barrier().map_err(|again| format!("{lost}; then {again}"))?;
            return Err("a barrier was passed after the loss".into());
        }
        "late" => {
            if host.rank() == 0 {
                std::thread::sleep(Duration::from_millis(500));
            }
            host.barrier()?;
        }
        "computing" => loop {
            std::hint::black_box(place);
        },
        _ => return Err("say where to wait: fault, lock, barrier, late or computing".into()),
    }
    Ok(())
}
