//! Requests over HTTP: the users and their passwords are the same, and so is the patience with wrong ones.

use core::net::IpAddr;

use super::{Action, QuestionId, Server};
use crate::address::neighbourhood;
use crate::authentication::{self, Line, Refused, Users};
use crate::message::Request;
use crate::range::SECOND_NS;

/// Whether a client gets what it asks for over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// As this user, if users have to be known.
    As(Option<String>),
    /// Not this user.
    Forbidden,
    /// Not without a password that meets one of these challenges.
    Challenged(Vec<String>),
    /// Not for so many seconds: wrong passwords have come from there.
    Later(u64),
}

/// What a request over HTTP is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// To watch what is at a path.
    Film(&'a str),
    /// To see what of a folder can be watched.
    List(&'a str),
    /// To be known as a user, whatever else.
    SignIn,
}

impl Purpose<'_> {
    /// Whether it is for a user, or for a client without a password.
    fn is_for(self, user: Option<&str>, users: &dyn Users) -> bool {
        match self {
            Self::Film(path) => users.may_watch(user, path),
            Self::List(folder) => user.is_some() || users.is_open(folder),
            Self::SignIn => user.is_some(),
        }
    }
}

/// Marks nonces that were made for an address. Browsers have several connections, and no RTSP connection has such a number.
const OF_ADDRESS: u64 = 1 << 63;

impl Server {
    /// A number for a question that no RTSP request waits for.
    pub fn question(&mut self) -> QuestionId {
        self.last_question += 1;
        QuestionId(self.last_question)
    }

    /// Whether a request that came over HTTP is from a user.
    pub fn admit(
        &mut self,
        request: &Request,
        purpose: Purpose,
        client: IpAddr,
        is_encrypted: bool,
        now_ns: u64,
    ) -> (Admitted, Vec<Action>) {
        let Some((guard, users)) = &self.guard else { return (Admitted::As(None), Vec::new()) };
        let has_password = request.headers.get("Authorization").is_some();
        if !has_password && purpose.is_for(None, users.as_ref()) {
            return (Admitted::As(None), Vec::new());
        }
        let wait_ns = self.guesses.next_ns(client, now_ns).saturating_sub(now_ns);
        if has_password && wait_ns > 0 {
            return (Admitted::Later(wait_ns.div_ceil(SECOND_NS)), Vec::new());
        }
        let line = Line { connection: OF_ADDRESS | number_of(client), is_encrypted };
        match guard.check(users.as_ref(), request, line, now_ns) {
            Ok(user) if !purpose.is_for(Some(&user), users.as_ref()) => (Admitted::Forbidden, Vec::new()),
            Ok(user) => (Admitted::As(Some(user)), Vec::new()),
            Err(Refused { is_stale }) => {
                let mut actions = Vec::new();
                if !is_stale && let Some(user) = authentication::claimed_user(request) {
                    let wrong = self.guesses.note_wrong(client, now_ns);
                    actions.push(Action::WrongPassword { client, user, wrong });
                }
                (Admitted::Challenged(guard.challenges(users.as_ref(), line, is_stale, now_ns)), actions)
            }
        }
    }

    /// Whether a user, or a client without a password, may watch what is at a path.
    pub fn may_watch(&self, user: Option<&str>, path: &str) -> bool {
        self.guard.as_ref().is_none_or(|(_, users)| users.may_watch(user, path))
    }

    /// Whether some clients have to say who they are.
    pub fn has_users(&self) -> bool {
        self.guard.is_some()
    }
}

fn number_of(client: IpAddr) -> u64 {
    match neighbourhood(client) {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => (u128::from(ip) >> 64) as u64,
    }
}
