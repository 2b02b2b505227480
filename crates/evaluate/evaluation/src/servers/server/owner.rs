//! Which process listens where requests are made: what is measured has to be what answers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use forebay_linux::{Connection, ConnectionState, Protocol, connections, holder_of, named, sockets_of};

use super::observer::Scope;
use crate::Error;

/// An error where another process than those of `scope` listens at `address`; none where the kernel does not tell.
pub(super) fn check(scope: &Scope, address: SocketAddr) -> Result<(), Error> {
    let listening = listening_at(address);
    if listening.is_empty() || !is_of_this_machine(address.ip()) {
        return Ok(());
    }
    for process in scope.processes() {
        match sockets_of(process) {
            Ok(own) if own.is_disjoint(&listening) => {}
            // What may not be seen may be the one.
            _ => return Ok(()),
        }
    }
    let owner = holder_of(&listening).map_or_else(|| "another process".to_owned(), named);
    Err(Error::AnotherAnswers { address, owner })
}

/// The sockets that take connections there: those of just this address before those of any.
fn listening_at(address: SocketAddr) -> BTreeSet<u32> {
    let all = connections(Protocol::Tcp).unwrap_or_default();
    let with = |is_host: &dyn Fn(IpAddr) -> bool| -> BTreeSet<u32> {
        let listens = |one: &&Connection| {
            let local = one.local;
            one.state == ConnectionState::Listening
                && local.port() == address.port()
                && is_host(local.ip().to_canonical())
        };
        all.iter().filter(listens).map(|one| one.inode).collect()
    };
    let exact = with(&|host| host == address.ip().to_canonical());
    if exact.is_empty() {
        with(&|host| host.is_unspecified() && (host.is_ipv6() || address.is_ipv4()))
    } else {
        exact
    }
}

fn is_of_this_machine(host: IpAddr) -> bool {
    UdpSocket::bind((host, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::process::{Command, id};

    use super::*;

    #[test]
    fn a_server_that_another_process_answers_for_is_told_with_that_one() {
        let mut other = Command::new("sleep").arg("300").spawn().unwrap();
        for host in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
            check(&Scope::Tree(id()), address).unwrap();
            let error = check(&Scope::Tree(other.id()), address).unwrap_err();
            assert!(error.to_string().contains(&format!("(process {})", id())), "{error}");
            drop(listener);
            check(&Scope::Tree(other.id()), address).unwrap();
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
