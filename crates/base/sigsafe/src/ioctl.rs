//! Numbers of the `ioctl` requests in use.

pub use linux_raw_sys::ioctl::{
    UFFDIO_API, UFFDIO_CONTINUE, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_WRITEPROTECT, UFFDIO_ZEROPAGE,
};

use linux_raw_sys::general::pm_scan_arg;

/// Looks for pages of some kind in a range (ioctl_pagemap_scan(2)).
pub const PAGEMAP_SCAN: u32 = 3 << 30 | (size_of::<pm_scan_arg>() as u32) << 16 | (b'f' as u32) << 8 | 16;

const _: () = assert!(PAGEMAP_SCAN == 0xc060_6610);
