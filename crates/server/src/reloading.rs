//! What changes while the server runs: users, limits and certificates.

use forebay_rtsp::authentication::{Guard, Users};
use forebay_rtsp::key::Key as Secret;
use forebay_rtsp::server::Config;
use nix::sys::signal::Signal;

use crate::error::Result;
use crate::serving::{Reload, Serving};
use crate::settings::{Settings, Tls, UserList};
use crate::{clock, descriptors, encryption};

/// For how long a client may use one challenge.
const NONCE_NS: u64 = 300_000_000_000;

impl Serving {
    /// Has SIGHUP take over new settings: users, limits and certificates. Where it listens and what it serves stay.
    pub fn reload_with(&mut self, reload: Reload) {
        self.reload = Some(reload);
    }

    pub(crate) fn heed(&mut self) {
        let signal = self.signals.as_mut().and_then(|signals| signals.read_signal().ok().flatten());
        match signal {
            Some(signal) if signal.ssi_signo == Signal::SIGHUP as u32 => self.take_over(),
            Some(_) => self.is_over = true,
            None => {}
        }
    }

    fn take_over(&mut self) {
        let now_ns = clock::now_ns();
        let Some(reload) = &mut self.reload else { return };
        let sentence = match reload() {
            Ok(new) => match self.change_to(new) {
                Ok(rest) => format!("settings are taken over{rest}"),
                Err(error) => format!("settings stay as they were: {error}"),
            },
            Err(sentence) => format!("settings stay as they were: {sentence}"),
        };
        self.journal.say(now_ns, &sentence);
    }

    /// Returns what is to be said of what does not change.
    fn change_to(&mut self, new: Settings) -> Result<&'static str> {
        let old = &self.settings;
        let is_same =
            (&old.folder, &old.listen, ports(&old.tls)) == (&new.folder, &new.listen, ports(&new.tls));
        // A certificate runs out while the port stays.
        let tls = match (&old.tls, &new.tls) {
            (Some(old), Some(new)) => Some(Tls { listen: old.listen.clone(), ..new.clone() }),
            (old, _) => old.clone(),
        };
        self.identity = tls.as_ref().map(encryption::identity).transpose()?;
        self.server.configure(config(&new, &self.secret), guard(&new, &self.secret));
        self.budget.set_bytes(new.memory_bytes);
        self.pool.set_bytes(new.memory_bytes);
        // What is bound and open stays so.
        self.settings = Settings {
            folder: old.folder.clone(),
            listen: old.listen.clone(),
            tls,
            status: old.status,
            udp_ports: old.udp_ports.clone(),
            buffers: old.buffers,
            connections_max: descriptors::allow(new.connections_max).connections,
            ..new
        };
        Ok(if is_same { "" } else { "; another folder or port is taken over at the next start" })
    }
}

fn ports(tls: &Option<Tls>) -> &[std::net::SocketAddr] {
    tls.as_ref().map_or(&[], |tls| &tls.listen)
}

pub(crate) fn config(settings: &Settings, secret: &Secret) -> Config {
    let mut config = Config::new(secret.clone());
    config.sessions_max = settings.sessions_max;
    config.session_timeout_ns = settings.session_timeout.as_nanos() as u64;
    config.limits.head_bytes_max = settings.request_bytes;
    config.limits.line_bytes_max = config.limits.line_bytes_max.min(settings.request_bytes);
    config
}

pub(crate) fn guard(settings: &Settings, secret: &Secret) -> Option<(Guard, Box<dyn Users + Send>)> {
    let guard = Guard {
        realm: settings.realm.clone(),
        is_basic_allowed: settings.is_basic_allowed,
        nonce_ns: NONCE_NS,
        key: secret.clone(),
    };
    let users: Box<dyn Users + Send> = Box::new(UserList(settings.users.clone()));
    (!settings.users.is_empty()).then_some((guard, users))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn another_certificate_is_taken_over_and_a_wrong_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let renew = || {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("one");
            fs::write(&certificate, made.cert.pem()).expect("a file");
            fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        };
        renew();
        let free = vec!["127.0.0.1:0".parse().expect("an address")];
        let tls = Tls { listen: free.clone(), certificate: certificate.clone(), key: key.clone() };
        let folder = folder.path().to_owned();
        let settings = Settings { listen: free, tls: Some(tls), ..Settings::new(folder) };
        let mut serving = Serving::new(settings.clone()).expect("a server");
        let first = serving.identity.clone().expect("an identity");
        renew();
        assert_eq!(serving.change_to(settings.clone()).expect("new settings"), "");
        let second = serving.identity.clone().expect("an identity");
        assert!(!Arc::ptr_eq(&first, &second));
        fs::write(&key, "no key").expect("a file");
        let fewer = Settings { sessions_max: 1, ..settings };
        assert!(serving.change_to(fewer).expect_err("no key").to_string().contains("key.pem"));
        assert!(Arc::ptr_eq(&second, serving.identity.as_ref().expect("an identity")));
        assert_ne!(serving.settings.sessions_max, 1);
    }
}
