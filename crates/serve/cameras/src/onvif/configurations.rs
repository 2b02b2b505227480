//! Configurations of both versions of the Media service: what a camera's profile consists of. Each has one choice, since a film
//! is what it is.

use std::sync::Arc;

use roxmltree::Node;

use super::{Asked, Fault, escaped, media, media2, text_below};
use crate::film::{Pictures, Sound};
use crate::plan::Camera;

/// Which Media service is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

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

/// The body of the response to `GetXConfigurations` and `GetXConfigurationOptions`, and of version 1 also to `GetXConfiguration` and
/// `GetCompatibleXConfigurations`; `None` for other operations.
pub(super) fn respond(
    asked: &Asked<'_>,
    operation: Node<'_, '_>,
    version: Version,
) -> Option<Result<String, Fault>> {
    let name = operation.tag_name().name();
    let wanted = name.strip_prefix("Get")?;
    let (wanted, is_compatible) =
        wanted.strip_prefix("Compatible").map_or((wanted, false), |wanted| (wanted, true));
    let (kind, rest) = wanted.split_once("Configuration")?;
    let kind = Kind::of(kind)?;
    let prefix = version.prefix();
    let named = |name| text_below(operation, name).filter(|token| !token.is_empty());
    let of_camera =
        |camera: &Camera, element| kind.of_camera(camera, &format!("{prefix}:{element}"), version);
    let of_profile = |token| {
        media::camera(asked, token).map(|camera| of_camera(camera, "Configurations").unwrap_or_default())
    };
    let body = match (version, rest, is_compatible) {
        (Version::One, "s", true) => of_profile(named("ProfileToken").unwrap_or_default()),
        (Version::Two, "s", false) if named("ProfileToken").is_some() => {
            of_profile(named("ProfileToken").unwrap_or_default())
        }
        (Version::Two, "s", false) if named("ConfigurationToken").is_some() => kind
            .named(asked, named("ConfigurationToken").unwrap_or_default())
            .and_then(|camera| of_camera(camera, "Configurations").ok_or_else(no_configuration)),
        (_, "s", false) => {
            Ok(asked.cameras().filter_map(|camera| of_camera(camera, "Configurations")).collect::<String>())
        }
        (Version::One, "", false) => kind
            .named(asked, named("ConfigurationToken").unwrap_or_default())
            .and_then(|camera| of_camera(camera, "Configuration").ok_or_else(no_configuration)),
        (_, "Options", false) => {
            let camera = match (named("ConfigurationToken"), named("ProfileToken")) {
                (Some(token), _) => kind.named(asked, token),
                (None, Some(token)) => media::camera(asked, token),
                (None, None) => {
                    let has_options = |camera: &&Arc<Camera>| kind.options(camera, version).is_some();
                    asked.cameras().find(has_options).ok_or_else(no_configuration)
                }
            };
            camera.and_then(|camera| kind.options(camera, version).ok_or_else(no_configuration))
        }
        _ => return None,
    };
    Some(body.map(|body| format!("<{prefix}:{name}Response>{body}</{prefix}:{name}Response>")))
}

impl Version {
    /// What stands before the service's elements.
    fn prefix(self) -> &'static str {
        match self {
            Self::One => media::SERVICE.prefix,
            Self::Two => media2::SERVICE.prefix,
        }
    }
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
            "VideoAnalytics" | "Analytics" | "Metadata" | "AudioOutput" | "AudioDecoder" | "PTZ" => {
                Self::Other
            }
            _ => return None,
        })
    }

    /// As operations call it, and the profiles of version 2.
    pub fn name(self) -> &'static str {
        match self {
            Self::VideoSource => "VideoSource",
            Self::AudioSource => "AudioSource",
            Self::VideoEncoder => "VideoEncoder",
            Self::AudioEncoder => "AudioEncoder",
            Self::Other => "Metadata",
        }
    }

    /// The element of a profile of version 1.
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
    pub fn named<'a>(self, asked: &Asked<'a>, token: &str) -> Result<&'a Arc<Camera>, Fault> {
        let name = token.strip_prefix(self.prefix());
        asked.cameras().find(|camera| name == Some(&camera.name)).ok_or_else(no_configuration)
    }

    /// A camera's configuration, if it has one of this kind.
    pub fn of_camera(self, camera: &Camera, element: &str, version: Version) -> Option<String> {
        let name = escaped(&camera.name);
        let mut attributes = String::new();
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
            Self::VideoEncoder => {
                let pictures = pictures?;
                if version == Version::Two {
                    attributes = format!(
                        " GovLength=\"{}\"{}",
                        pictures.per_sync,
                        attribute("Profile", pictures.profile)
                    );
                }
                video_encoder(&pictures, version)?
            }
            Self::AudioEncoder => audio_encoder(&sound?, version)?,
            Self::Other => return None,
        };
        Some(format!(
            "<{element} token=\"{}{name}\"{attributes}><tt:Name>{name}</tt:Name><tt:UseCount>1</tt:UseCount>{content}</{element}>",
            self.prefix()
        ))
    }

    /// What a client may choose for a camera's configuration: what it is.
    fn options(self, camera: &Camera, version: Version) -> Option<String> {
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
            Self::VideoEncoder => match version {
                Version::One => video_options(&pictures?)?,
                Version::Two => return Some(video_options_2(&pictures?)),
            },
            Self::AudioEncoder => audio_options(&sound?, version)?,
            Self::Other => return None,
        };
        let prefix = version.prefix();
        Some(format!("<{prefix}:Options>{content}</{prefix}:Options>"))
    }
}

/// Width and height; 0 where they are not known.
pub(super) fn size(pictures: Option<&Pictures>) -> (u16, u16) {
    pictures.and_then(|pictures| pictures.size).unwrap_or((0, 0))
}

/// A range of one number.
fn only(element: &str, number: u64) -> String {
    format!("<tt:{element}><tt:Min>{number}</tt:Min><tt:Max>{number}</tt:Max></tt:{element}>")
}

/// An attribute, if there is something to say.
fn attribute(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(" {name}=\"{value}\"")).unwrap_or_default()
}

fn resolution(pictures: &Pictures, element: &str) -> String {
    let (width, height) = size(Some(pictures));
    format!("<tt:{element}><tt:Width>{width}</tt:Width><tt:Height>{height}</tt:Height></tt:{element}>")
}

/// `None` where the version of the service has no name for the coding.
fn video_encoder(pictures: &Pictures, version: Version) -> Option<String> {
    let resolution = resolution(pictures, "Resolution");
    let (per_second, kbits_per_second) = (pictures.per_second, pictures.bits_per_second / 1000);
    let encoding = match version {
        Version::One => pictures.encoding?,
        Version::Two => {
            return Some(format!(
                "<tt:Encoding>{}</tt:Encoding>{resolution}<tt:RateControl ConstantBitRate=\"false\">\
                 <tt:FrameRateLimit>{per_second}</tt:FrameRateLimit><tt:BitrateLimit>{kbits_per_second}</tt:BitrateLimit>\
                 </tt:RateControl><tt:Quality>1</tt:Quality>",
                pictures.format
            ));
        }
    };
    let profile = pictures.profile.filter(|_| encoding == "H264").map(|profile| {
        format!(
            "<tt:H264><tt:GovLength>{}</tt:GovLength><tt:H264Profile>{profile}</tt:H264Profile></tt:H264>",
            pictures.per_sync
        )
    });
    Some(format!(
        "<tt:Encoding>{encoding}</tt:Encoding>{resolution}<tt:Quality>1</tt:Quality><tt:RateControl>\
         <tt:FrameRateLimit>{per_second}</tt:FrameRateLimit><tt:EncodingInterval>1</tt:EncodingInterval>\
         <tt:BitrateLimit>{kbits_per_second}</tt:BitrateLimit></tt:RateControl>{}{MULTICAST}",
        profile.unwrap_or_default(),
    ))
}

fn video_options(pictures: &Pictures) -> Option<String> {
    let encoding = pictures.encoding?;
    let length = match encoding {
        "JPEG" => String::new(),
        _ => only("GovLengthRange", pictures.per_sync.into()),
    };
    let profile = pictures
        .profile
        .filter(|_| encoding == "H264")
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

fn video_options_2(pictures: &Pictures) -> String {
    let (gov, per_second) = (pictures.per_sync, pictures.per_second);
    format!(
        "<tr2:Options GovLengthRange=\"{gov} {gov}\" FrameRatesSupported=\"{per_second}\"{} ConstantBitRateSupported=\"false\">\
         <tt:Encoding>{}</tt:Encoding>{}{}{}</tr2:Options>",
        attribute("ProfilesSupported", pictures.profile),
        pictures.format,
        only("QualityRange", 1),
        resolution(pictures, "ResolutionsAvailable"),
        only("BitrateRange", pictures.bits_per_second / 1000),
    )
}

/// `None` where the version of the service has no name for the coding.
fn sound_encoding(sound: &Sound, version: Version) -> Option<&'static str> {
    match version {
        Version::One => sound.encoding,
        Version::Two => Some(sound.format),
    }
}

fn audio_encoder(sound: &Sound, version: Version) -> Option<String> {
    let encoding = sound_encoding(sound, version)?;
    let (kbits_per_second, kilohertz) = (sound.bits_per_second / 1000, sound.clock_rate / 1000);
    let numbers =
        format!("<tt:Bitrate>{kbits_per_second}</tt:Bitrate><tt:SampleRate>{kilohertz}</tt:SampleRate>");
    Some(match version {
        Version::One => format!("<tt:Encoding>{encoding}</tt:Encoding>{numbers}{MULTICAST}"),
        Version::Two => format!("<tt:Encoding>{encoding}</tt:Encoding>{numbers}"),
    })
}

fn audio_options(sound: &Sound, version: Version) -> Option<String> {
    let content = format!(
        "<tt:Encoding>{}</tt:Encoding><tt:BitrateList><tt:Items>{}</tt:Items></tt:BitrateList>\
         <tt:SampleRateList><tt:Items>{}</tt:Items></tt:SampleRateList>",
        sound_encoding(sound, version)?,
        sound.bits_per_second / 1000,
        sound.clock_rate / 1000,
    );
    Some(match version {
        Version::One => format!("<tt:Options>{content}</tt:Options>"),
        Version::Two => content,
    })
}
