//! Runs one of the five programs on shared memory. It prints how long the program took, checks its result, and shows
//! what each host did:
//!
//! ```text
//! cargo build --release -p forebay-share-workload --example kernels
//! forebay share -n 2 -- target/release/examples/kernels sor
//! ```
//!
//! Each program runs for some seconds on one host by default. `--hosts 2` makes hosts within one process. `--hosts 0`
//! runs the sequential form on ordinary memory.
#![forbid(unsafe_code)]

use std::{fmt::Debug, thread, time::Instant};

use clap::{Parser, Subcommand};
use forebay_millipage::{Error, Granularity, Host, Options, in_process, join};
use forebay_share_workload::kernels::{is, lu, sor, tsp, water};

/// Runs a program on shared memory.
#[derive(Parser)]
struct Arguments {
    /// Hosts in this process; 0 for the sequential form. Without it, this process joins the job that it was started for
    #[arg(long, global = true)]
    hosts: Option<u16>,
    /// Size of the shared memory in MiB
    #[arg(long, global = true, default_value_t = 256)]
    size: usize,
    /// Minipages that can share a page
    #[arg(long, global = true, default_value_t = 16)]
    views: usize,
    /// Share pages, not minipages
    #[arg(long, global = true)]
    pages: bool,
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Red-black relaxation
    Sor {
        #[arg(long, default_value_t = 4_096)]
        rows: usize,
        #[arg(long, default_value_t = 1_024)]
        columns: usize,
        #[arg(long, default_value_t = 1_000)]
        iterations: usize,
    },
    /// Integer sort; 23 and 19 with 10 iterations, 20 and 16, or 16 and 11 are classes of NAS, which verifies them
    Is {
        #[arg(long, default_value_t = 23)]
        keys_log2: u32,
        #[arg(long, default_value_t = 9)]
        values_log2: u32,
        #[arg(long, default_value_t = 400)]
        iterations: usize,
    },
    /// Molecular dynamics
    Water {
        #[arg(long, default_value_t = 14)]
        side: usize,
        #[arg(long, default_value_t = 100)]
        steps: usize,
        /// Molecules in a minipage
        #[arg(long, default_value_t = 64)]
        chunk: usize,
    },
    /// Factors of a matrix
    Lu {
        #[arg(long, default_value_t = 64)]
        blocks: usize,
        #[arg(long, default_value_t = 48)]
        block: usize,
    },
    /// Travelling salesman
    Tsp {
        #[arg(long, default_value_t = 18)]
        cities: usize,
        #[arg(long, default_value_t = 4)]
        level: usize,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Compare with dynamic programming, which takes much memory
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    match arguments.program {
        Program::Sor { rows, columns, iterations } => {
            let parameters = sor::Parameters { rows, columns, iterations };
            run(&arguments, || sor::sequential(&parameters), |host| sor::parallel(host, &parameters))?;
        }
        Program::Is { keys_log2, values_log2, iterations } => {
            let parameters = is::Parameters { keys_log2, values_log2, iterations };
            run(&arguments, || is::sequential(&parameters), |host| is::parallel(host, &parameters))?;
        }
        Program::Water { side, steps, chunk } => {
            let parameters = water::Parameters { side, steps, chunk };
            run(&arguments, || water::sequential(&parameters), |host| water::parallel(host, &parameters))?;
        }
        Program::Lu { blocks, block } => {
            let parameters = lu::Parameters { blocks, block };
            let alone = || lu::sequential(&parameters).checksum;
            run(&arguments, alone, |host| Ok(lu::parallel(host, &parameters)?.checksum))?;
        }
        Program::Tsp { cities, level, seed, check } => {
            let parameters = tsp::Parameters { cities, level, seed };
            run(&arguments, || tsp::sequential(&parameters), |host| tsp::parallel(host, &parameters))?;
            if check {
                println!("by dynamic programming: {}", tsp::held_karp(&parameters));
            }
        }
    }
    Ok(())
}

fn run<R: Debug + Send>(
    arguments: &Arguments,
    sequential: impl FnOnce() -> R,
    parallel: impl Fn(&Host) -> Result<R, Error> + Sync,
) -> Result<(), Error> {
    if arguments.hosts == Some(0) {
        let start = Instant::now();
        let outcome = sequential();
        println!("sequential: {:.3} s, {outcome:?}", start.elapsed().as_secs_f64());
        return Ok(());
    }
    let granularity = if arguments.pages { Granularity::Page } else { Granularity::Fine };
    let options = Options { bytes: arguments.size << 20, views: arguments.views, at: None, granularity };
    let Some(hosts) = arguments.hosts else {
        let host = join(options)?;
        part(&host, parallel)?;
        return host.leave();
    };
    let hosts = in_process(hosts, options)?;
    thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(|| part(host, &parallel))).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })
}

/// One host's part, and what it tells of it.
fn part<R: Debug>(host: &Host, parallel: impl Fn(&Host) -> Result<R, Error>) -> Result<(), Error> {
    host.barrier()?;
    let start = Instant::now();
    let outcome = parallel(host)?;
    let time = start.elapsed().as_secs_f64();
    println!("host {}: {time:.3} s, {outcome:?}\n  {:?}", host.rank(), host.take_counts());
    Ok(())
}
