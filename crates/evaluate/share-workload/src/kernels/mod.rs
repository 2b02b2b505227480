//! Five parallel programs on shared memory, with the sharing patterns that page-based systems are commonly tested with.
//! They serve as examples, tests and benchmark of [`forebay_millipage`], and are written from the published algorithms.
//!
//! | program | what it computes | what is shared, and how | its check |
//! |---|---|---|---|
//! | [`sor`] | red-black relaxation of a grid | rows; hosts read the last rows of their neighbours | the same bits as the sequential form |
//! | [`is`] | ranks of integer keys | counts, to which all hosts add in turn | NAS's partial verification |
//! | [`water`] | the motion of water molecules | molecules, alone or in chunks; locks | energy |
//! | [`lu`] | the factors of a matrix | blocks, prefetched | the same bits, and a system solved |
//! | [`tsp`] | the shortest round trip | a pool of tours; the minimum, pushed | Held and Karp's algorithm |
//!
//! Each program has a parallel form, which all hosts call with the same parameters, and a sequential form on ordinary
//! memory. The parallel forms compute in private memory, and copy rows from and to shared memory. Vector instructions
//! need that ([`forebay_millipage::Row::read`]).

use bytemuck::Pod;
use forebay_millipage::{Error, Host, Placement};

pub mod is;
pub mod lu;
pub mod sor;
pub mod tsp;
pub mod water;

/// What each host has brought, by rank. All hosts call this.
fn gather<T: Pod>(host: &Host, value: T) -> Result<Vec<T>, Error> {
    let hosts = usize::from(host.hosts());
    let values = host.rows(hosts, 1, Placement::Blocks)?;
    values.row(host.rank().into()).set(0, value);
    host.barrier()?;
    let all = (0..hosts).map(|host| values.row(host).get(0)).collect();
    // No host leaves while others read.
    host.barrier()?;
    Ok(all)
}

/// Sum of the bits of `values`, each weighted by its place: it tells whether two results are the same, and can be summed up
/// in any order.
fn weigh(first_place: usize, values: impl IntoIterator<Item = u64>) -> u64 {
    let weighted =
        values.into_iter().zip(first_place as u64..).map(|(bits, place)| bits.wrapping_mul(2 * place + 1));
    weighted.fold(0, u64::wrapping_add)
}

/// The sum of all hosts' parts of a checksum.
fn add_up(host: &Host, part: u64) -> Result<u64, Error> {
    Ok(gather(host, part)?.into_iter().fold(0, u64::wrapping_add))
}
