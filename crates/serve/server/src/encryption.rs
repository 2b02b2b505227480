//! RTSP over TLS.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::backlog::Backlog;
use crate::error::{Error, Result};
use crate::settings::Tls;

/// What all encrypted connections have.
pub(crate) type Identity = Arc<ServerConfig>;

/// Reads certificate and key.
pub(crate) fn identity(tls: &Tls) -> Result<Identity> {
    let certificates = CertificateDer::pem_reader_iter(open(&tls.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .ok()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| wrong(&tls.certificate, "no certificate in PEM is in it"))?;
    let key = PrivateKeyDer::from_pem_reader(open(&tls.key)?)
        .map_err(|_| wrong(&tls.key, "no private key in PEM is in it"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth().with_single_cert(certificates, key));
    match config {
        Ok(Ok(config)) => Ok(Arc::new(config)),
        Ok(Err(error)) | Err(error) => {
            Err(wrong(&tls.certificate, &format!("it cannot be used with the key: {error}")))
        }
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| wrong(path, &format!("it cannot be read: {error}")))
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::Tls { path: path.to_owned(), why: why.to_owned() }
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Cipher(Box<ServerConnection>);

impl Cipher {
    pub fn new(identity: &Identity) -> Option<Self> {
        let mut connection = ServerConnection::new(identity.clone()).ok()?;
        // What is encrypted goes to the backlog at once, whose length is known.
        connection.set_buffer_limit(None);
        Some(Self(Box::new(connection)))
    }

    /// Reads what a client has sent; what is to be answered by the cipher itself goes to `backlog`.
    pub fn receive(
        &mut self,
        from: &mut dyn Read,
        backlog: &mut Backlog,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A close without a word is an end, too.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            let count = self.0.read_tls(from)?;
            let processed = self.0.process_new_packets();
            self.write_out(backlog);
            processed.map_err(io::Error::other)?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Whether something was decrypted that has not been read: no event tells of that.
    pub fn holds_some(&mut self) -> bool {
        self.0.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Encrypts bytes, in as few records as hold them, and sends them after all that were sent before. What `to` does not take
    /// yet goes to `backlog`.
    pub fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        to: &mut impl Write,
        backlog: &mut Backlog,
    ) -> io::Result<()> {
        // Without a limit it takes everything.
        let _ = self.0.writer().write_vectored(slices);
        while backlog.is_empty() && self.0.wants_write() {
            match self.0.write_tls(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        self.write_out(backlog);
        Ok(())
    }

    /// Tells the client that nothing more comes, at the end of `backlog`; a second call changes nothing.
    pub fn close(&mut self, backlog: &mut Backlog) {
        self.0.send_close_notify();
        self.write_out(backlog);
    }

    fn write_out(&mut self, backlog: &mut Backlog) {
        while self.0.wants_write() {
            // To memory, which takes everything.
            let _ = self.0.write_tls(backlog);
        }
    }
}
