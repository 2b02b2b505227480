//! Requests of users: names with passwords or their digests (WS-Security UsernameToken Profile 1.0, section 3.1).

use std::sync::PoisonError;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use forebay_rtsp::range::SECOND_NS;
use roxmltree::Node;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use super::{Asker, Fault, WrongPassword, child, times};
use crate::plan::{Camera, Login, Plan};

/// How far a client's clock may be from the camera's.
const AGE_NS_MAX: u64 = 300 * SECOND_NS;

/// The cameras that a request may know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// All of them.
    All,
    /// Those of a user, and those that are open to all users.
    Of(String),
}

impl Allowed {
    pub fn may_see(&self, camera: &Camera) -> bool {
        match (self, &camera.login) {
            (Self::All, _) | (_, None) => true,
            (Self::Of(user), Some(login)) => login.user == *user,
        }
    }
}

pub(super) fn not_authorized() -> Fault {
    Fault::of_sender("ter:NotAuthorized", "a user name and a password digest of this camera are wanted")
}

/// What the user of a request may see. Without users every client may see everything.
pub(super) fn check(
    plan: &Plan,
    root: Node<'_, '_>,
    asker: &Asker<'_>,
    unix_ns: u64,
) -> Result<Allowed, Fault> {
    let mut logins = plan.cameras().iter().filter_map(|camera| camera.login.as_ref()).peekable();
    if logins.peek().is_none() {
        return Ok(Allowed::All);
    }
    let header = child(root, "Header").and_then(|header| child(header, "Security"));
    let token = header.and_then(|security| child(security, "UsernameToken")).ok_or_else(not_authorized)?;
    let user = text(token, "Username").ok_or_else(not_authorized)?;
    // Requests that come at once are looked at one after another, so that all but the first few wait.
    let mut guesses = asker.guesses.lock().unwrap_or_else(PoisonError::into_inner);
    if guesses.next_ns(asker.client, asker.now_ns) > asker.now_ns {
        let why = "too many wrong passwords have come from this address: try again later";
        return Err(Fault { status: 429, ..Fault::of_sender("ter:NotAuthorized", why) });
    }
    let is_right = logins.find(|login| login.user == user).is_some_and(|login| has_password(token, login));
    if !is_right {
        let wrong = guesses.note_wrong(asker.client, asker.now_ns);
        let wrong_password = Some(WrongPassword { user: user.to_owned(), wrong });
        return Err(Fault { wrong_password, ..not_authorized() });
    }
    if is_plain(token) {
        return Ok(Allowed::Of(user.to_owned()));
    }
    // A client whose clock is off does not guess.
    let age_ns =
        text(token, "Created").and_then(times::unix_ns).map(|created_ns| created_ns.abs_diff(unix_ns));
    let is_fresh = age_ns.is_some_and(|age_ns| age_ns <= AGE_NS_MAX);
    if is_fresh { Ok(Allowed::Of(user.to_owned())) } else { Err(not_authorized()) }
}

fn text<'a>(token: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(token, name).and_then(|node| node.text()).map(str::trim)
}

/// Whether a token says that its password is no digest (section 3.1).
fn is_plain(token: Node<'_, '_>) -> bool {
    let kind = child(token, "Password").and_then(|password| password.attribute("Type"));
    kind.is_some_and(|kind| kind.ends_with("#PasswordText"))
}

/// Whether a token has a user's password, or its digest.
fn has_password(token: Node<'_, '_>, login: &Login) -> bool {
    if is_plain(token) {
        let given = text(token, "Password").unwrap_or_default();
        return bool::from(given.as_bytes().ct_eq(login.password.as_bytes()));
    }
    let decoded = |name| text(token, name).and_then(|text| BASE64_STANDARD.decode(text).ok());
    let (Some(given), Some(nonce), Some(created)) =
        (decoded("Password"), decoded("Nonce"), text(token, "Created"))
    else {
        return false;
    };
    let expected =
        Sha1::new().chain_update(nonce).chain_update(created).chain_update(&login.password).finalize();
    bool::from(expected[..].ct_eq(&given))
}
