//! The patch sites of real C libraries.

use std::collections::BTreeSet;
use std::process::Command;

use forebay_supervisor::patches::{Tier, call_name, examine, find, libc_path, pages, select};

/// The sites that matter most, with libc's usual name for them, if it is known to have them as sites.
#[test]
fn the_calls_of_this_hosts_libc_are_found() {
    let Some(path) = libc_path() else { return };
    let content = std::fs::read(path).unwrap();
    let (table, census) = examine(&content).unwrap();
    let selected = select(&table, Tier::Essential);
    for call in ["openat", "close", "fstat", "lseek", "getdents64", "execve"] {
        assert!(
            selected.iter().any(|site| site.number.and_then(call_name) == Some(call)),
            "no site of {call}: {census:?}"
        );
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
