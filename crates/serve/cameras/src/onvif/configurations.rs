//! Configurations of the Media service: what a camera's profile consists of. Each has one choice, since a film is what it is.

use std::sync::Arc;

use roxmltree::Node;

use super::{Asked, Fault, escaped, media, text_below};
use crate::film::{Pictures, Sound};
use crate::plan::Camera;

/// What a configuration is of.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    VideoSource,
    AudioSource,
    VideoEncoder,
    AudioEncoder,
    /// What no camera has: analytics, metadata, loudspeakers.
    Other,
}

/// The kinds in the order in which a profile has them.
pub(super) const ALL: [Kind; 4] =
    [Kind::VideoSource, Kind::AudioSource, Kind::VideoEncoder, Kind::AudioEncoder];

const MULTICAST: &str = "<tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type><tt:IPv4Address>0.0.0.0</tt:IPv4Address>\
                         </tt:Address><tt:Port>0</tt:Port><tt:TTL>0</tt:TTL><tt:AutoStart>false</tt:AutoStart>\
                         </tt:Multicast><tt:SessionTimeout>PT60S</tt:SessionTimeout>";

/// The body of the response to `GetXConfiguration`, `GetXConfigurations`, `GetXConfigurationOptions` and
/// `GetCompatibleXConfigurations`; `None` for other operations.
pub(super) fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<String, Fault>> {
    let name = operation.tag_name().name();
    let wanted = name.strip_prefix("Get")?;
    let (wanted, is_compatible) =
        wanted.strip_prefix("Compatible").map_or((wanted, false), |wanted| (wanted, true));
    let (kind, rest) = wanted.split_once("Configuration")?;
    let kind = Kind::of(kind)?;
    let named = |name| text_below(operation, name).filter(|token| !token.is_empty());
    let body = match (rest, is_compatible) {
        ("s", true) => media::camera(asked, named("ProfileToken").unwrap_or_default())
            .map(|camera| kind.of_camera(camera, "trt:Configurations").unwrap_or_default()),
        ("s", false) => Ok(asked
            .cameras()
            .filter_map(|camera| kind.of_camera(camera, "trt:Configurations"))
            .collect::<String>()),
        ("", false) => kind
            .named(asked, named("ConfigurationToken").unwrap_or_default())
            .and_then(|camera| kind.of_camera(camera, "trt:Configuration").ok_or_else(no_configuration)),
        ("Options", false) => {
            let camera = match (named("ConfigurationToken"), named("ProfileToken")) {
                (Some(token), _) => kind.named(asked, token),
                (None, Some(token)) => media::camera(asked, token),
                (None, None) => {
                    asked.cameras().find(|camera| kind.options(camera).is_some()).ok_or_else(no_configuration)
                }
            };
            camera.and_then(|camera| kind.options(camera).ok_or_else(no_configuration))
        }
        _ => return None,
    };
    Some(body.map(|body| format!("<trt:{name}Response>{body}</trt:{name}Response>")))
}

fn no_configuration() -> Fault {
    Fault::of_sender("ter:NoConfig", "there is no such configuration")
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "VideoSource" => Self::VideoSource,
            "AudioSource" => Self::AudioSource,
            "VideoEncoder" => Self::VideoEncoder,
            "AudioEncoder" => Self::AudioEncoder,
            "VideoAnalytics" | "Metadata" | "AudioOutput" | "AudioDecoder" => Self::Other,
            _ => return None,
        })
    }

    /// The element of a profile.
    pub fn element(self) -> &'static str {
        match self {
            Self::VideoSource => "tt:VideoSourceConfiguration",
            Self::AudioSource => "tt:AudioSourceConfiguration",
            Self::VideoEncoder => "tt:VideoEncoderConfiguration",
            Self::AudioEncoder => "tt:AudioEncoderConfiguration",
            Self::Other => "tt:MetadataConfiguration",
        }
    }

    /// What stands before a camera's name in the token of its configuration.
    fn prefix(self) -> &'static str {
        match self {
            Self::VideoSource => "configuration-",
            Self::AudioSource => "sound-configuration-",
            Self::VideoEncoder => "encoder-",
            Self::AudioEncoder => "sound-encoder-",
            Self::Other => "none-",
        }
    }

    /// The camera whose configuration has a token.
    fn named<'a>(self, asked: &Asked<'a>, token: &str) -> Result<&'a Arc<Camera>, Fault> {
        let name = token.strip_prefix(self.prefix());
        asked.cameras().find(|camera| name == Some(&camera.name)).ok_or_else(no_configuration)
    }

    /// A camera's configuration, if it has one of this kind.
    pub fn of_camera(self, camera: &Camera, element: &str) -> Option<String> {
        let name = escaped(&camera.name);
        let (pictures, sound) = (camera.film.pictures(), camera.film.sound());
        let content = match self {
            Self::VideoSource => {
                let (width, height) = size(pictures.as_ref());
                format!(
                    "<tt:SourceToken>source-{name}</tt:SourceToken>\
                     <tt:Bounds x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>"
                )
            }
            Self::AudioSource => {
                sound?;
                format!("<tt:SourceToken>sound-source-{name}</tt:SourceToken>")
            }
            Self::VideoEncoder => video_encoder(&pictures?)?,
            Self::AudioEncoder => audio_encoder(&sound?)?,
            Self::Other => return None,
        };
        Some(format!(
            "<{element} token=\"{}{name}\"><tt:Name>{name}</tt:Name><tt:UseCount>1</tt:UseCount>{content}</{element}>",
            self.prefix()
        ))
    }

    /// What a client may choose for a camera's configuration: what it is.
    fn options(self, camera: &Camera) -> Option<String> {
        let name = escaped(&camera.name);
        let (pictures, sound) = (camera.film.pictures(), camera.film.sound());
        let content = match self {
            Self::VideoSource => {
                let (width, height) = size(pictures.as_ref());
                format!(
                    "<tt:BoundsRange>{}{}{}{}</tt:BoundsRange>\
                     <tt:VideoSourceTokensAvailable>source-{name}</tt:VideoSourceTokensAvailable>",
                    only("XRange", 0),
                    only("YRange", 0),
                    only("WidthRange", width.into()),
                    only("HeightRange", height.into()),
                )
            }
            Self::AudioSource => {
                sound?;
                format!("<tt:InputTokensAvailable>sound-source-{name}</tt:InputTokensAvailable>")
            }
            Self::VideoEncoder => video_options(&pictures?)?,
            Self::AudioEncoder => {
                let sound = sound?;
                format!(
                    "<tt:Options><tt:Encoding>{}</tt:Encoding><tt:BitrateList><tt:Items>{}</tt:Items></tt:BitrateList>\
                     <tt:SampleRateList><tt:Items>{}</tt:Items></tt:SampleRateList></tt:Options>",
                    sound.encoding?,
                    sound.bits_per_second / 1000,
                    sound.clock_rate / 1000,
                )
            }
            Self::Other => return None,
        };
        Some(format!("<trt:Options>{content}</trt:Options>"))
    }
}

/// Width and height; 0 where they are not known.
pub(super) fn size(pictures: Option<&Pictures>) -> (u32, u32) {
    pictures.and_then(|pictures| pictures.size).unwrap_or((0, 0))
}

/// A range of one number.
fn only(element: &str, number: u64) -> String {
    format!("<tt:{element}><tt:Min>{number}</tt:Min><tt:Max>{number}</tt:Max></tt:{element}>")
}

fn resolution(pictures: &Pictures, element: &str) -> String {
    let (width, height) = size(Some(pictures));
    format!("<tt:{element}><tt:Width>{width}</tt:Width><tt:Height>{height}</tt:Height></tt:{element}>")
}

/// `None` where version 1.0 of the service has no name for the coding.
fn video_encoder(pictures: &Pictures) -> Option<String> {
    let of_coding = pictures.h264_profile.map(|profile| {
        format!(
            "<tt:H264><tt:GovLength>{}</tt:GovLength><tt:H264Profile>{profile}</tt:H264Profile></tt:H264>",
            pictures.per_sync
        )
    });
    Some(format!(
        "<tt:Encoding>{}</tt:Encoding>{}<tt:Quality>1</tt:Quality><tt:RateControl><tt:FrameRateLimit>{}</tt:FrameRateLimit>\
         <tt:EncodingInterval>1</tt:EncodingInterval><tt:BitrateLimit>{}</tt:BitrateLimit></tt:RateControl>{}{MULTICAST}",
        pictures.encoding?,
        resolution(pictures, "Resolution"),
        pictures.per_second,
        pictures.bits_per_second / 1000,
        of_coding.unwrap_or_default(),
    ))
}

fn video_options(pictures: &Pictures) -> Option<String> {
    let encoding = pictures.encoding?;
    let length = match encoding {
        "JPEG" => String::new(),
        _ => only("GovLengthRange", pictures.per_sync.into()),
    };
    let profile = pictures
        .h264_profile
        .map(|profile| format!("<tt:H264ProfilesSupported>{profile}</tt:H264ProfilesSupported>"));
    Some(format!(
        "{}<tt:{encoding}>{}{length}{}{}{}</tt:{encoding}>",
        only("QualityRange", 1),
        resolution(pictures, "ResolutionsAvailable"),
        only("FrameRateRange", pictures.per_second.into()),
        only("EncodingIntervalRange", 1),
        profile.unwrap_or_default(),
    ))
}

/// `None` where version 1.0 of the service has no name for the coding.
fn audio_encoder(sound: &Sound) -> Option<String> {
    Some(format!(
        "<tt:Encoding>{}</tt:Encoding><tt:Bitrate>{}</tt:Bitrate><tt:SampleRate>{}</tt:SampleRate>{MULTICAST}",
        sound.encoding?,
        sound.bits_per_second / 1000,
        sound.clock_rate / 1000,
    ))
}
