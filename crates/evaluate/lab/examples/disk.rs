//! Holds a slow disk for experiments by hand: `cargo run -p forebay-lab --example disk -- ssd-1ms-q128 2048`.
//!
//! Prints the folder that the disk is mounted on, then reads commands, one a line. `cold` empties all caches of the disk.
//! `fill` and `slow` switch the latency off and on. `stats` prints
//! what was served, and `reset` counts from zero. `opens at-once` and `opens forgetful` say what opens are on the profile `remote`:
//! no request to the other end, or one that empties the cache of a file. Any other line, or the end of input, removes the disk.
#![forbid(unsafe_code)]

use std::io::{BufRead, stdin};

use forebay_lab::{Opens, Profile, SlowDisk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    forebay_lab::cleanup::enter_if_asked();
    let mut arguments = std::env::args().skip(1);
    let profile: Profile = arguments.next().unwrap_or("ssd-1ms-q128".into()).parse()?;
    let mebibytes: u64 = arguments.next().unwrap_or("2048".into()).parse()?;
    let disk = SlowDisk::start(profile, mebibytes << 20)?;
    println!("{}", disk.mount_point().display());
    for line in stdin().lock().lines() {
        match line?.trim() {
            "cold" => {
                let _ = disk.make_cold()?;
            }
            said @ ("fill" | "slow") => {
                disk.set_latency(said == "slow")?;
            }
            "stats" => println!("{:?}", disk.stats()?),
            "reset" => disk.reset_stats()?,
            said if said.starts_with("opens") => disk.set_opens(Opens {
                at_once: said.contains("at-once"),
                keep_data: !said.contains("forgetful"),
            })?,
            _ => break,
        }
        println!("done");
    }
    Ok(())
}
