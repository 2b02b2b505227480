//! ONVIF: what recorders and gateways ask a camera first. Requests come in as text, responses go out as text.
//!
//! The path of a request chooses the device: `/onvif/device_service` is one device with all cameras, and
//! `/onvif/NAME/device_service` is one camera. Both have the Device, the Event and two Media services.
//!
//! What waits for something to tell is a [`Pull`]: alarms follow from the plan, so it knows when to look next.
//!
//! Sources: ONVIF Core, Media Service, Media 2 Service and Streaming Specification; WS-Security UsernameToken Profile 1.0;
//! WS-BaseNotification 1.3; WS-Addressing 1.0; WS-Discovery 2005/04.

mod authentication;
mod configurations;
mod device;
pub mod discovery;
mod events;
mod media;
mod media2;
mod pull_points;
mod times;

use core::net::IpAddr;
use std::sync::{Arc, Mutex};

use forebay_rtsp::server::Guesses;
use roxmltree::{Document, Node, ParsingOptions};

use crate::plan::{Camera, Plan};
use authentication::Allowed;
pub use pull_points::{Pull, PullPoints};

/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The longest name of a request that its response repeats: those of requests that wait are kept.
const NAME_BYTES_MAX: usize = 512;
/// The elements that a request may have.
const NODES_MAX: u32 = 2_000;

const ENVELOPE: &str = "http://www.w3.org/2003/05/soap-envelope";
const ENVELOPE_1_1: &str = "http://schemas.xmlsoap.org/soap/envelope/";

/// What else stands in responses: prefixes and what they mean.
const PREFIXES: [(&str, &str); 8] = [
    ("tt", "http://www.onvif.org/ver10/schema"),
    ("ter", "http://www.onvif.org/ver10/error"),
    ("tns1", "http://www.onvif.org/ver10/topics"),
    ("wsnt", events::NOTIFICATION),
    ("wstop", "http://docs.oasis-open.org/wsn/t-1"),
    ("wsrf-rw", "http://docs.oasis-open.org/wsrf/rw-2"),
    ("wsa", "http://www.w3.org/2005/08/addressing"),
    ("xs", "http://www.w3.org/2001/XMLSchema"),
];

/// What a device offers.
struct Service {
    namespace: &'static str,
    /// What stands before its elements in responses.
    prefix: &'static str,
    /// The last part of its address.
    path: &'static str,
    /// What it can do, as an element.
    capabilities: &'static str,
    /// Answers an operation; `None` for operations that there are not.
    respond: fn(&Asked<'_>, Node<'_, '_>) -> Option<Result<Reply, Fault>>,
}

/// All services. `GetServiceCapabilities` is an operation of each.
static SERVICES: [Service; 4] = [device::SERVICE, media::SERVICE, media2::SERVICE, events::SERVICE];

/// What an operation comes to.
enum Reply {
    /// The body of the response.
    Body(String),
    Pull(Pull),
}

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
    /// The pull points of all clients.
    pub pull_points: &'a Mutex<PullPoints>,
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
    /// The pull point whose waiting request has to be looked at again ([`Pull::point`]).
    pub stirs: Option<u64>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Answer {
    /// It is answered.
    Ready(Response),
    /// It waits for something to tell.
    Later(Pull),
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
    /// The last part of the path.
    service: &'a str,
    place: &'a Place,
    asker: &'a Asker<'a>,
    allowed: Allowed,
    /// Since 1970, by the clock of the device.
    unix_ns: u64,
    envelope: &'a Enveloping,
}

/// What a response has around its body.
#[derive(Clone, Debug)]
struct Enveloping {
    /// The version of SOAP.
    namespace: &'static str,
    /// What it says of the request that it is for.
    header: String,
}

/// Answers a request to a path.
pub fn answer(plan: &Plan, place: &Place, path: &str, body: &str, asker: &Asker<'_>) -> Answer {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let Ok(document) = Document::parse_with_options(body, options) else {
        let envelope = Enveloping { namespace: ENVELOPE, header: String::new() };
        return Answer::Ready(
            envelope.fault(Fault::of_sender("ter:WellFormed", "an envelope of SOAP is wanted")),
        );
    };
    let root = document.root_element();
    let envelope = Enveloping::for_request(root);
    match respond(plan, place, path, root, asker, &envelope) {
        Ok((Reply::Body(body), stirs)) => Answer::Ready(Response { stirs, ..envelope.around(&body) }),
        Ok((Reply::Pull(pull), _)) => Answer::Later(pull),
        Err(why) => Answer::Ready(envelope.fault(why)),
    }
}

/// The reply, and the pull point that it stirs.
fn respond(
    plan: &Plan,
    place: &Place,
    path: &str,
    root: Node<'_, '_>,
    asker: &Asker<'_>,
    envelope: &Enveloping,
) -> Result<(Reply, Option<u64>), Fault> {
    let (camera, service) = device_of(plan, path)?;
    let operation = child(root, "Body").and_then(|body| body.first_element_child());
    let operation =
        operation.ok_or_else(|| Fault::of_sender("ter:WellFormed", "an operation in the body is wanted"))?;
    let unix_ns = camera.map_or(asker.unix_ns, |camera| camera.unix_ns(asker.at_ns));
    let name = operation.tag_name().name();
    let is_open = device::OPEN.contains(&name);
    let allowed = if is_open { Allowed::All } else { authentication::check(plan, root, asker, unix_ns)? };
    let asked = Asked { plan, camera, service, place, asker, allowed, unix_ns, envelope };
    let is_refused =
        camera.is_some_and(|camera| camera.refuses(asker.at_ns) || !asked.allowed.may_see(camera));
    if is_refused && !is_open {
        return Err(authentication::not_authorized());
    }
    let reply = match Service::of(operation) {
        Some(Service { prefix, capabilities, .. }) if name == "GetServiceCapabilities" => Some(Ok(
            Reply::Body(format!("<{prefix}:{name}Response>{capabilities}</{prefix}:{name}Response>")),
        )),
        Some(service) => (service.respond)(&asked, operation),
        None => None,
    };
    let unsupported = || {
        let why = format!("the operation {name} is not supported");
        Err(Fault::of_sender("ter:ActionNotSupported", why))
    };
    let stirs = events::STIR.contains(&name).then(|| asked.pull_point()).flatten();
    Ok((reply.unwrap_or_else(unsupported)?, stirs))
}

impl Service {
    /// The one that has an operation.
    fn of(operation: Node<'_, '_>) -> Option<&'static Self> {
        let namespace = match operation.tag_name().namespace()? {
            // Operations on pull points are those of notifications, too.
            events::NOTIFICATION => events::SERVICE.namespace,
            other => other,
        };
        SERVICES.iter().find(|service| service.namespace == namespace)
    }
}

/// The camera that a path names, and the last part of the path.
fn device_of<'a>(plan: &'a Plan, path: &'a str) -> Result<(Option<&'a Arc<Camera>>, &'a str), Fault> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["onvif", name, service] => match plan.place(name) {
            Some(place) => Ok((Some(&plan.cameras()[place]), service)),
            None => Err(Fault::of_sender("ter:InvalidArgVal", format!("there is no camera {name}"))),
        },
        _ => Ok((None, parts.last().copied().unwrap_or_default())),
    }
}

impl<'a> Asked<'a> {
    /// The cameras that this request may know of.
    fn cameras(&self) -> impl Iterator<Item = &'a Arc<Camera>> {
        let all: &[Arc<Camera>] = if self.camera.is_some() { &[] } else { self.plan.cameras() };
        self.camera.into_iter().chain(all).filter(move |camera| self.allowed.may_see(camera))
    }

    /// The pull point whose address was asked.
    fn pull_point(&self) -> Option<u64> {
        self.service.strip_prefix(events::PULL_POINT)?.parse().ok()
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

impl Enveloping {
    /// The response is told from others by the number that the request has (WS-Addressing 1.0 Core, section 3.4).
    fn for_request(root: Node<'_, '_>) -> Self {
        let namespace =
            if root.tag_name().namespace() == Some(ENVELOPE_1_1) { ENVELOPE_1_1 } else { ENVELOPE };
        let of_header = |name| {
            let text = child(child(root, "Header")?, name)?.text().map(str::trim)?;
            (text.len() <= NAME_BYTES_MAX).then_some(text)
        };
        let header = match (of_header("Action"), of_header("MessageID")) {
            (Some(action), Some(id)) => format!(
                "<s:Header><wsa:Action>{}Response</wsa:Action><wsa:RelatesTo>{}</wsa:RelatesTo></s:Header>",
                escaped(action.strip_suffix("Request").unwrap_or(action)),
                escaped(id),
            ),
            _ => String::new(),
        };
        Self { namespace, header }
    }

    fn around(&self, body: &str) -> Response {
        self.response(200, &self.header, body)
    }

    fn response(&self, status: u16, header: &str, body: &str) -> Response {
        let services = SERVICES.iter().map(|service| (service.prefix, service.namespace));
        let prefixes: String = services
            .chain(PREFIXES)
            .map(|(prefix, namespace)| format!(" xmlns:{prefix}=\"{namespace}\""))
            .collect();
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <s:Envelope xmlns:s=\"{}\"{prefixes}>{header}<s:Body>{body}</s:Body></s:Envelope>\n",
            self.namespace
        );
        Response { status, body, wrong_password: None, stirs: None }
    }

    fn fault(&self, fault: Fault) -> Response {
        let (code, why) = (fault.code, escaped(&fault.why));
        let body = if self.namespace == ENVELOPE_1_1 {
            format!(
                "<s:Fault><faultcode>s:Client</faultcode><faultstring>{code}: {why}</faultstring></s:Fault>"
            )
        } else {
            format!(
                "<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>{code}</s:Value></s:Subcode></s:Code>\
                 <s:Reason><s:Text xml:lang=\"en\">{why}</s:Text></s:Reason></s:Fault>"
            )
        };
        Response { wrong_password: fault.wrong_password, ..self.response(fault.status, "", &body) }
    }
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

#[cfg(test)]
mod tests {
    #[test]
    fn what_xml_has_no_sign_for_is_replaced() {
        let all = "a\u{b}b\u{c}\u{0}\t\n\u{85}<\u{FFFE}\u{1F4F7}";
        assert_eq!(super::escaped(all), "a\u{FFFD}b\u{FFFD}\u{FFFD}\t\n\u{85}&lt;\u{FFFD}\u{1F4F7}");
    }
}
