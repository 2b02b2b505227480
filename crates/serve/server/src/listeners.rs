//! The sockets that the server listens on.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use forebay_linux::{Connection, ConnectionState, Protocol, connections, holder_of, named};

use crate::connections::Kind;
use crate::error::{Error, Result, to};
use crate::settings::Settings;

/// Connections that may wait to be accepted.
const QUEUE: i32 = 4096;

/// Listens on all addresses of the settings.
pub(crate) fn listen_on_all(settings: &Settings) -> Result<Vec<(TcpListener, Kind)>> {
    let encrypted = settings.tls.iter().flat_map(|tls| &tls.listen);
    let all = settings.listen.iter().map(|address| (address, Kind::Plain));
    let all = all.chain(encrypted.map(|address| (address, Kind::Encrypted)));
    let all = all.chain(settings.status.iter().map(|address| (address, Kind::Status)));
    all.map(|(address, kind)| Ok((listen(*address)?, kind))).collect()
}

/// Listens on an address; on all of IPv4 where the machine has no IPv6 and all were meant.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = match TcpListener::bind(address) {
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && has_no_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        other => other,
    };
    let listener = listener.map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::Taken { address, by: holder(address.port()) },
        _ => Error::Listen { address, source },
    })?;
    listener.set_nonblocking(true).map_err(to("a socket"))?;
    rustix::net::listen(&listener, QUEUE).map_err(to("listen"))?;
    Ok(listener)
}

fn has_no_ipv6(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// The program that listens on a port, as far as this user may know.
fn holder(port: u16) -> Option<String> {
    let listens = |one: &Connection| one.state == ConnectionState::Listening && one.local.port() == port;
    let all = connections(Protocol::Tcp).ok()?.into_iter().filter(listens);
    holder_of(&all.map(|one| one.inode).collect()).map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_listens_on_a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("its address");
        let error = listen(address).expect_err("it is taken");
        let said = error.to_string();
        assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
        assert!(said.contains(&format!("--listen 127.0.0.1:{}", address.port().wrapping_add(1))), "{said}");
    }
}
