//! Serves as a settings file says until SIGTERM, for tests that look at the process from outside.
//!
//! `serve SETTINGS MILLISECONDS`: after so long without a sign of life a session ends. Prints where it listens. SIGHUP reloads
//! the file. For each line on stdin it prints how many bytes it has allocated: what is resident counts holes, too.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::env;
use std::error::Error;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use cap::Cap;
use forebay_server::{Serving, Settings};
use rustix::process::{Signal, set_parent_process_death_signal};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> Result<(), Box<dyn Error>> {
    // A test that is killed cannot end it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, milliseconds] = &arguments[..] else { return Err("name settings, and a time".into()) };
    let session_timeout = Duration::from_millis(milliseconds.parse()?);
    let file = file.clone();
    let settings = move || Settings::read(Path::new(&file)).map(|read| Settings { session_timeout, ..read });
    Serving::block_signals()?;
    let mut serving = Serving::new(settings()?)?;
    serving.heed_signals()?;
    serving.reload_with(Box::new(move || settings().map_err(|error| error.to_string())));
    let addresses: Vec<String> = serving.addresses().iter().map(ToString::to_string).collect();
    println!("{}", addresses.join(" "));
    thread::spawn(|| {
        io::stdin().lines().map_while(Result::ok).for_each(|_| println!("{}", ALLOCATOR.allocated()))
    });
    Ok(serving.run()?)
}
