//! Where a host listens: on this machine alone, or at addresses of its network interfaces.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};

/// Which hosts have to reach this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Hosts on this machine, by sockets that no network leads to.
    Machine,
    /// Hosts on this machine, by TCP.
    Loopback,
    /// Hosts on other machines.
    Network,
}

/// A place where a host listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name of this machine's network namespace.
    Local(String),
    /// TCP.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(name) => write!(f, "local {name}"),
            Self::Tcp(address) => write!(f, "tcp {address}"),
        }
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(' ') {
            Some(("local", name)) => Ok(Self::Local(name.into())),
            Some(("tcp", address)) => address.parse().map(Self::Tcp).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

/// The interfaces that a user has chosen: by a name, or by a network in which their addresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// As in `ip link`.
    Named(String),
    /// An address, and how many of its bits count.
    Network(IpAddr, u32),
}

impl FromStr for Interface {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let Ok(address) = address.parse::<IpAddr>() else {
            let is_name = !text.is_empty() && !text.contains('/');
            return is_name.then(|| Self::Named(text.into())).ok_or(());
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| ())?;
        if bits > most { Err(()) } else { Ok(Self::Network(address, bits)) }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Network(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

impl Interface {
    fn has(&self, name: &str, address: IpAddr) -> bool {
        match self {
            Self::Named(wanted) => wanted == name,
            Self::Network(network, bits) => {
                common_bits(*network, address).is_some_and(|common| common >= *bits)
            }
        }
    }
}

/// How many bits two addresses of one family begin with alike.
pub fn common_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        (IpAddr::V6(one), IpAddr::V6(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        _ => None,
    }
}

/// The addresses of this machine at which it listens for others: those of the chosen interfaces, or of all that are up and lead
/// to other machines.
pub fn addresses(reach: Reach, chosen: Option<&Interface>) -> Vec<IpAddr> {
    if chosen.is_none() && reach != Reach::Network {
        return vec![Ipv4Addr::LOCALHOST.into()];
    }
    let Ok(all) = getifaddrs() else { return vec![] };
    let usable = all.filter_map(|interface| {
        let address = interface.address?;
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(address), _) => IpAddr::V4(address.ip()),
            // Addresses that hold for one link need its number, which differs from machine to machine.
            (_, Some(address)) => {
                Some(address.ip()).filter(|ip| !ip.is_unicast_link_local()).map(IpAddr::V6)?
            }
            _ => return None,
        };
        let is_wanted = match chosen {
            Some(chosen) => chosen.has(&interface.interface_name, ip),
            None => !ip.is_loopback(),
        };
        (interface.flags.contains(InterfaceFlags::IFF_UP) && is_wanted).then_some(ip)
    });
    usable.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_a_name_an_address_or_a_network() {
        let has = |chosen: &str, name, address: &str| {
            chosen.parse::<Interface>().unwrap().has(name, address.parse().unwrap())
        };
        assert!(has("eth0", "eth0", "10.0.0.1") && !has("eth0", "eth1", "10.0.0.1"));
        assert!(has("10.0.0.1", "eth0", "10.0.0.1") && !has("10.0.0.1", "eth0", "10.0.0.2"));
        assert!(has("10.1.0.0/16", "eth0", "10.1.9.9") && !has("10.1.0.0/16", "eth0", "10.2.0.1"));
        assert!(has("fd00::/8", "eth0", "fd12::1") && !has("fd00::/8", "eth0", "10.1.0.1"));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "eth0/8"] {
            assert!(wrong.parse::<Interface>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_comes_back_as_it_was_said() {
        for address in [
            Address::Local("f00".into()),
            Address::Tcp("10.0.0.1:80".parse().unwrap()),
            Address::Tcp("[fd00::1]:80".parse().unwrap()),
        ] {
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        assert!("udp 10.0.0.1:80".parse::<Address>().is_err());
    }

    #[test]
    fn without_a_network_no_other_machine_can_reach_a_host() {
        assert!(addresses(Reach::Loopback, None).iter().all(IpAddr::is_loopback));
        assert!(!addresses(Reach::Network, None).iter().any(IpAddr::is_loopback));
        let chosen = "127.0.0.0/8".parse().unwrap();
        assert_eq!(addresses(Reach::Network, Some(&chosen)), [IpAddr::from([127, 0, 0, 1])]);
    }
}
