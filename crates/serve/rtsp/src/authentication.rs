//! Authentication of users: Digest with MD5 and SHA-256 (RFC 7616, and RFC 2617 for older clients), and Basic (RFC 7617).
//!
//! A nonce says when it was made and for which connection, under a key, so that none has to be remembered. One that has
//! expired, or was made for another connection, is answered with a new one and `stale`: the client tries again by itself.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::key::Key;
use crate::message::Request;
use crate::target::Target;

/// Those that may watch.
pub trait Users {
    /// What proves that a client is this user; `None` if there is no such user.
    fn secret(&self, user: &str) -> Option<Secret>;

    /// Whether every user has a secret for SHA-256. If one has not, the server offers SHA-256 to no client: the server does not
    /// know the user yet when it makes the offer, and a client that supports both algorithms takes SHA-256.
    fn all_have_sha256(&self) -> bool {
        true
    }

    /// Whether a user, or a client without a password, may watch the presentation at this path.
    fn may_watch(&self, user: Option<&str>, path: &str) -> bool {
        let _ = path;
        user.is_some()
    }

    /// Whether clients without a password may watch something that a list of a folder may have.
    fn is_open(&self, folder: &str) -> bool {
        let _ = folder;
        false
    }
}

/// What is known of a user's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// All.
    Password(String),
    /// Hashes of `user:realm:password`, in hexadecimal digits. Without the one for MD5, old clients are refused.
    Hashed {
        /// By MD5.
        md5: Option<String>,
        /// By SHA-256.
        sha256: Option<String>,
    },
}

/// How clients are authenticated.
#[derive(Clone, Debug)]
pub struct Guard {
    /// What the password is for, as a client shows it to its user.
    pub realm: String,
    /// Whether passwords may come in the clear on connections that are not encrypted.
    pub is_basic_allowed: bool,
    /// For how long a nonce is good.
    pub nonce_ns: u64,
    /// What makes nonces.
    pub key: Key,
}

/// The connection that a request came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which.
    pub connection: u64,
    /// Whether others can read along.
    pub is_encrypted: bool,
}

/// A request is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Only because the nonce is old.
    pub is_stale: bool,
}

const REFUSED: Refused = Refused { is_stale: false };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Guard {
    /// The values of `WWW-Authenticate`, strongest first: clients that know MD5 only take the last Digest.
    pub fn challenges(&self, users: &dyn Users, line: Line, is_stale: bool, now_ns: u64) -> Vec<String> {
        let (realm, nonce) = (&self.realm, self.nonce(now_ns, line.connection));
        let stale = if is_stale { ", stale=true" } else { "" };
        // Some clients want realm and nonce first. Those that know no `qop` know no SHA-256 either.
        let start = format!("Digest realm=\"{realm}\", nonce=\"{nonce}\"{stale}");
        let mut challenges = vec![format!("{start}, algorithm=MD5")];
        if users.all_have_sha256() {
            challenges.insert(0, format!("{start}, algorithm=SHA-256, qop=\"auth\""));
        }
        if self.takes_basic(line) {
            challenges.push(format!("Basic realm=\"{realm}\""));
        }
        challenges
    }

    /// The user that a request is from.
    pub fn check(
        &self,
        users: &dyn Users,
        request: &Request,
        line: Line,
        now_ns: u64,
    ) -> Result<String, Refused> {
        let header = request.headers.get("Authorization").ok_or(REFUSED)?;
        let (scheme, rest) = header.trim().split_once(' ').ok_or(REFUSED)?;
        match scheme.to_ascii_lowercase().as_str() {
            "digest" => self.check_digest(users, request, rest, line, now_ns),
            "basic" if self.takes_basic(line) => self.check_basic(users, rest),
            _ => Err(REFUSED),
        }
    }

    fn takes_basic(&self, line: Line) -> bool {
        self.is_basic_allowed || line.is_encrypted
    }

    fn check_basic(&self, users: &dyn Users, encoded: &str) -> Result<String, Refused> {
        let decoded = BASE64_STANDARD.decode(encoded.trim()).map_err(|_| REFUSED)?;
        let decoded = String::from_utf8(decoded).map_err(|_| REFUSED)?;
        let (user, password) = decoded.split_once(':').ok_or(REFUSED)?;
        let secret = users.secret(user);
        let is_right = [Algorithm::Sha256, Algorithm::Md5].into_iter().any(|algorithm| {
            let given = algorithm.hash(&[user, &self.realm, password]);
            let expected = self.first_hash(algorithm, user, secret.as_ref());
            secret.is_some() && expected.is_some_and(|expected| same(&expected, &given))
        });
        if is_right { Ok(user.to_owned()) } else { Err(REFUSED) }
    }

    fn check_digest(
        &self,
        users: &dyn Users,
        request: &Request,
        parameters: &str,
        line: Line,
        now_ns: u64,
    ) -> Result<String, Refused> {
        let parameters = Parameters::parse(parameters);
        let get = |name| parameters.get(name).ok_or(REFUSED);
        let (user, nonce, uri) = (get("username")?, get("nonce")?, get("uri")?);
        let algorithm = match parameters.get("algorithm").unwrap_or("MD5").to_ascii_uppercase().as_str() {
            "MD5" => Algorithm::Md5,
            "SHA-256" => Algorithm::Sha256,
            _ => return Err(REFUSED),
        };
        // Some clients always name the presentation, also where the request is about a track of it.
        let of_request = Target::parse(&request.url).ok_or(REFUSED)?;
        if uri != request.url && !Target::parse(uri).is_some_and(|target| target.is_beside(&of_request)) {
            return Err(REFUSED);
        }
        let (made_ns, connection) = self.read_nonce(nonce).ok_or(REFUSED)?;
        let secret = users.secret(user);
        let first = self.first_hash(algorithm, user, secret.as_ref()).ok_or(REFUSED)?;
        let second = algorithm.hash(&[request.method.as_str(), uri]);
        let expected = match parameters.get("qop") {
            Some("auth") => algorithm.hash(&[&first, nonce, get("nc")?, get("cnonce")?, "auth", &second]),
            Some(_) => return Err(REFUSED),
            None if algorithm == Algorithm::Md5 => algorithm.hash(&[&first, nonce, &second]),
            None => return Err(REFUSED),
        };
        if !same(&expected, &get("response")?.to_ascii_lowercase()) || secret.is_none() {
            return Err(REFUSED);
        }
        let is_fresh = now_ns.saturating_sub(made_ns) <= self.nonce_ns;
        if is_fresh && connection == line.connection {
            Ok(user.to_owned())
        } else {
            Err(Refused { is_stale: true })
        }
    }

    /// The hash of user, realm and password. A user that there is not takes as long as one that there is.
    fn first_hash(&self, algorithm: Algorithm, user: &str, secret: Option<&Secret>) -> Option<String> {
        match (secret, algorithm) {
            (None, _) => Some(algorithm.hash(&[user, &self.realm, "nobody's password"])),
            (Some(Secret::Password(password)), _) => Some(algorithm.hash(&[user, &self.realm, password])),
            (Some(Secret::Hashed { md5, .. }), Algorithm::Md5) => {
                md5.as_ref().map(|hash| hash.to_ascii_lowercase())
            }
            (Some(Secret::Hashed { sha256, .. }), Algorithm::Sha256) => {
                sha256.as_ref().map(|hash| hash.to_ascii_lowercase())
            }
        }
    }

    fn nonce(&self, made_ns: u64, connection: u64) -> String {
        let said = format!("{made_ns:016x}{connection:016x}");
        let mac = self.key.sign("nonce", &said);
        said + &mac
    }

    /// When it was made, and for which connection. `None` if it was not made here.
    fn read_nonce(&self, nonce: &str) -> Option<(u64, u64)> {
        let (said, mac) = nonce.split_at_checked(32)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (made_ns, connection) = said.split_at_checked(16)?;
        same(&self.key.sign("nonce", said), mac).then_some((number(made_ns)?, number(connection)?))
    }
}

/// The name that a request's password is for; `None` without a password.
pub fn claimed_user(request: &Request) -> Option<String> {
    let (scheme, rest) = request.headers.get("Authorization")?.trim().split_once(' ')?;
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = BASE64_STANDARD.decode(rest.trim()).ok()?;
        let decoded = String::from_utf8_lossy(&decoded).into_owned();
        return Some(decoded.split(':').next().unwrap_or_default().to_owned());
    }
    Some(Parameters::parse(rest).get("username").unwrap_or_default().to_owned())
}

impl Algorithm {
    /// Of the parts with colons between them, in hexadecimal digits.
    fn hash(self, parts: &[&str]) -> String {
        let text = parts.join(":");
        match self {
            Self::Md5 => format!("{:x}", Md5::digest(text)),
            Self::Sha256 => format!("{:x}", Sha256::digest(text)),
        }
    }
}

/// Takes as long wherever they differ.
fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// `name=value, name="value"`.
struct Parameters<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Parameters<'a> {
    fn parse(mut text: &'a str) -> Self {
        let mut all = Vec::new();
        while let Some((name, rest)) = text.split_once('=') {
            let rest = rest.trim_start();
            let (value, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
            };
            all.push((name.trim_matches([' ', '\t', ',']), value.trim()));
            text = after;
        }
        Parameters(all)
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, Method};

    const SECOND_NS: u64 = 1_000_000_000;
    const LINE: Line = Line { connection: 7, is_encrypted: false };
    const URL: &str = "rtsp://h/a.mp4";

    struct Ada(Secret);

    impl Users for Ada {
        fn secret(&self, user: &str) -> Option<Secret> {
            (user == "ada").then(|| self.0.clone())
        }

        fn all_have_sha256(&self) -> bool {
            !matches!(self.0, Secret::Hashed { sha256: None, .. })
        }
    }

    fn with_password() -> Ada {
        Ada(Secret::Password("love:lace".to_owned()))
    }

    fn guard() -> Guard {
        Guard {
            realm: "films".to_owned(),
            is_basic_allowed: false,
            nonce_ns: 60 * SECOND_NS,
            key: Key([9; 32]),
        }
    }

    fn request(url: &str, authorization: &str) -> Request {
        let mut headers = Headers::default();
        headers.push("Authorization", authorization);
        Request { method: Method::Setup, url: url.to_owned(), headers, body: vec![] }
    }

    /// What a client makes of a challenge.
    fn answer(challenge: &str, user: &str, password: &str, uri: &str) -> String {
        let asked = Parameters::parse(challenge.strip_prefix("Digest ").expect("a Digest challenge"));
        let get = |name| asked.get(name).unwrap_or_default();
        let algorithm = if get("algorithm") == "MD5" { Algorithm::Md5 } else { Algorithm::Sha256 };
        let first = algorithm.hash(&[user, get("realm"), password]);
        let second = algorithm.hash(&["SETUP", uri]);
        let (response, more) = match get("qop") {
            "" => (algorithm.hash(&[&first, get("nonce"), &second]), ""),
            qop => {
                let response = algorithm.hash(&[&first, get("nonce"), "00000001", "abc", qop, &second]);
                (response, ", qop=auth, nc=00000001, cnonce=\"abc\"")
            }
        };
        format!(
            "Digest username=\"{user}\", realm=\"films\", nonce=\"{}\", uri=\"{uri}\", response=\"{response}\", \
             algorithm={}{more}",
            get("nonce"),
            get("algorithm")
        )
    }

    fn check(users: &Ada, authorization: &str, now_ns: u64) -> Result<String, Refused> {
        guard().check(users, &request(URL, authorization), LINE, now_ns)
    }

    #[test]
    fn the_examples_of_the_standard_come_out() {
        // RFC 7616, section 3.9.1.
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        for (algorithm, expected) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let first = algorithm.hash(&["Mufasa", "http-auth@example.org", "Circle of Life"]);
            let second = algorithm.hash(&["GET", "/dir/index.html"]);
            let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
            assert_eq!(algorithm.hash(&[&first, nonce, "00000001", cnonce, "auth", &second]), expected);
        }
    }

    #[test]
    fn the_right_password_opens_and_no_other() {
        let challenges = guard().challenges(&with_password(), LINE, false, 0);
        assert_eq!(challenges.len(), 2);
        let hashed = Ada(Secret::Hashed {
            md5: Some(Algorithm::Md5.hash(&["ada", "films", "love:lace"])),
            sha256: Some(Algorithm::Sha256.hash(&["ada", "films", "love:lace"])),
        });
        for challenge in &challenges {
            let right = answer(challenge, "ada", "love:lace", URL);
            assert_eq!(check(&with_password(), &right, SECOND_NS), Ok("ada".to_owned()), "{challenge}");
            assert_eq!(check(&hashed, &right, SECOND_NS), Ok("ada".to_owned()), "{challenge}");
            for wrong in [
                answer(challenge, "ada", "lovelace", URL),
                answer(challenge, "bob", "nobody's password", URL),
                answer(challenge, "ada", "love:lace", "rtsp://h/b.mp4"),
                right.replace("films\", nonce=\"0", "films\", nonce=\"1"),
                right.replace("response=\"", "response=\"0"),
                right.replace("response=", "answer="),
            ] {
                assert_eq!(check(&with_password(), &wrong, SECOND_NS), Err(REFUSED), "{wrong}");
            }
        }
    }

    #[test]
    fn every_challenge_can_be_met_by_who_has_one_old_hash() {
        let md5 = Some(Algorithm::Md5.hash(&["ada", "films", "love:lace"]));
        let users = Ada(Secret::Hashed { md5, sha256: None });
        let challenges = guard().challenges(&users, LINE, false, 0);
        assert!(!challenges.is_empty());
        for challenge in challenges {
            let right = answer(&challenge, "ada", "love:lace", URL);
            assert_eq!(check(&users, &right, SECOND_NS), Ok("ada".to_owned()), "{challenge}");
        }
    }

    #[test]
    fn a_client_that_always_names_the_presentation_is_let_in() {
        let authorization = answer(
            &guard().challenges(&with_password(), LINE, false, 0)[1],
            "ada",
            "love:lace",
            "rtsp://h/a.mp4/",
        );
        let request = request("rtsp://h/a.mp4/trackID=0", &authorization);
        assert_eq!(guard().check(&with_password(), &request, LINE, 0), Ok("ada".to_owned()));
    }

    #[test]
    fn an_old_nonce_and_one_of_another_connection_are_stale_for_those_that_know_the_password() {
        let authorization =
            |password| answer(&guard().challenges(&with_password(), LINE, true, 0)[0], "ada", password, URL);
        let stale = Err(Refused { is_stale: true });
        assert_eq!(check(&with_password(), &authorization("love:lace"), 61 * SECOND_NS), stale);
        assert_eq!(check(&with_password(), &authorization("x"), 61 * SECOND_NS), Err(REFUSED));
        let other = Line { connection: 8, ..LINE };
        let request = request(URL, &authorization("love:lace"));
        assert_eq!(guard().check(&with_password(), &request, other, 0), stale);
        assert!(
            guard()
                .challenges(&with_password(), LINE, true, 0)
                .iter()
                .all(|challenge| challenge.contains("stale=true"))
        );
    }

    #[test]
    fn basic_is_for_encrypted_connections_unless_it_is_allowed() {
        let basic = |pair: &str| request(URL, &format!("Basic {}", BASE64_STANDARD.encode(pair)));
        let encrypted = Line { is_encrypted: true, ..LINE };
        let allowed = Guard { is_basic_allowed: true, ..guard() };
        for (guard, line, pair, is_let_in) in [
            (&guard(), LINE, "ada:love:lace", false),
            (&guard(), encrypted, "ada:love:lace", true),
            (&allowed, LINE, "ada:love:lace", true),
            (&allowed, LINE, "ada:love", false),
            (&allowed, LINE, "bob:nobody's password", false),
            (&allowed, LINE, "ada", false),
        ] {
            let result = guard.check(&with_password(), &basic(pair), line, 0);
            assert_eq!(result.is_ok(), is_let_in, "{pair} {line:?}");
            let offers_basic =
                guard.challenges(&with_password(), line, false, 0).iter().any(|one| one.starts_with("Basic"));
            assert_eq!(offers_basic, guard.is_basic_allowed || line.is_encrypted);
        }
        assert_eq!(check(&with_password(), "Basic ?", 0), Err(REFUSED));
    }
}
