//! Hosts share objects of 64 bytes, and each prints its faults and messages. A host uses some pages of objects, every second or third
//! object, or all in turn with the other hosts.
//!
//! `forebay share -n 3 --separate -- objects pages|neighbours|turns alone|together`
//!
//! The first host has them: it allocates them alone, or all hosts do so together, each object apart.
use std::env;

use forebay_millipage::{Error, Host, Options, Placement, Row, join};

const OBJECTS: usize = 960;
/// With 16 views.
const A_PAGE: usize = 16;
const WORDS: usize = 8;
const ROUNDS: u64 = 20;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [users, allocated] = &*arguments else { panic!("say who uses objects, and how they are allocated") };
    let host = join(Options::default())?;
    let objects = if allocated == "alone" { alone(&host)? } else { together(&host)? };
    let (me, hosts) = (usize::from(host.rank()), usize::from(host.hosts()));
    let mine = |index: &usize| match &**users {
        "pages" => index / A_PAGE % hosts == me,
        "neighbours" => index % hosts == me,
        _ => true,
    };
    let _ = host.take_usage();
    host.barrier()?;
    for round in 1..=ROUNDS {
        if users == "turns" {
            host.lock(0)?;
        }
        for object in (0..OBJECTS).filter(mine).map(|index| objects[index]) {
            object.set(0, object.get(0) + 1);
            assert!(users == "turns" || object.get(0) == round);
        }
        if users == "turns" {
            host.unlock(0)?;
        }
    }
    host.barrier()?;
    let usage = host.take_usage();
    let faults = usage.counts.read_faults + usage.counts.write_faults;
    println!(
        "host {me}: {faults} faults, {} messages and {} bytes sent",
        usage.traffic.messages_sent, usage.traffic.bytes_sent
    );
    host.leave()
}

fn alone(host: &Host) -> Result<Vec<Row<u64>>, Error> {
    let places = host.rows_in_chunks::<u64>(1, OBJECTS, 1, Placement::On(0))?.row(0);
    if host.rank() == 0 {
        for index in 0..OBJECTS {
            places.set(index, host.malloc::<u64>(WORDS)?.as_ptr() as u64);
        }
    }
    host.barrier()?;
    (0..OBJECTS).map(|index| host.row_at(places.get(index) as usize, WORDS)).collect()
}

fn together(host: &Host) -> Result<Vec<Row<u64>>, Error> {
    let objects = host.rows(OBJECTS, WORDS, Placement::On(0))?;
    Ok(objects.range(0..OBJECTS).collect())
}
