//! Teams of hosts, and what they do together.

use std::{
    ffi::{c_int, c_void},
    slice,
};

use forebay_millipage::{Error, NumberType, Reduction, Team};

use crate::{
    failure::{Failure, attempt},
    host::{host, rank},
};

/// See the header.
///
/// # Safety
/// There are as many ranks as the caller says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_team_create(ranks: *const c_int, count: usize) -> *mut c_void {
    attempt(|| {
        let host = host()?;
        if ranks.is_null() || count == 0 {
            return Err(Failure::Null("ranks"));
        }
        // SAFETY: not null, and as long as the caller says.
        let ranks = unsafe { slice::from_raw_parts(ranks, count) };
        let members = ranks.iter().map(|member| rank(*member, host.hosts()));
        let team = host.team(&members.collect::<Result<Vec<u16>, _>>()?)?;
        Ok(Box::into_raw(Box::new(team)).cast())
    })
}

/// See the header.
///
/// # Safety
/// The team was created here and is not freed yet, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_team_free(team: *mut c_void) {
    if !team.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(team.cast::<Team>()) });
    }
}

/// Acts on a team, or on that of all hosts.
///
/// # Safety
/// As for [`forebay_team_free`].
unsafe fn with(team: *const c_void, act: impl FnOnce(&Team) -> Result<c_int, Failure>) -> c_int {
    attempt(|| {
        let host = host()?;
        // SAFETY: as the caller says.
        match unsafe { team.cast::<Team>().as_ref() } {
            Some(team) => act(team),
            None => act(host.everyone()?),
        }
    })
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_team_rank(team: *const c_void) -> c_int {
    attempt(|| {
        let host = host()?;
        // SAFETY: as the caller says.
        let Some(team) = (unsafe { team.cast::<Team>().as_ref() }) else { return Ok(host.rank().into()) };
        Ok(team.rank().ok_or(Error::NotOfTeam { host: host.rank() })? as c_int)
    })
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_team_hosts(team: *const c_void) -> c_int {
    attempt(|| {
        let host = host()?;
        // SAFETY: as the caller says.
        let team = unsafe { team.cast::<Team>().as_ref() };
        Ok(team.map_or(host.hosts().into(), |team| team.members().len() as c_int))
    })
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_team_barrier(team: *const c_void) -> c_int {
    // SAFETY: as the caller says.
    unsafe { with(team, |team| Ok(team.barrier().map(|()| 0)?)) }
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`]; and there are so many numbers of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_reduce(
    team: *const c_void,
    values: *mut c_void,
    count: usize,
    number: c_int,
    reduction: c_int,
    root: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        with(team, |team| {
            let root = place(team, root)?;
            reduce(team, values, count, number, reduction, Some(root))
        })
    }
}

/// See the header.
///
/// # Safety
/// As for [`forebay_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_all_reduce(
    team: *const c_void,
    values: *mut c_void,
    count: usize,
    number: c_int,
    reduction: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { with(team, |team| reduce(team, values, count, number, reduction, None)) }
}

/// # Safety
/// As for [`forebay_reduce`].
unsafe fn reduce(
    team: &Team,
    values: *mut c_void,
    count: usize,
    number: c_int,
    reduction: c_int,
    root: Option<usize>,
) -> Result<c_int, Failure> {
    use NumberType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use Reduction::{And, Max, Min, Or, Product, Sum, Xor};
    let chosen = |number: c_int| usize::try_from(number).unwrap_or(usize::MAX);
    let types = [I8, U8, I16, U16, I32, U32, I64, U64, F32, F64];
    let number = *types.get(chosen(number)).ok_or(Failure::Number(number))?;
    let reductions = [Sum, Product, Min, Max, And, Or, Xor];
    let reduction = *reductions.get(chosen(reduction)).ok_or(Failure::Reduction(reduction))?;
    // SAFETY: as the caller says.
    let values = unsafe { bytes(values, count.saturating_mul(number.bytes()), "values")? };
    team.reduce_bytes(&format!("{count} {number:?}"), values, number, reduction, root)?;
    Ok(0)
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`]; and there are so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_broadcast(
    team: *const c_void,
    values: *mut c_void,
    count: usize,
    root: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        with(team, |team| {
            team.broadcast(bytes(values, count, "values")?, place(team, root)?)?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As for [`forebay_team_free`]; `mine` has so many bytes, and `all` as many for each member.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_all_gather(
    team: *const c_void,
    mine: *const c_void,
    count: usize,
    all: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        with(team, |team| {
            let mine = bytes(mine.cast_mut(), count, "mine")?.to_vec();
            team.all_gather(&mine, bytes(all, count.saturating_mul(team.members().len()), "all")?)?;
            Ok(0)
        })
    }
}

/// The place of a root.
fn place(team: &Team, root: c_int) -> Result<usize, Failure> {
    let members = team.members().len();
    let is_one = |root: &usize| *root < members;
    usize::try_from(root).ok().filter(is_one).ok_or(Failure::Rank { rank: root, hosts: members as u16 })
}

/// # Safety
/// There are so many, which no other thread uses.
unsafe fn bytes<'a>(first: *mut c_void, count: usize, name: &'static str) -> Result<&'a mut [u8], Failure> {
    if first.is_null() || count > isize::MAX as usize {
        return Err(Failure::Null(name));
    }
    // SAFETY: not null, and as many as the caller says.
    Ok(unsafe { slice::from_raw_parts_mut(first.cast(), count) })
}
