//! Addresses of clients.

use core::net::{IpAddr, Ipv6Addr};

/// The address that a client's limits belong to. In IPv6 one host has all addresses that share their first half.
pub fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip @ IpAddr::V4(_) => ip,
    }
}
