//! Prints where a libc's system calls are, which of them are redirected, and what each costs at a program's start:
//! `cargo run -p forebay-supervisor --example patches [LIBC...]`, by default for this host's libc.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use forebay_supervisor::patches::{Site, Tier, call_name, examine, libc_path, pages, select};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut libraries: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if libraries.is_empty() {
        libraries.extend(libc_path());
    }
    for path in libraries {
        let content = std::fs::read(&path)?;
        let start = std::time::Instant::now();
        let (table, census) = examine(&content)?;
        let elapsed = start.elapsed();
        println!("{}: {} sites in {elapsed:?}\n{census:#?}", path.display(), table.sites.len());
        let unnumbered = table.sites.iter().filter(|site| site.number.is_none());
        println!("number unknown: {:x?}", unnumbered.map(|site| site.offset).collect::<Vec<_>>());
        for tier in [Tier::Essential, Tier::All] {
            let selected = select(&table, tier);
            println!("{tier:?}: {} sites, {} pages", selected.len(), pages(&selected).len());
        }
        let selected = select(&table, Tier::All);
        by_call(&selected);
        for page in pages(&selected) {
            let here = selected.iter().filter(|site| pages(&[**site]).contains(&page));
            println!("page {page:x}: {}", here.map(name).collect::<Vec<_>>().join(" "));
        }
        println!("all: {:x?}", table.sites.iter().map(|site| site.offset).collect::<Vec<_>>());
    }
    Ok(())
}

fn name(site: &Site) -> String {
    match site.number {
        None => "(any)".into(),
        Some(number) => call_name(number).map_or_else(|| number.to_string(), Into::into),
    }
}

fn by_call(selected: &[Site]) {
    let mut calls: BTreeMap<String, Vec<Site>> = BTreeMap::new();
    for site in selected {
        calls.entry(name(site)).or_default().push(*site);
    }
    for (call, sites) in &calls {
        let others: Vec<Site> = selected.iter().filter(|site| name(site) != *call).copied().collect();
        let own: BTreeSet<u32> = pages(sites).difference(&pages(&others)).copied().collect();
        println!(
            "{call}: {} sites, {} pages, {} of them its own",
            sites.len(),
            pages(sites).len(),
            own.len()
        );
    }
}
