use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no server.
#[derive(Debug, Error)]
pub enum Error {
    /// The folder cannot be opened.
    #[error("{}: {source}: name a folder with media files that this user may read", .path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Folders that cannot be served together.
    #[error("{why}")]
    Folders {
        /// Why not.
        why: String,
    },
    /// Another program listens there.
    #[error(
        "port {} is taken{}: end that program, or choose another port with --listen {}",
        .address.port(), holder(.by), SocketAddr::new(.address.ip(), .address.port().wrapping_add(1))
    )]
    Taken {
        /// Where it was to listen.
        address: SocketAddr,
        /// Which program, if this user may know.
        by: Option<String>,
    },
    /// The system refuses to listen there.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The access log cannot be written.
    #[error("the access log {}: {source}: name a file that this user may write", .path.display())]
    AccessLog {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file of settings.
    #[error("{}{}: {why}", .path.display(), .at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default())]
    Config {
        /// Which.
        path: PathBuf,
        /// In which line and column of it, from 1, if it could be read.
        at: Option<(usize, usize)>,
        /// What was expected there.
        why: String,
    },
    /// A script of cameras.
    #[error("{}:{error}", .path.display())]
    Script {
        /// Which file.
        path: PathBuf,
        /// Where in it, and what was expected there.
        error: forebay_cameras::ScriptError,
    },
    /// A film that cameras cannot play.
    #[error("{}: {why}", .path.display())]
    Film {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Cameras that cannot be.
    #[error("{why}")]
    Cameras {
        /// Why not.
        why: String,
    },
    /// A certificate or its key.
    #[error("{}: {why}", .path.display())]
    Tls {
        /// Which file.
        path: PathBuf,
        /// What was expected of it.
        why: String,
    },
    /// A user that the server cannot switch to.
    #[error("cannot switch to user {user}: {why}")]
    User {
        /// Which user.
        user: String,
        /// Why not.
        why: String,
    },
    /// Something that works on any machine.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what the system was asked for.
pub(crate) fn to<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::System { what, source: source.into() }
}

fn holder(by: &Option<String>) -> String {
    by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default()
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": only root can use ports below 1024; choose another one with --listen"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; `ip address` lists those it has"
        }
        _ => "",
    }
}
