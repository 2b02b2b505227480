//! Virtual memory at user level, as MultiView needs it: one memory object, mapped several times.
//!
//! The pages of each mapping have a protection of their own, and faults there call a function.
//!
//! # Parts
//!
//! An [`Object`] is memory without an address. [`Views`] map it, next to each other: `n` views whose pages may be forbidden
//! or read-only, and a *privileged* one that always may be read and written. A page of a view is a *vpage*. A
//! [`Protection`] limits access to vpages, by one of two means of the kernel:
//!
//! * [`UserFaults`]: `userfaultfd` in the modes missing, minor and write-protect. No mapping is ever split, so any number of vpages
//!   can differ from their neighbours. From Linux 6.4.
//! * [`Mprotect`]: where that is refused. Each boundary costs a mapping, of which a process has 65,530 by default.
//!
//! A [`layout::Layout`] says which part of the object is used through which view, for parts smaller than a page.
//! [`fault::serve`] calls a function in the thread that touched a forbidden page.
//!
//! [`Words`] are memory for measurements, separate from the rest.
//!
//! # Safety
//!
//! Memory that others write is never a reference: these types hand out addresses. The code that reads or writes there
//! states why that is sound.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod fault;
pub mod layout;
mod object;
mod origin;
mod protection;
mod scan;
mod views;
mod words;

pub use object::{DescriptorName, Object, ObjectName, free_bytes, free_memory_bytes, free_swap_bytes};
pub use origin::Origin;
pub use protection::{Allowed, Mprotect, Protection, UserFaults, protection};
pub use scan::{Element, Through};
pub use views::{Mapping, Views};
pub use words::{HUGE_PAGE_BYTES, Pages, Ring, Words};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Why memory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No memory object.
    #[error("cannot have {bytes} bytes of shared memory: {source}")]
    Object {
        /// That was asked for.
        bytes: usize,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The address space is taken, or too small.
    #[error("cannot map {views} views of {bytes} bytes{}: {source}{}", at_text(*.at), remedy(.source))]
    Views {
        /// Besides the privileged one.
        views: usize,
        /// Of each.
        bytes: usize,
        /// Where they had to be.
        at: Option<usize>,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// No memory to measure.
    #[error("cannot map {bytes} bytes of memory: {source}")]
    Words {
        /// That was asked for.
        bytes: usize,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// `userfaultfd` cannot do it.
    #[error("userfaultfd cannot protect shared memory ({what}): {source}")]
    UserFaults {
        /// The step that failed.
        what: &'static str,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// All places for handlers are taken.
    #[error("{limit} areas of memory have a fault handler already, which is all that can have one")]
    TooManyAreas {
        /// How many there can be.
        limit: usize,
    },
    /// The kernel takes no handler.
    #[error("cannot handle faults: {0}")]
    Handler(std::io::Error),
}

/// What helps where the kernel has no more mappings. It has none for protections by userfaultfd.
fn remedy(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOMEM) => {
            "; let a process have more mappings (sysctl vm.max_map_count) or userfaultfd (sysctl vm.unprivileged_userfaultfd=1), or share less"
        }
        Some(libc::EAGAIN) => "; let the process lock more memory (ulimit -l), or none",
        _ => "",
    }
}

fn at_text(at: Option<usize>) -> String {
    at.map(|at| format!(" at {at:#x}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_room_for_mappings_is_told_what_limits_them() {
        let error = |number| {
            let source = std::io::Error::from_raw_os_error(number);
            Error::Views { views: 16, bytes: 4_096, at: None, source }.to_string()
        };
        assert!(error(libc::ENOMEM).contains("vm.max_map_count"));
        assert!(error(libc::EAGAIN).contains("ulimit -l"));
        assert!(error(libc::EEXIST).ends_with("File exists (os error 17)"));
    }
}
