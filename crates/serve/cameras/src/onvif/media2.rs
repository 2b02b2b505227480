//! The Media service, version 2: the same profiles, with names for all codings.

use roxmltree::Node;

use super::configurations::{self, Kind, Version};
use super::{Asked, Fault, Reply, Service, child, escaped, media, text_below};
use crate::plan::Camera;

pub(super) const SERVICE: Service = Service {
    namespace: "http://www.onvif.org/ver20/media/wsdl",
    prefix: "tr2",
    path: "media2_service",
    capabilities: "<tr2:Capabilities SnapshotUri=\"false\" Rotation=\"false\"><tr2:ProfileCapabilities MaximumNumberOfProfiles=\"1\" \
                   ConfigurationsSupported=\"VideoSource VideoEncoder AudioSource AudioEncoder\"/>\
                   <tr2:StreamingCapabilities RTSPStreaming=\"true\" RTPMulticast=\"false\" RTP_RTSP_TCP=\"true\" \
                   NonAggregateControl=\"false\"/></tr2:Capabilities>",
    respond,
};

/// How streams are had from their address: over UDP, on the connection of RTSP, or within HTTP.
const PROTOCOLS: [&str; 3] = ["RtspUnicast", "RTSP", "RtspOverHttp"];

fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<Reply, Fault>> {
    let named = || media::camera(asked, text_below(operation, "ProfileToken").unwrap_or_default());
    let body = match operation.tag_name().name() {
        "GetProfiles" => profiles(asked, operation),
        "GetStreamUri" => named().and_then(|camera| stream_uri(asked, camera, operation)),
        "GetSnapshotUri" => named().and_then(media::no_snapshots),
        "GetVideoEncoderInstances" => instances(asked, operation),
        name @ ("GetOSDs" | "GetMasks") => Ok(format!("<tr2:{name}Response/>")),
        _ => configurations::respond(asked, operation, Version::Two)?,
    };
    Some(body.map(Reply::Body))
}

fn profiles(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<String, Fault> {
    let types = operation.children().filter(|node| node.tag_name().name() == "Type");
    let types: Vec<&str> = types.filter_map(|node| node.text()).map(str::trim).collect();
    let wanted = child(operation, "Token").and_then(|node| node.text()).map(str::trim);
    let profiles: String = match wanted {
        Some(token) => profile(media::camera(asked, token)?, &types),
        None => asked.cameras().map(|camera| profile(camera, &types)).collect(),
    };
    Ok(format!("<tr2:GetProfilesResponse>{profiles}</tr2:GetProfilesResponse>"))
}

/// A profile with its configurations of the wanted types; a client that names no type wants none.
fn profile(camera: &Camera, types: &[&str]) -> String {
    let name = escaped(&camera.name);
    let part = |kind: Kind| {
        let element = kind.name();
        let is_wanted = types.iter().any(|wanted| *wanted == "All" || *wanted == element);
        is_wanted.then(|| kind.of_camera(camera, &format!("tr2:{element}"), Version::Two)).flatten()
    };
    let parts: String = configurations::ALL.into_iter().filter_map(part).collect();
    let parts = match types {
        [] => String::new(),
        _ => format!("<tr2:Configurations>{parts}</tr2:Configurations>"),
    };
    format!("<tr2:Profiles token=\"{name}\" fixed=\"true\"><tr2:Name>{name}</tr2:Name>{parts}</tr2:Profiles>")
}

fn stream_uri(asked: &Asked<'_>, camera: &Camera, operation: Node<'_, '_>) -> Result<String, Fault> {
    let protocol = text_below(operation, "Protocol").unwrap_or(PROTOCOLS[0]);
    if !PROTOCOLS.contains(&protocol) {
        let why = format!("cameras are not sent by {protocol}: {} are possible", PROTOCOLS.join(", "));
        return Err(Fault::of_sender("ter:InvalidStreamSetup", why));
    }
    let address = media::address(asked, camera);
    Ok(format!("<tr2:GetStreamUriResponse><tr2:Uri>{address}</tr2:Uri></tr2:GetStreamUriResponse>"))
}

/// How many streams a source has at once: the one that there is.
fn instances(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<String, Fault> {
    let token = text_below(operation, "ConfigurationToken").unwrap_or_default();
    let camera = Kind::VideoSource.named(asked, token)?;
    let coding = camera.film.pictures().map_or(String::new(), |pictures| {
        format!(
            "<tr2:Codec><tr2:Encoding>{}</tr2:Encoding><tr2:Number>1</tr2:Number></tr2:Codec>",
            pictures.format
        )
    });
    Ok(format!(
        "<tr2:GetVideoEncoderInstancesResponse><tr2:Info>{coding}<tr2:Total>1</tr2:Total></tr2:Info>\
         </tr2:GetVideoEncoderInstancesResponse>"
    ))
}
