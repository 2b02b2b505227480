//! Requests of users: names with digests of passwords (WS-Security UsernameToken Profile 1.0, section 3.1).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use forebay_rtsp::range::SECOND_NS;
use roxmltree::Node;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use super::{Fault, child};
use crate::plan::{Camera, Plan};

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
pub(super) fn check(plan: &Plan, root: Node<'_, '_>, unix_ns: u64) -> Result<Allowed, Fault> {
    let mut logins = plan.cameras().iter().filter_map(|camera| camera.login.as_ref()).peekable();
    if logins.peek().is_none() {
        return Ok(Allowed::All);
    }
    let header = child(root, "Header").and_then(|header| child(header, "Security"));
    let token = header.and_then(|security| child(security, "UsernameToken")).ok_or_else(not_authorized)?;
    let text =
        |name| child(token, name).and_then(|node| node.text()).map(str::trim).ok_or_else(not_authorized);
    let (user, digest, nonce, created) =
        (text("Username")?, text("Password")?, text("Nonce")?, text("Created")?);
    let login = logins.find(|login| login.user == user).ok_or_else(not_authorized)?;
    let nonce = BASE64_STANDARD.decode(nonce).map_err(|_| not_authorized())?;
    let expected =
        Sha1::new().chain_update(nonce).chain_update(created).chain_update(&login.password).finalize();
    let given = BASE64_STANDARD.decode(digest).map_err(|_| not_authorized())?;
    let is_right = bool::from(expected[..].ct_eq(&given));
    let age_ns = created_ns(created).ok_or_else(not_authorized)?.abs_diff(unix_ns);
    if is_right && age_ns <= AGE_NS_MAX { Ok(Allowed::Of(user.to_owned())) } else { Err(not_authorized()) }
}

/// When a token was made, since 1970.
fn created_ns(text: &str) -> Option<u64> {
    // Some clients say no zone, and mean UTC.
    let begin = humantime::parse_rfc3339("1970-01-01T00:00:00Z").ok()?;
    let since = humantime::parse_rfc3339_weak(text.strip_suffix("+00:00").unwrap_or(text))
        .ok()?
        .duration_since(begin)
        .ok()?;
    u64::try_from(since.as_nanos()).ok()
}
