//! `forebay completions` and `forebay man`: what is made from the command line's own table.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};

/// Prints the completions of a shell.
pub fn completions(args: &Completions) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "forebay", &mut text);
    print(&text)
}

/// Prints the main man page, or writes all of them.
pub fn man(args: &Man) -> anyhow::Result<ExitCode> {
    let Some(folder) = &args.dir else {
        let mut text = Vec::new();
        Page::new(Cli::command()).render(&mut text)?;
        return print(&text);
    };
    let cannot =
        || format!("cannot write man pages to '{}'; name a folder that you may write", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    match io::stdout().write_all(text) {
        // A reader like head(1) that has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output; check where it goes")?,
    }
    Ok(ExitCode::SUCCESS)
}
