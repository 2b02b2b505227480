//! One memory for all hosts of a job that are on one machine. The first host makes the memory object and the board, and
//! names them in a round. The others open them by their names.

use forebay_vm::{Mapping, Object, ObjectName};

use super::{
    Meeting,
    terms::{Terms, Whereabouts},
};
use crate::{Error, board::Board};

/// The memory and the board of all hosts, if these are on one machine and each can open both; else each host needs a memory of
/// its own.
///
/// # Errors
/// There is not enough memory, or a host has ended.
pub fn agree(
    terms: &Terms,
    places: &[Whereabouts],
    meeting: &mut Meeting,
) -> Result<Option<(Object, Board)>, Error> {
    // A host that this one sees also sees this one.
    if terms.separate || places.iter().any(|place| place.process.is_none()) {
        return Ok(None);
    }
    let hosts = meeting.hosts;
    let made = if meeting.me.0 == 0 { make(terms, hosts).map(Some) } else { Ok(None) };
    let (made, said) = meeting.agree(made, |made| {
        let names = made.as_ref().map(|(_, _, names)| names.clone());
        names.unwrap_or_default().into_bytes()
    })?;
    let opened = match made {
        Some((object, board, _)) => Ok((object, board)),
        None => open(said.first().map_or(&[], Vec::as_slice)),
    };
    // The first host keeps both open until all hosts have them.
    let mapped = opened.and_then(|(object, board)| Ok((object, Mapping::new(&board)?, board)));
    let all_have = meeting.exchange(&[u8::from(mapped.is_ok())])?.iter().all(|said| said == &[1]);
    let (me, mapped) = (meeting.me, mapped.ok().filter(|_| all_have));
    Ok(mapped.map(|(object, board, _)| (object, Board::new(board, me, hosts))))
}

/// The memory, the board, and both names, a line each.
fn make(terms: &Terms, hosts: u16) -> Result<(Object, Object, String), Error> {
    let object = super::memory(terms, 1)?;
    let board = Object::sparse(Board::bytes(hosts))?;
    let names = format!("{}\n{}", object.name()?, board.name()?);
    Ok((object, board, names))
}

fn open(names: &[u8]) -> Result<(Object, Object), Error> {
    let names = String::from_utf8_lossy(names);
    let mut names = names.lines().filter_map(|name| name.parse::<ObjectName>().ok());
    let mut open = || -> Result<Object, Error> { Ok(Object::named(&names.next().ok_or(Error::Garbled)?)?) };
    Ok((open()?, open()?))
}
