//! What a run has learnt of executables and their call sites.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// Executables whose usefulness is remembered in one run.
pub const PROGRAMS: usize = 256;

/// What is known of one executable in this run.
#[repr(C)]
pub struct Program {
    /// Hash of the path that was executed; 0 for a free entry.
    pub key: AtomicU64,
    /// State of `forebay_policy::program::ProgramRecord`, packed by it.
    pub record: AtomicU64,
    /// Key of the executable whose process executed it last; 0 for the program that `forebay run` started, and if unknown.
    pub launcher: AtomicU64,
    /// What its speculations may cost.
    pub account: Account,
}

/// The account of a program's speculations, for `forebay_policy::account`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Account {
    /// What was paid in and not spent, in ticks.
    pub balance: AtomicI64,
    /// Failures in a row, in quarters.
    pub failures: AtomicU32,
    /// What a speculation costs on average, in ticks: where memory is ample, and where it is short. 0 while that is unknown.
    pub costs: [AtomicU64; 2],
}

/// Call sites whose value prediction is remembered in one run.
pub const CALL_SITES: usize = 1024;

/// What is known of one call site, for `forebay_policy::site`.
#[repr(C)]
pub struct CallSite {
    /// Hash that names the site; 0 for a free entry.
    pub key: AtomicU64,
    /// Present strategy and its record, packed by `forebay_policy::site`.
    pub state: AtomicU64,
}
