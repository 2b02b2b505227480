//! The Media service: a profile for each camera, with the camera's name as its token.

use std::sync::Arc;

use roxmltree::Node;

use super::{Asked, Fault, escaped, text_below};
use crate::plan::Camera;

/// The body of the response; `None` for operations that there are not.
pub(super) fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<String, Fault>> {
    let named = || camera(asked, text_below(operation, "ProfileToken").unwrap_or_default());
    Some(match operation.tag_name().name() {
        "GetProfiles" => {
            let all: String = asked.cameras().map(|camera| profile(camera, "trt:Profiles")).collect();
            Ok(format!("<trt:GetProfilesResponse>{all}</trt:GetProfilesResponse>"))
        }
        "GetProfile" => named().map(|camera| {
            format!("<trt:GetProfileResponse>{}</trt:GetProfileResponse>", profile(camera, "trt:Profile"))
        }),
        "GetVideoSources" => {
            let all: String = asked.cameras().map(|camera| source(camera)).collect();
            Ok(format!("<trt:GetVideoSourcesResponse>{all}</trt:GetVideoSourcesResponse>"))
        }
        "GetStreamUri" => named().map(|camera| stream_uri(asked, camera)),
        "GetSnapshotUri" => named().and_then(|_| {
            let why = "the cameras have no snapshots: the server decodes no pictures";
            Err(Fault::of_sender("ter:ActionNotSupported", why))
        }),
        "GetServiceCapabilities" => Ok(service_capabilities()),
        _ => return None,
    })
}

/// The camera of a profile.
fn camera<'a>(asked: &Asked<'a>, token: &str) -> Result<&'a Arc<Camera>, Fault> {
    let unknown = || Fault::of_sender("ter:NoProfile", format!("there is no profile {token}"));
    asked.cameras().find(|camera| camera.name == token).ok_or_else(unknown)
}

fn profile(camera: &Camera, element: &str) -> String {
    let name = escaped(&camera.name);
    let pictures = camera.film.pictures();
    let bounds = pictures.and_then(|pictures| pictures.size);
    let (width, height) = bounds.unwrap_or((0, 0));
    let encoder = pictures.and_then(|pictures| {
        let encoding = pictures.encoding?;
        Some(format!(
            "<tt:VideoEncoderConfiguration token=\"encoder-{name}\"><tt:Name>{name}</tt:Name><tt:UseCount>1</tt:UseCount>\
             <tt:Encoding>{encoding}</tt:Encoding><tt:Resolution><tt:Width>{width}</tt:Width><tt:Height>{height}</tt:Height>\
             </tt:Resolution><tt:Quality>1</tt:Quality><tt:RateControl><tt:FrameRateLimit>{}</tt:FrameRateLimit>\
             <tt:EncodingInterval>1</tt:EncodingInterval><tt:BitrateLimit>{}</tt:BitrateLimit></tt:RateControl>\
             <tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type><tt:IPv4Address>0.0.0.0</tt:IPv4Address></tt:Address>\
             <tt:Port>0</tt:Port><tt:TTL>0</tt:TTL><tt:AutoStart>false</tt:AutoStart></tt:Multicast>\
             <tt:SessionTimeout>PT60S</tt:SessionTimeout></tt:VideoEncoderConfiguration>",
            pictures.per_second,
            pictures.bits_per_second / 1000,
        ))
    });
    format!(
        "<{element} token=\"{name}\" fixed=\"true\"><tt:Name>{name}</tt:Name>\
         <tt:VideoSourceConfiguration token=\"configuration-{name}\"><tt:Name>{name}</tt:Name><tt:UseCount>1</tt:UseCount>\
         <tt:SourceToken>source-{name}</tt:SourceToken><tt:Bounds x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>\
         </tt:VideoSourceConfiguration>{}</{element}>",
        encoder.unwrap_or_default()
    )
}

fn source(camera: &Camera) -> String {
    let pictures = camera.film.pictures();
    let (width, height) = pictures.and_then(|pictures| pictures.size).unwrap_or((0, 0));
    format!(
        "<trt:VideoSources token=\"source-{}\"><tt:Framerate>{}</tt:Framerate><tt:Resolution><tt:Width>{width}</tt:Width>\
         <tt:Height>{height}</tt:Height></tt:Resolution></trt:VideoSources>",
        escaped(&camera.name),
        pictures.map_or(0, |pictures| pictures.per_second),
    )
}

fn stream_uri(asked: &Asked<'_>, camera: &Camera) -> String {
    format!(
        "<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri>rtsp://{}/{}</tt:Uri>\
         <tt:InvalidAfterConnect>false</tt:InvalidAfterConnect><tt:InvalidAfterReboot>false</tt:InvalidAfterReboot>\
         <tt:Timeout>PT0S</tt:Timeout></trt:MediaUri></trt:GetStreamUriResponse>",
        asked.place.rtsp,
        escaped(&camera.name)
    )
}

fn service_capabilities() -> String {
    "<trt:GetServiceCapabilitiesResponse><trt:Capabilities SnapshotUri=\"false\" Rotation=\"false\">\
     <trt:ProfileCapabilities MaximumNumberOfProfiles=\"1\"/>\
     <trt:StreamingCapabilities RTPMulticast=\"false\" RTP_TCP=\"true\" RTP_RTSP_TCP=\"true\"/>\
     </trt:Capabilities></trt:GetServiceCapabilitiesResponse>"
        .to_owned()
}
