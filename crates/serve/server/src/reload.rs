//! Reloads folders, users, limits and certificates while the server runs. Sessions go on that may go on.

use forebay_rtsp::authentication::{Guard, Users};
use forebay_rtsp::key::Key;
use forebay_rtsp::server::{Config, ConnectionId, SessionId};

use crate::access::Access;
use crate::error::Result;
use crate::event_loop::Serving;
use crate::folders::Roots;
use crate::settings::{Settings, Tls};
use crate::{clock, descriptors, encryption};

/// For how long a client may use one challenge.
const NONCE_NS: u64 = 300_000_000_000;

/// Finds out what settings are now; the error is a sentence.
pub type Reload = Box<dyn FnMut() -> Result<Settings, String> + Send>;

impl Serving {
    /// Makes SIGHUP reload folders, users, limits and certificates. Where the server listens stays.
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
        let said = reload().and_then(|new| self.change_to(new).map_err(|error| error.to_string()));
        let sentence = match said {
            Ok(said) => format!("settings are reloaded{said}"),
            Err(sentence) => format!("settings stay as they were: {sentence}"),
        };
        self.log.say(now_ns, &sentence);
    }

    /// Returns what the log line adds about settings that do not change. Nothing changes if a folder cannot be served.
    fn change_to(&mut self, mut new: Settings) -> Result<String> {
        // Cameras play films from the folder that there was at the start.
        if self.cameras.is_some() {
            new.folders.clone_from(&self.settings.folders);
        }
        let roots = Roots::open(&new.folders, self.settings.follow_links)?;
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
        self.readers.catalog().serve(roots);
        let ended = self.end_what_may_not_go_on();
        if ended > 0 {
            said += &format!("; sessions that were ended, since nobody may watch so any more: {ended}");
        }
        Ok(said)
    }

    /// Ends what plays and may not be watched any more; returns how many sessions that were.
    fn end_what_may_not_go_on(&mut self) -> usize {
        self.control.keep_those_of(&self.settings.folders);
        self.forget_web();
        if self.cameras.is_some() {
            return 0;
        }
        let sessions = self.sessions.iter();
        let ended: Vec<SessionId> = sessions
            .filter(|session| {
                let user = session.viewer.as_ref().and_then(|viewer| viewer.user.as_deref());
                !self.may_go_on(user, &session.opened)
            })
            .map(|session| session.id)
            .collect();
        for id in &ended {
            let actions = self.server.end(*id);
            self.act(actions, ConnectionId(0));
        }
        ended.len()
    }
}

/// Settings that differ and that a server keeps for as long as it runs, by their names in a file.
fn fixed_changes(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let all = [
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

pub(crate) fn config(settings: &Settings, secret: &Key) -> Config {
    let mut config = Config::new(secret.clone());
    config.sessions_max = settings.sessions_max;
    config.session_timeout_ns = settings.session_timeout.as_nanos() as u64;
    config.limits.head_bytes_max = settings.request_bytes;
    config.limits.line_bytes_max = config.limits.line_bytes_max.min(settings.request_bytes);
    config
}

pub(crate) fn guard(settings: &Settings, secret: &Key) -> Option<(Guard, Box<dyn Users + Send>)> {
    let guard = Guard {
        realm: settings.realm.clone(),
        is_basic_allowed: settings.is_basic_allowed,
        nonce_ns: NONCE_NS,
        key: secret.clone(),
    };
    let access = Access::of(settings)?;
    Some((guard, Box::new(access)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use forebay_rtsp::authentication::Secret;

    use super::*;
    use crate::rig::{FRAME, Rig, SETUP, session};
    use crate::settings::{Folder, User};

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
        assert_eq!(serving.change_to(settings).expect("a change"), "");
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
            let said = said.expect("a change");
            assert!(said.contains("stay as they were") && said.contains("key.pem"), "{said}");
            assert!(Arc::ptr_eq(&first, serving.connections.identity().expect("an identity")));
            assert_eq!(serving.settings.sessions_max, number);
        }
    }

    /// A folder of the same sound, which a user may watch.
    fn of_user(folder: &Path, user: &str) -> Folder {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("a.aac"), FRAME.repeat(100)).expect("a file");
        let folder = Folder::called_as_it_is(folder.to_owned()).expect("a name");
        Folder { users: Some(vec![user.to_owned()]), ..folder }
    }

    #[test]
    fn sessions_go_on_where_they_may_and_end_where_they_may_not() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        let password = |name: &str| User {
            name: name.to_owned(),
            secret: Secret::Password("x".to_owned()),
            paths: Vec::new(),
        };
        let public = |name: &str| Folder { is_public: true, users: None, ..of_user(&at(name), "ada") };
        let mut rig = Rig::with(|settings| {
            settings.users = vec![password("ada"), password("bob")];
            settings.is_basic_allowed = true;
            let of_ada = ["kept", "given", "gone", "moved"].map(|name| of_user(&at(name), "ada"));
            settings.folders = of_ada.into_iter().chain([public("open"), public("closed")]).collect();
        });
        // "ada:x"
        let ada = "Authorization: Basic YWRhOng=\n";
        let all =
            [("kept", ada), ("given", ada), ("gone", ada), ("moved", ada), ("open", ""), ("closed", "")];
        let mut clients: Vec<_> = all
            .into_iter()
            .map(|(name, password)| {
                let mut client = rig.connect(None);
                let transport = format!("a.aac RTSP/1.0\n{password}");
                let setup = SETUP.replace("h/a.aac", &format!("h/{name}/a.aac"));
                let setup = setup.replace("a.aac RTSP/1.0\n", &transport);
                let response = rig.ask(&mut client, &setup);
                assert!(response.starts_with("RTSP/1.0 200"), "{name}: {response}");
                let session = session(&response).to_owned();
                (name, password, client, session)
            })
            .collect();
        let mut settings = rig.serving.settings.clone();
        settings.folders.retain(|folder| folder.name != "gone");
        for folder in &mut settings.folders {
            match folder.name.as_str() {
                "given" => folder.users = Some(vec!["bob".to_owned()]),
                "moved" => folder.path = of_user(&at("elsewhere"), "ada").path,
                "closed" => (folder.is_public, folder.users) = (false, Some(vec!["ada".to_owned()])),
                _ => {}
            }
        }
        let missing = Folder { path: at("nowhere"), ..settings.folders[0].clone() };
        let error = rig.serving.change_to(Settings { folders: vec![missing], ..settings.clone() });
        assert!(error.is_err_and(|error| error.to_string().contains("nowhere")));
        assert_eq!(rig.serving.sessions.len(), 6, "nothing has changed");

        let said = rig.serving.change_to(settings).expect("a change");
        assert!(said.ends_with(": 4"), "{said}");
        for (name, password, client, session) in &mut clients {
            let keep_alive = format!(
                "GET_PARAMETER rtsp://h/{name}/a.aac RTSP/1.0\nCSeq: 3\nSession: {session}\n{password}\n"
            );
            let response = rig.ask(client, &keep_alive);
            let goes_on = ["kept", "open"].contains(name);
            assert_eq!(response.starts_with("RTSP/1.0 200"), goes_on, "{name}: {response}");
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
        let said = serving.change_to(new).expect("a change");
        assert_eq!(said, "; these need a restart: status, udp-ports, buffers, readers, user");
        let connections_max = serving.settings.connections_max;
        assert_eq!(serving.settings, Settings { sessions_max: 7, connections_max, ..settings });
    }
}
