//! Holds slow swap for experiments by hand: `cargo run -p forebay-lab --example swap -- ssd-1ms-q128 2048`. With the profile
//! `local` the swap is a file.
//!
//! Prints the device, which is used before all other swap, then reads commands, one a line. `fill` and `slow` switch the
//! latency off and on. Any other line, or the end of input, removes the swap.
#![forbid(unsafe_code)]

use std::io::{BufRead, stdin};

use forebay_lab::{Profile, SlowSwap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    forebay_lab::cleanup::enter_if_asked();
    let mut arguments = std::env::args().skip(1);
    let profile: Profile = arguments.next().unwrap_or("ssd-1ms-q128".into()).parse()?;
    let mebibytes: u64 = arguments.next().unwrap_or("2048".into()).parse()?;
    let swap = SlowSwap::start(profile, mebibytes << 20)?;
    let device = swap.device();
    println!("{}", device.map_or_else(|| "a file".into(), |device| device.path().display().to_string()));
    let set_latency = |on| device.map_or(Ok(()), |device| device.set_latency(on));
    for line in stdin().lock().lines() {
        match line?.trim() {
            "fill" => set_latency(false)?,
            "slow" => set_latency(true)?,
            _ => break,
        }
        println!("done");
    }
    Ok(())
}
