//! Holds a slow device to swap to, for experiments by hand: `cargo run -p forebay-testkit --example swap -- cloud 2048`.
//!
//! Prints the device, which is all the swap there is meanwhile of its priority, then takes a line at a time: `fill` and
//! `slow` switch the latency off and on, anything else (or the end of input) removes it.
#![forbid(unsafe_code)]

use std::io::{BufRead, stdin};
use std::process::Command;

use forebay_testkit::{Profile, SlowBlock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    forebay_testkit::guardian::enter_if_asked();
    let mut arguments = std::env::args().skip(1);
    let profile: Profile = arguments.next().unwrap_or("cloud".into()).parse()?;
    let mebibytes: u64 = arguments.next().unwrap_or("2048".into()).parse()?;
    let device = SlowBlock::start(profile, mebibytes << 20)?;
    device.set_latency(false)?;
    for words in [&["mkswap", "-q"][..], &["swapon", "--priority", "100"][..]] {
        let status = Command::new(words[0]).args(&words[1..]).arg(device.device()).status()?;
        if !status.success() {
            return Err(format!("{} failed: {status}", words[0]).into());
        }
    }
    device.set_latency(true)?;
    println!("{}", device.device().display());
    for line in stdin().lock().lines() {
        match line?.trim() {
            "fill" => device.set_latency(false)?,
            "slow" => device.set_latency(true)?,
            _ => break,
        }
        println!("done");
    }
    Ok(())
}
