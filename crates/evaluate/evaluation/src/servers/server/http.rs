//! Requests over HTTP/1.1 (RFC 9112), in clear or over TLS: hyper speaks the protocol.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpStream as Blocking, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::experiments::Asked;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::tls;

/// What a client reads at once, at most.
const READ_BYTES_MAX: usize = 128 << 10;

/// A request, to be made again and again.
pub(super) type Request = hyper::Request<Full<Bytes>>;

/// Where requests go.
#[derive(Clone)]
pub(super) struct Site {
    address: SocketAddr,
    /// The host, and the port where the URL has one.
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// An answer that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Of the body.
    pub(super) bytes: u64,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection broke, or there was none.
    Broken(String),
    /// The server speaks another protocol.
    NotHttp(String),
}

/// Reads `http://HOST:PORT/PATH` or `https://HOST:PORT/PATH`; a sentence where it is something else.
pub(super) fn url(text: &str) -> Result<Uri, String> {
    let uri = text.parse::<Uri>().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    let uri = uri.ok_or_else(|| {
        format!("'{text}' is no address for clients of forebay; give http://HOST:PORT/PATH or https://HOST:PORT/PATH")
    })?;
    let written = uri.authority().map_or("", |authority| authority.as_str());
    let behind_host = written.rsplit(['@', ']']).next().and_then(|end| end.split_once(':'));
    match behind_host {
        Some((_, port)) if uri.port_u16().is_none_or(|port| port == 0) => {
            Err(format!("'{text}' has the port '{port}'; give one from 1 to 65535"))
        }
        _ => Ok(uri),
    }
}

/// The port of a URL, its own or that of its scheme.
pub(super) fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 })
}

/// All addresses of the host of a URL, at least one.
pub(super) fn addresses(url: &Uri) -> Result<Vec<SocketAddr>, String> {
    let name = name(url);
    let found: Vec<SocketAddr> = (name, port(url)).to_socket_addrs().into_iter().flatten().collect();
    if found.is_empty() { Err(format!("the host {name} has no address")) } else { Ok(found) }
}

/// The host of a URL, without the brackets of a number.
fn name(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// A sentence where no such requests can be made.
pub(super) fn check(text: &str, asked: &Asked) -> Result<(), String> {
    let url = url(text)?;
    request("localhost", url.path_and_query().map_or("/", |path| path.as_str()), asked, false).map(|_| ())
}

impl Site {
    /// The site of a URL, by the first of its addresses that takes connections.
    pub(super) fn of(url: &Uri) -> Result<Self, String> {
        let host = url.host().unwrap_or_default();
        let found = addresses(url)?;
        let address = match found[..] {
            [one] => one,
            _ => Blocking::connect(&found[..]).and_then(|stream| stream.peer_addr()).unwrap_or(found[0]),
        };
        let is_tls = url.scheme_str() == Some("https");
        let tls = if is_tls { Some((tls::connector(), tls::name(name(url))?)) } else { None };
        let authority = url.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { address, authority, tls })
    }

    /// Where connections go.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The request for `path`, as `asked`.
    pub(super) fn request(&self, path: &str, asked: &Asked, close: bool) -> Result<Request, String> {
        request(&self.authority, path, asked, close)
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Line, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(Clear(stream)),
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
        };
        let mut builder = Builder::new();
        // A request has one buffer, for which the kernel's call of many takes longer.
        let builder = builder.max_buf_size(READ_BYTES_MAX).writev(false);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        Ok(Line { sender, driver: Driver(Some(Box::pin(connection))) })
    }
}

/// The request for `path` of `authority`, as `asked`.
fn request(authority: &str, path: &str, asked: &Asked, close: bool) -> Result<Request, String> {
    let mut request = hyper::Request::new(Full::from(asked.body.clone()));
    *request.method_mut() = Method::from_bytes(asked.method.as_bytes())
        .map_err(|_| format!("'{}' is no method of HTTP; give one such as POST", asked.method))?;
    *request.uri_mut() =
        path.parse().map_err(|error| format!("'{path}' is no path of a request ({error})"))?;
    let headers = request.headers_mut();
    for (name, value) in &asked.headers {
        let header = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
        let (name, value) = header.ok_or_else(|| format!("'{name}: {value}' is no header of a request"))?;
        headers.insert(name, value);
    }
    let authority = authority.parse().map_err(|_| format!("'{authority}' is no host"))?;
    headers.entry(HOST).or_insert(authority);
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("forebay"));
    if close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(request)
}

/// What a connection reads and writes.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection in the clear. To close it ends it: to shut it down before would be one more call for each connection.
struct Clear(TcpStream);

impl AsyncRead for Clear {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Clear {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
}

impl Line {
    /// Whether it takes another request. The server may have closed it.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.driver.until(self.sender.ready()).await.is_ok()
    }

    /// Makes a request, and reads its answer to the end.
    pub(super) async fn exchange(&mut self, request: Request) -> Result<Answer, Failure> {
        let answer = self.driver.until(self.sender.send_request(request)).await?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = self.driver.until(body.frame()).await {
            bytes += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(Answer { status, bytes })
    }
}

/// The part of a connection that reads and writes; none once it is over, so that whatever waits for it is told.
struct Driver(Option<Pin<Box<Http>>>);

/// A connection that speaks HTTP/1.1.
type Http = Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

impl Driver {
    /// What comes of `work`, which waits for what the connection reads and writes.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.0.as_mut().is_some_and(|connection| connection.as_mut().poll(context).is_ready()) {
                self.0 = None;
            }
            work.as_mut().poll(context)
        })
        .await
    }
}

const CLOSED: &str = "the server closed the connection";

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Broken(CLOSED.to_owned());
        }
        Self::Broken(forebay_results::reason(&error))
    }
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() {
            return Self::NotHttp(format!("the answer cannot be read as HTTP/1.1 ({error})"));
        }
        if error.is_incomplete_message() || error.is_canceled() {
            return Self::Broken(CLOSED.to_owned());
        }
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        match source {
            Some(source) if source.kind() == io::ErrorKind::UnexpectedEof => Self::Broken(CLOSED.to_owned()),
            Some(source) => Self::Broken(forebay_results::reason(source)),
            None => Self::Broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str) -> Site {
        Site::of(&url(text).unwrap()).unwrap()
    }

    #[test]
    fn addresses_have_a_scheme_and_a_host() {
        let of = |text| (site(text).address.to_string(), site(text).authority);
        assert_eq!(of("http://127.0.0.1:81/a/b"), ("127.0.0.1:81".into(), "127.0.0.1:81".into()));
        assert_eq!(of("http://[::1]/"), ("[::1]:80".into(), "[::1]".into()));
        assert_eq!(of("https://[::1]:8443"), ("[::1]:8443".into(), "[::1]:8443".into()));
        assert_eq!(of("https://127.0.0.1"), ("127.0.0.1:443".into(), "127.0.0.1".into()));
        for nonsense in ["", "127.0.0.1", "ftp://127.0.0.1/", "http://", "/index.html", "http://a b/"] {
            assert!(url(nonsense).unwrap_err().contains("give http://"), "{nonsense}");
        }
        for (nonsense, port) in
            [("http://a:0/", "'0'"), ("http://u@[::1]:99999", "'99999'"), ("http://a:/", "''")]
        {
            assert!(url(nonsense).unwrap_err().contains(&format!("has the port {port}")), "{nonsense}");
        }
    }

    #[test]
    fn a_host_without_an_address_is_named() {
        let error = Site::of(&url("http://no-such-host.invalid/").unwrap()).map(|_| ()).unwrap_err();
        assert_eq!(error, "the host no-such-host.invalid has no address");
    }

    #[test]
    fn a_request_has_what_is_asked_and_what_every_request_needs() {
        let asked = Asked {
            method: "PUT".into(),
            headers: [("X-One".into(), "1".into()), ("host".into(), "example.org".into())].into(),
            body: "{}".into(),
        };
        let request = site("http://127.0.0.1:81/").request("/a?b=c", &asked, true).unwrap();
        assert_eq!((request.method().as_str(), request.uri().to_string()), ("PUT", "/a?b=c".into()));
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let headers = ["x-one", "host", "user-agent", "connection"].map(header);
        assert_eq!(headers, [Some("1"), Some("example.org"), Some("forebay"), Some("close")]);
    }

    #[test]
    fn what_no_request_can_have_is_told() {
        let site = site("http://127.0.0.1:81/");
        let refused = |path: &str, method: &str, header: &str| {
            let headers = [(header.to_owned(), "1".to_owned())].into();
            let asked = Asked { method: method.into(), headers, body: String::new() };
            site.request(path, &asked, false).map(|_| ()).unwrap_err()
        };
        assert!(refused("/", "PO ST", "a").contains("'PO ST' is no method"));
        assert!(refused("/", "GET", "a b").contains("'a b: 1' is no header"));
        assert!(refused("/ /", "GET", "a").contains("'/ /' is no path"));
    }
}
