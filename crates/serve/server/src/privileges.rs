//! Switches to another user, once what needs root has been done.

use std::fs;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::error::{Error, Result};

/// Makes this thread, which is the only one, run as `user` for good.
pub(crate) fn become_user(user: &str) -> Result<()> {
    let refuse = |why: String| Error::User { user: user.to_owned(), why };
    let users = fs::read_to_string("/etc/passwd").map_err(|error| refuse(format!("/etc/passwd: {error}")))?;
    let (uid, gid) =
        numbers(&users, user).ok_or_else(|| refuse("/etc/passwd has no such user".to_owned()))?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[gid])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .map_err(|error| refuse(format!("only root can do that ({error})")))
}

/// The numbers of a user and of their group.
fn numbers(users: &str, user: &str) -> Option<(u32, u32)> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(user);
        let uid = fields.nth(1)?.parse().ok()?;
        is_it.then_some((uid, fields.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_names() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nnobody2:x:9:9::/:/\nnobody:x:65534:65533:n:/:/\n";
        assert_eq!(numbers(users, "nobody"), Some((65534, 65533)));
        assert_eq!(numbers(users, "body"), None);
    }
}
