//! ONVIF: what recorders and gateways ask a camera first. Requests come in as text, responses go out as text.
//!
//! The path of a request chooses the device: `/onvif/device_service` is one device with all cameras, and
//! `/onvif/NAME/device_service` is one camera. Both answer the operations of the Device and the Media service, version 1.0.
//!
//! Sources: ONVIF Core, Media Service and Streaming Specification; WS-Security UsernameToken Profile 1.0; WS-Discovery 2005/04.

mod authentication;
mod configurations;
mod device;
pub mod discovery;
mod media;

use core::net::IpAddr;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::Guesses;
use roxmltree::{Document, Node, ParsingOptions};

use crate::plan::{Camera, Plan};
use authentication::Allowed;

/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The elements that a request may have.
const NODES_MAX: u32 = 2_000;

const ENVELOPE: &str = "http://www.w3.org/2003/05/soap-envelope";
const ENVELOPE_1_1: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const ERROR: &str = "http://www.onvif.org/ver10/error";

/// Where clients find the services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The host that a client has reached, with the port of HTTP.
    pub http: String,
    /// The same with the port of RTSP.
    pub rtsp: String,
    /// The version of the program.
    pub version: String,
}

/// Where a request comes from, and when.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The wrong passwords of all clients.
    pub guesses: &'a Mutex<Guesses>,
    /// The time that these are counted by.
    pub now_ns: u64,
    /// The time from the epoch of the cameras.
    pub at_ns: u64,
    /// The time since 1970.
    pub unix_ns: u64,
}

/// A wrong password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongPassword {
    /// The user that it was for.
    pub user: String,
    /// How many wrong passwords have come from the client's address of late.
    pub wrong: u32,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status of HTTP.
    pub status: u16,
    /// The envelope.
    pub body: String,
    /// What the operator is to know of the request.
    pub wrong_password: Option<WrongPassword>,
}

/// Why a request is not answered: a status of HTTP, a subcode, and a sentence.
struct Fault {
    status: u16,
    code: &'static str,
    why: String,
    wrong_password: Option<WrongPassword>,
}

impl Fault {
    fn of_sender(code: &'static str, why: impl Into<String>) -> Self {
        Self { status: 400, code, why: why.into(), wrong_password: None }
    }
}

/// The cameras of a request, and what it needs to be answered.
struct Asked<'a> {
    plan: &'a Plan,
    /// The camera of the path; all of them without one.
    camera: Option<&'a Arc<Camera>>,
    place: &'a Place,
    allowed: Allowed,
    /// Since 1970, by the clock of the device.
    unix_ns: u64,
}

/// Answers a request to a path.
pub fn answer(plan: &Plan, place: &Place, path: &str, body: &str, asker: &Asker<'_>) -> Response {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let Ok(document) = Document::parse_with_options(body, options) else {
        return fault(ENVELOPE, Fault::of_sender("ter:WellFormed", "an envelope of SOAP is wanted"));
    };
    let root = document.root_element();
    let envelope = if root.tag_name().namespace() == Some(ENVELOPE_1_1) { ENVELOPE_1_1 } else { ENVELOPE };
    match respond(plan, place, path, root, asker) {
        Ok(text) => Response { status: 200, body: enveloped(envelope, &text), wrong_password: None },
        Err(why) => fault(envelope, why),
    }
}

fn respond(
    plan: &Plan,
    place: &Place,
    path: &str,
    root: Node<'_, '_>,
    asker: &Asker<'_>,
) -> Result<String, Fault> {
    let camera = camera_of(plan, path)?;
    let operation = child(root, "Body").and_then(|body| body.first_element_child());
    let operation =
        operation.ok_or_else(|| Fault::of_sender("ter:WellFormed", "an operation in the body is wanted"))?;
    let unix_ns = camera.map_or(asker.unix_ns, |camera| camera.unix_ns(asker.at_ns));
    let name = operation.tag_name().name();
    let is_open = device::OPEN.contains(&name);
    let allowed = if is_open { Allowed::All } else { authentication::check(plan, root, asker, unix_ns)? };
    let asked = Asked { plan, camera, place, allowed, unix_ns };
    let is_refused =
        camera.is_some_and(|camera| camera.refuses(asker.at_ns) || !asked.allowed.may_see(camera));
    if is_refused && !is_open {
        return Err(authentication::not_authorized());
    }
    let body = match operation.tag_name().namespace() {
        Some(DEVICE) => device::respond(&asked, operation),
        Some(MEDIA) => media::respond(&asked, operation),
        _ => None,
    };
    let unsupported = || {
        let why = format!("the operation {name} is not supported");
        Err(Fault::of_sender("ter:ActionNotSupported", why))
    };
    body.unwrap_or_else(unsupported)
}

/// The camera that a path names.
fn camera_of<'a>(plan: &'a Plan, path: &str) -> Result<Option<&'a Arc<Camera>>, Fault> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["onvif", name, _] => match plan.place(name) {
            Some(place) => Ok(Some(&plan.cameras()[place])),
            None => Err(Fault::of_sender("ter:InvalidArgVal", format!("there is no camera {name}"))),
        },
        _ => Ok(None),
    }
}

impl<'a> Asked<'a> {
    /// The cameras that this request may know of.
    fn cameras(&self) -> impl Iterator<Item = &'a Arc<Camera>> {
        let all: &[Arc<Camera>] = if self.camera.is_some() { &[] } else { self.plan.cameras() };
        self.camera.into_iter().chain(all).filter(move |camera| self.allowed.may_see(camera))
    }

    /// The address of a service of this device.
    fn address(&self, service: &str) -> String {
        let Place { http, .. } = self.place;
        match self.camera {
            Some(camera) => format!("http://{http}/onvif/{}/{service}", camera.name),
            None => format!("http://{http}/onvif/{service}"),
        }
    }
}

/// The element of this name below another one, in whatever namespace.
fn child<'a, 'input>(of: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    of.children().find(|node| node.is_element() && node.tag_name().name() == name)
}

/// The text of the first element of this name anywhere below.
fn text_below<'a>(of: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let found = of.descendants().find(|node| node.is_element() && node.tag_name().name() == name);
    found.and_then(|node| node.text()).map(str::trim)
}

fn enveloped(envelope: &str, body: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<s:Envelope xmlns:s=\"{envelope}\" xmlns:tds=\"{DEVICE}\" \
         xmlns:trt=\"{MEDIA}\" xmlns:tt=\"http://www.onvif.org/ver10/schema\"><s:Body>{body}</s:Body></s:Envelope>\n"
    )
}

fn fault(envelope: &str, fault: Fault) -> Response {
    let (code, why) = (fault.code, escaped(&fault.why));
    let body = if envelope == ENVELOPE_1_1 {
        format!("<s:Fault><faultcode>s:Client</faultcode><faultstring>{code}: {why}</faultstring></s:Fault>")
    } else {
        format!(
            "<s:Fault xmlns:ter=\"{ERROR}\"><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>{code}</s:Value>\
             </s:Subcode></s:Code><s:Reason><s:Text xml:lang=\"en\">{why}</s:Text></s:Reason></s:Fault>"
        )
    };
    Response { status: fault.status, body: enveloped(envelope, &body), wrong_password: fault.wrong_password }
}

/// Text as it stands in XML.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => written += "&amp;",
            '<' => written += "&lt;",
            '>' => written += "&gt;",
            '"' => written += "&quot;",
            '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'.. => written.push(sign),
            // XML 1.0 has no other characters.
            _ => written.push('\u{FFFD}'),
        }
    }
    written
}

/// A time since 1970 as `2026-11-26T20:00:00Z`.
fn date(unix_ns: u64) -> String {
    let begin = humantime::parse_rfc3339("1970-01-01T00:00:00Z").ok();
    let time = begin.and_then(|begin| begin.checked_add(Duration::from_secs(unix_ns / SECOND_NS)));
    time.map(|time| humantime::format_rfc3339_seconds(time).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_xml_has_no_sign_for_is_replaced() {
        let all = "a\u{b}b\u{c}\u{0}\t\n\u{85}<\u{FFFE}\u{1F4F7}";
        assert_eq!(super::escaped(all), "a\u{FFFD}b\u{FFFD}\u{FFFD}\t\n\u{85}&lt;\u{FFFD}\u{1F4F7}");
    }
}
