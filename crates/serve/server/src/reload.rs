//! Reloads users, limits and certificates while the server runs.

use forebay_rtsp::authentication::{Guard, Users};
use forebay_rtsp::key::Key as Secret;
use forebay_rtsp::server::Config;

use crate::error::Result;
use crate::event_loop::Serving;
use crate::settings::{Settings, Tls, UserList};
use crate::{clock, descriptors, encryption};

/// For how long a client may use one challenge.
const NONCE_NS: u64 = 300_000_000_000;

/// Finds out what settings are now; the error is a sentence.
pub type Reload = Box<dyn FnMut() -> Result<Settings, String> + Send>;

impl Serving {
    /// Makes SIGHUP reload users, limits and certificates. Where the server listens and what it serves stay.
    pub fn reload_with(&mut self, reload: Reload) {
        self.reload = Some(reload);
    }

    pub(crate) fn heed_signal(&mut self) {
        match self.events.next_signal_is_hangup() {
            Some(true) => self.reload_settings(),
            Some(false) => self.is_over = true,
            None => {}
        }
    }

    fn reload_settings(&mut self) {
        let now_ns = clock::now_ns();
        let Some(reload) = &mut self.reload else { return };
        let sentence = match reload() {
            Ok(new) => format!("settings are reloaded{}", self.change_to(new)),
            Err(sentence) => format!("settings stay as they were: {sentence}"),
        };
        self.log.say(now_ns, &sentence);
    }

    /// Returns what the log line adds about settings that do not change.
    fn change_to(&mut self, mut new: Settings) -> String {
        new.users.extend(self.cameras.iter().flat_map(|cameras| cameras.users()));
        let old = &self.settings;
        let mut said = String::new();
        let fixed = fixed_changes(old, &new);
        if !fixed.is_empty() {
            said = format!("; these need a restart: {}", fixed.join(", "));
        }
        // A certificate runs out while the port stays.
        let tls = match (&old.tls, &new.tls) {
            (Some(old), Some(new)) => Some(Tls { listen: old.listen.clone(), ..new.clone() }),
            (old, _) => old.clone(),
        };
        // A server that has switched to another user may be unable to read the key.
        match tls.as_ref().map(encryption::identity).transpose() {
            Ok(identity) => self.connections.set_identity(identity),
            Err(error) => said += &format!("; certificate and key stay as they were: {error}"),
        }
        self.server.configure(config(&new, &self.secret), guard(&new, &self.secret));
        self.buffers.set_memory(new.memory_bytes, new.buffer_bytes);
        // What is bound and open stays so.
        self.settings = Settings {
            folder: old.folder.clone(),
            follow_links: old.follow_links,
            cache: old.cache.clone(),
            access_log: old.access_log.clone(),
            listen: old.listen.clone(),
            tls,
            status: old.status,
            udp_ports: old.udp_ports.clone(),
            buffers: old.buffers,
            readers: old.readers,
            cameras: old.cameras.clone(),
            run_as: old.run_as.clone(),
            connections_max: descriptors::allow(new.connections_max).connections,
            ..new
        };
        said
    }
}

/// Settings that differ and that a server keeps for as long as it runs, by their names in a file.
fn fixed_changes(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let all = [
        ("folder", old.folder != new.folder),
        ("follow-links", old.follow_links != new.follow_links),
        ("cache", old.cache != new.cache),
        ("access-log", old.access_log != new.access_log),
        ("listen", old.listen != new.listen),
        ("tls.listen", ports(&old.tls) != ports(&new.tls)),
        ("status", old.status != new.status),
        ("udp-ports", old.udp_ports != new.udp_ports),
        ("buffers", old.buffers != new.buffers),
        ("readers", old.readers != new.readers),
        ("cameras", old.cameras != new.cameras),
        ("user", old.run_as != new.run_as),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
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
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    /// Writes a certificate and its key.
    fn renew(tls: &Tls) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("one");
        fs::write(&tls.certificate, made.cert.pem()).expect("a file");
        fs::write(&tls.key, made.signing_key.serialize_pem()).expect("a file");
    }

    fn settings(folder: &Path) -> (Settings, Tls) {
        let free = vec!["127.0.0.1:0".parse().expect("an address")];
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let tls = Tls { listen: free.clone(), certificate, key };
        renew(&tls);
        (Settings { listen: free, tls: Some(tls.clone()), ..Settings::new(folder.to_owned()) }, tls)
    }

    #[test]
    fn another_certificate_is_reloaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let (settings, tls) = settings(folder.path());
        let mut serving = Serving::new(settings.clone()).expect("a server");
        let first = serving.connections.identity().cloned().expect("an identity");
        renew(&tls);
        assert_eq!(serving.change_to(settings), "");
        assert!(!Arc::ptr_eq(&first, serving.connections.identity().expect("an identity")));
    }

    #[test]
    fn without_a_readable_key_the_old_one_stays_and_the_rest_is_reloaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let (settings, tls) = settings(folder.path());
        let mut serving = Serving::new(settings.clone()).expect("a server");
        let first = serving.connections.identity().cloned().expect("an identity");
        for (number, is_there) in [(1, true), (2, false)] {
            let spoilt = if is_there { fs::write(&tls.key, "no key") } else { fs::remove_file(&tls.key) };
            spoilt.expect("a file");
            let said = serving.change_to(Settings { sessions_max: number, ..settings.clone() });
            assert!(said.contains("stay as they were") && said.contains("key.pem"), "{said}");
            assert!(Arc::ptr_eq(&first, serving.connections.identity().expect("an identity")));
            assert_eq!(serving.settings.sessions_max, number);
        }
    }

    #[test]
    fn what_needs_another_start_is_named_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (settings, _) = settings(folder.path());
        let mut serving = Serving::new(settings.clone()).expect("a server");
        let new = Settings {
            status: Some("127.0.0.1:1".parse().expect("an address")),
            udp_ports: 7000..=7001,
            buffers: 7,
            readers: 7,
            run_as: Some("nobody".to_owned()),
            sessions_max: 7,
            ..settings.clone()
        };
        let said = serving.change_to(new);
        assert_eq!(said, "; these need a restart: status, udp-ports, buffers, readers, user");
        let connections_max = serving.settings.connections_max;
        assert_eq!(serving.settings, Settings { sessions_max: 7, connections_max, ..settings });
    }
}
