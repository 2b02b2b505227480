//! The Media service, version 1: a profile for each camera, with the camera's name as its token.

use std::sync::Arc;

use roxmltree::Node;

use super::configurations::{self, Version};
use super::{Asked, Fault, Reply, Service, escaped, text_below};
use crate::plan::Camera;

pub(super) const SERVICE: Service = Service {
    namespace: "http://www.onvif.org/ver10/media/wsdl",
    prefix: "trt",
    path: "media_service",
    capabilities: "<trt:Capabilities SnapshotUri=\"false\" Rotation=\"false\"><trt:ProfileCapabilities MaximumNumberOfProfiles=\"1\"/>\
                   <trt:StreamingCapabilities RTPMulticast=\"false\" RTP_TCP=\"true\" RTP_RTSP_TCP=\"true\"/></trt:Capabilities>",
    respond,
};

fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<Reply, Fault>> {
    let named = || camera(asked, text_below(operation, "ProfileToken").unwrap_or_default());
    let name = operation.tag_name().name();
    let all = |each: fn(&Camera) -> Option<String>| -> String {
        let all: String = asked.cameras().filter_map(|camera| each(camera)).collect();
        format!("<trt:{name}Response>{all}</trt:{name}Response>")
    };
    let body = match name {
        "GetProfiles" => Ok(all(|camera| Some(profile(camera, "trt:Profiles")))),
        "GetProfile" => named().map(|camera| {
            format!("<trt:GetProfileResponse>{}</trt:GetProfileResponse>", profile(camera, "trt:Profile"))
        }),
        "GetVideoSources" => Ok(all(|camera| Some(source(camera)))),
        "GetAudioSources" => Ok(all(sound_source)),
        "GetAudioOutputs" | "GetOSDs" => Ok(all(|_| None)),
        "GetStreamUri" => named().map(|camera| stream_uri(asked, camera)),
        "GetSnapshotUri" => named().and_then(no_snapshots),
        _ => configurations::respond(asked, operation, Version::One)?,
    };
    Some(body.map(Reply::Body))
}

/// Version 2 refuses them, too.
pub(super) fn no_snapshots(_: &Arc<Camera>) -> Result<String, Fault> {
    let why = "the cameras have no snapshots: the server decodes no pictures";
    Err(Fault::of_sender("ter:ActionNotSupported", why))
}

/// The camera of a profile.
pub(super) fn camera<'a>(asked: &Asked<'a>, token: &str) -> Result<&'a Arc<Camera>, Fault> {
    let unknown = || Fault::of_sender("ter:NoProfile", format!("there is no profile {token}"));
    asked.cameras().find(|camera| camera.name == token).ok_or_else(unknown)
}

fn profile(camera: &Camera, element: &str) -> String {
    let name = escaped(&camera.name);
    let parts = configurations::ALL.into_iter();
    let parts: String =
        parts.filter_map(|kind| kind.of_camera(camera, kind.element(), Version::One)).collect();
    format!("<{element} token=\"{name}\" fixed=\"true\"><tt:Name>{name}</tt:Name>{parts}</{element}>")
}

fn source(camera: &Camera) -> String {
    let pictures = camera.film.pictures();
    let (width, height) = configurations::size(pictures.as_ref());
    format!(
        "<trt:VideoSources token=\"source-{}\"><tt:Framerate>{}</tt:Framerate><tt:Resolution><tt:Width>{width}</tt:Width>\
         <tt:Height>{height}</tt:Height></tt:Resolution></trt:VideoSources>",
        escaped(&camera.name),
        pictures.map_or(0, |pictures| pictures.per_second),
    )
}

fn sound_source(camera: &Camera) -> Option<String> {
    let channels = camera.film.sound()?.channels;
    let name = escaped(&camera.name);
    Some(format!(
        "<trt:AudioSources token=\"sound-source-{name}\"><tt:Channels>{channels}</tt:Channels></trt:AudioSources>"
    ))
}

/// Where a camera is watched.
pub(super) fn address(asked: &Asked<'_>, camera: &Camera) -> String {
    format!("rtsp://{}/{}", asked.place.rtsp, escaped(&camera.name))
}

fn stream_uri(asked: &Asked<'_>, camera: &Camera) -> String {
    format!(
        "<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri>{}</tt:Uri>\
         <tt:InvalidAfterConnect>false</tt:InvalidAfterConnect><tt:InvalidAfterReboot>false</tt:InvalidAfterReboot>\
         <tt:Timeout>PT0S</tt:Timeout></trt:MediaUri></trt:GetStreamUriResponse>",
        address(asked, camera)
    )
}
