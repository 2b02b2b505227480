//! The patch sites of real C libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use forebay_supervisor::patches::{Site, Tier, call_name, examine, find, libc_path, pages, select};

fn libraries() -> Vec<PathBuf> {
    let more = std::env::var_os("FOREBAY_TEST_LIBCS");
    libc_path().into_iter().chain(more.iter().flat_map(std::env::split_paths)).collect()
}

/// The sites that matter most, with libc's usual name for them, if it is known to have them as sites.
#[test]
fn the_calls_of_this_hosts_libc_are_found() {
    let Some(path) = libc_path() else { return };
    let content = std::fs::read(path).unwrap();
    let (table, census) = examine(&content).unwrap();
    let selected = select(&table, Tier::Essential);
    for call in ["openat", "close", "fstat", "lseek", "getdents64", "execve"] {
        assert!(selected.iter().any(|site| name(site) == call), "no site of {call}: {census:?}");
    }
    assert!(pages(&selected).len() <= 16, "{} pages", pages(&selected).len());
    assert_eq!(find(&content).unwrap(), table);
    for site in &table.sites {
        let bytes = [&[0x0f, 0x05], site.displaced.bytes()].concat();
        // In libc, addresses and positions in the file agree for all that is executable.
        assert!(content[site.offset as usize..].starts_with(&bytes));
    }
}

/// Everything that objdump takes for a site, but for those that the census says were left out, and nothing else.
#[test]
fn objdump_sees_the_same_instructions() {
    let Some(path) = libc_path() else { return };
    let mut objdump = Command::new("objdump");
    let Ok(output) = objdump.args(["-d", "--no-show-raw-insn", "-Mintel"]).arg(&path).output() else {
        eprintln!("objdump is not installed; nothing was compared");
        return;
    };
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let instructions: Vec<(u32, &str)> = text
        .lines()
        .filter_map(|line| {
            let (address, instruction) = line.split_once(":\t")?;
            Some((u32::from_str_radix(address.trim(), 16).ok()?, instruction.trim()))
        })
        .collect();
    let comparisons =
        ["cmp    rax,0xfffffffffffff000", "cmp    rax,0xfffffffffffff001", "cmp    eax,0xfffff000"];
    let theirs: BTreeSet<u32> = instructions
        .windows(2)
        .filter(|pair| pair[0].1 == "syscall" && comparisons.contains(&pair[1].1))
        .map(|pair| pair[0].0)
        .collect();
    let all = instructions.iter().filter(|instruction| instruction.1 == "syscall").count();

    let (table, census) = examine(&std::fs::read(path).unwrap()).unwrap();
    let ours: BTreeSet<u32> = table.sites.iter().map(|site| site.offset).collect();
    assert_eq!(census.syscalls, all);
    assert_eq!(census.comparisons.iter().sum::<usize>(), theirs.len());
    assert!(ours.is_subset(&theirs));
    assert_eq!(
        theirs.len() - ours.len(),
        census.outside + census.entered + census.calculated + census.unclear
    );
}

/// Not a test: prints what was found. Name further libraries in `FOREBAY_TEST_LIBCS`, separated by colons.
#[test]
#[ignore = "prints figures; run with --ignored --nocapture"]
fn figures() {
    for path in libraries() {
        let content = std::fs::read(&path).unwrap();
        let start = std::time::Instant::now();
        let (table, census) = examine(&content).unwrap();
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
