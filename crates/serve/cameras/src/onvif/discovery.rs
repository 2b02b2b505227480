//! WS-Discovery: clients ask all devices of a network at once, and each camera answers for itself.

use roxmltree::{Document, Node, ParsingOptions};

use super::device::scopes_of;
use super::{child, escaped};
use crate::chance::{Purpose, draw};
use crate::plan::{Camera, Plan};

/// The port of WS-Discovery.
pub const PORT: u16 = 3702;
/// Its group.
pub const GROUP: [u8; 4] = [239, 255, 255, 250];
/// The elements that a probe may have.
const NODES_MAX: u32 = 200;

const NAMESPACE: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
/// What cameras are, in the words of probes.
const TYPES: [&str; 2] = ["NetworkVideoTransmitter", "Device"];

/// The answers to a probe, one for each camera; none to what is no probe for cameras. Services are at `http`, a host with a port.
pub fn answers(plan: &Plan, probe: &str, http: &str) -> Vec<String> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let Ok(document) = Document::parse_with_options(probe, options) else { return Vec::new() };
    let root = document.root_element();
    let is_probe = |node: &Node<'_, '_>| node.has_tag_name((NAMESPACE, "Probe"));
    let Some(probe) = child(root, "Body").and_then(|body| body.children().find(is_probe)) else {
        return Vec::new();
    };
    let id = child(root, "Header").and_then(|header| child(header, "MessageID")).and_then(|id| id.text());
    let Some(id) = id.map(str::trim) else { return Vec::new() };
    let words = |name| child(probe, name).and_then(|node| node.text()).unwrap_or_default().split_whitespace();
    let is_of_cameras =
        words("Types").all(|word| TYPES.contains(&word.rsplit(':').next().unwrap_or_default()));
    if !is_of_cameras {
        return Vec::new();
    }
    let wanted: Vec<&str> = words("Scopes").collect();
    let suits = |camera: &Camera| {
        let scopes = scopes_of(&camera.name);
        wanted.iter().all(|wanted| scopes.iter().any(|scope| is_within(scope, wanted)))
    };
    plan.cameras().iter().filter(|camera| suits(camera)).map(|camera| matching(camera, id, http)).collect()
}

/// Whether a scope is what was asked for, or below it (RFC 3986 rule).
fn is_within(scope: &str, wanted: &str) -> bool {
    let rest = scope.strip_prefix(wanted.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn matching(camera: &Camera, relates_to: &str, http: &str) -> String {
    let scopes = scopes_of(&camera.name).join(" ");
    let (name, id) = (&camera.name, uuid(camera, 0));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:a=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" xmlns:d=\"{NAMESPACE}\" \
         xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\"><s:Header>\
         <a:MessageID>urn:uuid:{}</a:MessageID><a:RelatesTo>{}</a:RelatesTo>\
         <a:To>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</a:To>\
         <a:Action>{NAMESPACE}/ProbeMatches</a:Action></s:Header><s:Body><d:ProbeMatches><d:ProbeMatch>\
         <a:EndpointReference><a:Address>urn:uuid:{id}</a:Address></a:EndpointReference>\
         <d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>{scopes}</d:Scopes>\
         <d:XAddrs>http://{http}/onvif/{name}/device_service</d:XAddrs><d:MetadataVersion>1</d:MetadataVersion>\
         </d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>\n",
        // One for each probe.
        uuid(camera, relates_to.bytes().fold(1, |sum, byte| draw(sum, Purpose::Source, [byte.into(), 0, 0]))),
        escaped(relates_to),
    )
}

/// An identifier of a camera that is the same in every run (RFC 9562, version 8).
fn uuid(camera: &Camera, number: u64) -> String {
    let half = |part| draw(camera.faults.seed, Purpose::Source, [u64::MAX - 1, number, part]);
    let (high, low) = (half(0), half(1));
    let low = low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}
