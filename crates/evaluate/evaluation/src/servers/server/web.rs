//! Web servers from Debian, each with a configuration, a folder and a port of its own, and the documents that they serve.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::experiments::WebServer;

use crate::Error;
use crate::harness::random::Random;

/// More documents than this serve nobody.
const DOCUMENTS_MAX: u64 = 65_536;
/// Who the servers' workers are where forebay is root. Debian always has it.
const WORKERS_USER: &str = "www-data";
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
/// Threads of one of Apache's processes.
const APACHE_THREADS: u16 = 32;

/// Documents of one size.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    pub(super) folder: PathBuf,
    pub(super) paths: Vec<String>,
}

impl Documents {
    /// What lies in a folder of the user's.
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        let folder = folder.canonicalize().map_err(Error::file("use the files in", folder))?;
        Ok(Self { folder, paths: Vec::new() })
    }

    /// Writes documents of `bytes` into `folder`, as many as make `total_bytes`.
    pub(super) fn write(folder: PathBuf, bytes: u64, total_bytes: u64) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let mut random = Random::new(bytes);
        // A whole number of words, and what does not compress.
        let words = (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
        let content: Vec<u8> = words.take(bytes as usize).collect();
        let mut paths = Vec::new();
        for number in 0..total_bytes.div_ceil(bytes).clamp(1, DOCUMENTS_MAX) {
            let path = folder.join(number.to_string());
            fs::write(&path, &content).map_err(Error::file("write", &path))?;
            paths.push(format!("/{number}"));
        }
        Ok(Self { folder, paths })
    }
}

/// Lets everybody in: the servers' workers are somebody else.
pub(super) fn open(folder: &Path) -> Result<(), Error> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(Error::file("open", folder))
}

/// Lets everybody write there too.
pub(super) fn open_to_write(folder: &Path) -> Result<(), Error> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).map_err(Error::file("open", folder))
}

/// Writes what the server needs into `folder`, and tells its command line.
pub(super) fn configure(
    server: WebServer,
    folder: &Path,
    documents: &Path,
    port: u16,
    clients: u16,
) -> Result<Vec<OsString>, Error> {
    let root = rustix::process::geteuid().is_root();
    open(folder)?;
    let (name, text) = match server {
        WebServer::Nginx => ("nginx.conf", nginx(folder, documents, port, clients, root)),
        WebServer::Apache => ("apache.conf", apache(folder, documents, port, clients, root)),
    };
    let file = folder.join(name);
    fs::write(&file, text).map_err(Error::file("write", &file))?;
    let program = program(server)?;
    Ok(match server {
        WebServer::Nginx => {
            let words = ["-e".into(), "stderr".into(), "-p".into(), folder.into(), "-c".into(), file.into()];
            [program].into_iter().chain(words).collect()
        }
        WebServer::Apache => vec![program, "-DFOREGROUND".into(), "-f".into(), file.into()],
    })
}

/// Where the server is installed, which need not be on a user's PATH.
pub(super) fn program(server: WebServer) -> Result<OsString, Error> {
    let (program, package) = match server {
        WebServer::Nginx => ("nginx", "nginx"),
        WebServer::Apache => ("apache2", "apache2-bin"),
    };
    super::find_program(program).ok_or(Error::Missing { program, package })
}

fn nginx(folder: &Path, documents: &Path, port: u16, clients: u16, root: bool) -> String {
    let (folder, documents) = (folder.display(), documents.display());
    let user = if root { format!("user {WORKERS_USER} {WORKERS_USER};") } else { String::new() };
    let workers = processors();
    let connections = u32::from(clients) * 2 + 64;
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("    {what}_temp_path {folder}/{what};\n"))
        .concat();
    format!(
        "daemon off;\n{user}\nworker_processes {workers};\npid {folder}/nginx.pid;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n    access_log off;\n    sendfile on;\n    tcp_nopush on;\n    keepalive_requests 1000000000;\n{temporary}\
         \x20   server {{\n        listen 127.0.0.1:{port};\n        root {documents};\n    }}\n}}\n"
    )
}

fn apache(folder: &Path, documents: &Path, port: u16, clients: u16, root: bool) -> String {
    let (folder, documents) = (folder.display(), documents.display());
    let user = if root { format!("User {WORKERS_USER}\nGroup {WORKERS_USER}\n") } else { String::new() };
    // Always the same threads: a pool that grows under load would look like threads that wait for a lock.
    let processes = processors().max(u16::div_ceil(clients, APACHE_THREADS) + 1);
    let threads = u32::from(processes) * u32::from(APACHE_THREADS);
    format!(
        "ServerRoot {folder}\nDefaultRuntimeDir {folder}\nServerName localhost\nListen 127.0.0.1:{port}\n\
         LoadModule mpm_event_module {APACHE_MODULES}/mod_mpm_event.so\n\
         LoadModule authz_core_module {APACHE_MODULES}/mod_authz_core.so\n\
         PidFile {folder}/apache.pid\nErrorLog {folder}/apache.log\nDocumentRoot {documents}\n{user}\
         StartServers {processes}\nServerLimit {processes}\nThreadsPerChild {APACHE_THREADS}\n\
         MaxRequestWorkers {threads}\nMinSpareThreads 1\nMaxSpareThreads {threads}\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60\nEnableSendfile On\n"
    )
}

fn processors() -> u16 {
    std::thread::available_parallelism()
        .map_or(1, |processors| processors.get().try_into().unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_their_size_and_make_the_total() {
        let folder = tempfile::tempdir().unwrap();
        let documents = Documents::write(folder.path().join("d"), 1000, 4500).unwrap();
        assert_eq!(documents.paths, ["/0", "/1", "/2", "/3", "/4"]);
        for path in &documents.paths {
            assert_eq!(fs::metadata(documents.folder.join(&path[1..])).unwrap().len(), 1000);
        }
    }
}
