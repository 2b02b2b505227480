//! The patch sites of real C libraries.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use forebay_supervisor::patches::{Tier, call_name, examine, find, libc_path, pages, select};
use forebay_testkit::skip;

/// Where the C library of this host is.
fn libc_of_this_host(test: &str) -> Option<PathBuf> {
    let path = libc_path();
    if path.is_none() {
        skip(test, "this program uses no C library whose file is known");
    }
    path
}

/// The sites that matter most, with libc's usual name for them, if it is known to have them as sites.
#[test]
fn the_calls_of_this_hosts_libc_are_found() {
    let Some(path) = libc_of_this_host("the_calls_of_this_hosts_libc_are_found") else { return };
    let content = std::fs::read(path).unwrap();
    let (table, census) = examine(&content).unwrap();
    let selected = select(&table, Tier::Essential);
    for call in ["openat", "close", "fstat", "lseek", "getdents64", "execve", "brk"] {
        assert!(
            selected.iter().any(|site| site.number.and_then(call_name) == Some(call)),
            "no site of {call}: {census:?}"
        );
    }
    assert!(pages(&selected).len() <= 17, "{} pages", pages(&selected).len());
    assert_eq!(find(&content).unwrap(), table);
    for site in &table.sites {
        let code = site.displaced.site_code(site.number.unwrap_or_default());
        // In libc, addresses and positions in the file agree for all that is executable.
        assert!(content[site.offset as usize..].starts_with(&code[..site.len() as usize]));
    }
}

/// Everything that objdump takes for a site, but for those that the census says were left out, and nothing else.
#[test]
fn objdump_sees_the_same_instructions() {
    const NAME: &str = "objdump_sees_the_same_instructions";
    let Some(path) = libc_of_this_host(NAME) else { return };
    let mut objdump = Command::new("objdump");
    let Ok(output) = objdump.args(["-d", "--no-show-raw-insn", "-Mintel"]).arg(&path).output() else {
        return skip(NAME, "objdump is not installed");
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
    let calls = instructions.windows(3).filter(|three| three[1].1 == "syscall");
    let (compared, others): (Vec<_>, Vec<_>) = calls.partition(|three| comparisons.contains(&three[2].1));
    let loaded = others.iter().filter(|three| three[0].1.starts_with("mov    eax,0x"));
    let loaded: BTreeSet<u32> = loaded.map(|three| three[0].0).collect();
    let compared: BTreeSet<u32> = compared.iter().map(|three| three[1].0).collect();
    let all = instructions.iter().filter(|instruction| instruction.1 == "syscall").count();

    let (table, census) = examine(&std::fs::read(path).unwrap()).unwrap();
    let ours: BTreeSet<u32> = table.sites.iter().map(|site| site.offset).collect();
    assert_eq!(census.syscalls, all);
    let [comparisons @ .., loads] = census.displaceable;
    assert_eq!(comparisons.iter().sum::<usize>(), compared.len());
    // The unwind table may end a function between the two, as that of `clone`.
    assert!((loaded.len() - 2..=loaded.len()).contains(&loads));
    assert!(ours.is_subset(&compared.union(&loaded).copied().collect()));
    assert_eq!(
        compared.len() + loads - ours.len(),
        census.outside + census.entered + census.flags + census.calculated + census.unclear
    );
}
