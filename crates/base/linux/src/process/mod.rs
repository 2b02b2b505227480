//! Starts a program exactly as a shell would start it, stands between it and its parent, and sees how it ends.
//!
//! The launchers of `forebay run` and `forebay share` use this. A caller blocks signals ([`SignalsBlocked`]), starts the
//! program ([`start_first`], [`start_command`]), passes signals on ([`next_signal`], [`is_for_program`]) and reads how the
//! program's state changed ([`child_state`]). The calling process must have one thread while it blocks signals.
//!
//! Or the process becomes the program ([`become_other`]), and a copy of it watches from beside ([`start_beside`]).
//!
//! # Invariants
//!
//! - The program inherits signal mask, ignored signals and closed standard descriptors as this process got them.
//! - Starting a program copies no memory: the child borrows the parent's until execve(2), as in posix_spawn(3).
//! - The child calls async-signal-safe functions only.

mod apart;
mod beside;
mod child;
mod command;
mod error;
mod inherited;
mod priority;
mod program_file;
mod signals;
mod start;

pub use apart::{Apart, start_apart, start_apart_with};
pub use beside::{Neighbour, Woken, adopts_orphans, start_beside};
pub use child::{ChildEnd, ChildState, ChildUsage, child_state, reap_orphans};
pub use command::{SHELL, by_shell, check_executable, start_command, start_first, terminated};
pub use error::StartError;
pub use inherited::{environment, executed_as, inherited_files};
pub use priority::leave_idle;
pub use program_file::{Elf, ProgramFile};
pub use signals::{Arrived, SignalsBlocked, end_by, is_for_program, next_signal, send_signal};
pub use start::{Life, become_other, start};
