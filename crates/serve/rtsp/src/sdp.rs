//! What DESCRIBE answers (RFC 8866, and RFC 2326, appendix C).

use core::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sdp_types::{
    Attribute, Bandwidth, BandwidthType, Connection, Fmtp, FmtpParam, Media, MediaType, Origin, RtpMap,
    Session, TransportProto,
};

use crate::presentation::{Codec, Presentation, Track, repeated_payload_type};
use crate::range::Unit;
use crate::target::track_name;

/// The description of a presentation by a server at `host`.
pub fn describe(presentation: &Presentation, host: IpAddr) -> Vec<u8> {
    describe_at(presentation, host, None, Unit::Npt)
}

/// The same where the URL has a query, which clients lose or misplace as they put URLs together. `full` is the URL without its
/// query, and the query: tracks are named by whole URLs. Positions are counted in `unit`.
pub fn describe_at(
    presentation: &Presentation,
    host: IpAddr,
    full: Option<(&str, &str)>,
    unit: Unit,
) -> Vec<u8> {
    let version = presentation.version;
    let anywhere: IpAddr = match host {
        IpAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let title = if presentation.title.is_empty() { "-" } else { &presentation.title };
    let mut session = Session::builder(Origin::with_ip_addr(version, version, host), title)
        .connection(Connection::from_ip_addr(anywhere))
        .attribute(Attribute::with_value("control", "*"));
    if presentation.is_seekable {
        // A description has one range. All players know normal play time; those that replay recordings count by the clock.
        let range = presentation.in_unit(presentation.range(), unit);
        session = session.attribute(Attribute::with_value("range", range));
    }
    let tracks = presentation.tracks.iter().enumerate();
    let medias = tracks.map(|(number, track)| {
        let mut media = media(number, track, full);
        if unit == Unit::Clock {
            let name = name_as_recorded(number, &presentation.tracks);
            media.attributes.push(Attribute::with_value("x-onvif-track", name));
        }
        media
    });
    let session = session.medias(medias).build();
    let mut text = Vec::new();
    session.write(&mut text).expect("a vector takes everything");
    text
}

/// The name that ONVIF clients know a track of a recording by: its kind, and which one of that it is (Streaming Specification,
/// section RTSP describe).
fn name_as_recorded(number: usize, tracks: &[Track]) -> String {
    let kind_of = |track: &Track| match kind(&track.codec) {
        MediaType::Video => "VIDEO",
        MediaType::Audio => "AUDIO",
        _ => "META",
    };
    let own = kind_of(&tracks[number]);
    let which = tracks[..=number].iter().filter(|track| kind_of(track) == own).count();
    format!("{own}{which:03}")
}

fn kind(codec: &Codec) -> MediaType {
    match codec {
        Codec::MpegTransport => MediaType::Video,
        Codec::Klv => MediaType::Application,
        Codec::T140 { .. } => MediaType::Text,
        pictures if pictures.is_pictures() => MediaType::Video,
        _ => MediaType::Audio,
    }
}

fn media(number: usize, track: &Track, full: Option<(&str, &str)>) -> Media {
    let codec = &track.codec;
    let payload_type = codec.payload_type(number);
    // What is repeated has a number of its own, for texts that are new in a packet and for those that are not.
    let repeated = repeated_payload_type(payload_type);
    let has_repeated = matches!(codec, Codec::T140 { generations: 1.. });
    let formats = if has_repeated { format!("{payload_type} {repeated}") } else { payload_type.to_string() };
    let mut media = Media::builder(kind(codec), 0, TransportProto::RtpAvp, formats);
    if let Some(bits) = track.bits_per_second {
        media = media.bandwidth(Bandwidth::new(BandwidthType::As, bits.div_ceil(1000)));
    }
    media = media.attribute(map(codec, payload_type));
    if let Codec::T140 { generations: generations @ 1.. } = codec {
        let texts = vec![repeated.to_string(); usize::from(*generations) + 1].join("/");
        media = media.attribute(Attribute::with_value("fmtp", format!("{payload_type} {texts}")));
        media = media.attribute(RtpMap::new(repeated, "t140", codec.clock_rate()));
    }
    let parameters = parameters(codec);
    if !parameters.is_empty() {
        let mut format = Fmtp::new(payload_type);
        format.add_format_specific_params(
            parameters.into_iter().map(|(name, value)| FmtpParam::with_value(name, value)),
        );
        media = media.attribute(format);
    }
    let control = match full {
        Some((url, query)) => format!("{}/{}?{query}", url.trim_end_matches('/'), track_name(number)),
        None => track_name(number),
    };
    media.attribute(Attribute::with_value("control", control)).build()
}

fn map(codec: &Codec, payload_type: u8) -> RtpMap {
    let channels = match codec {
        Codec::Aac { channels, .. }
        | Codec::Ac3 { channels, .. }
        | Codec::Eac3 { channels, .. }
        | Codec::Pcm { channels, .. }
        | Codec::Vorbis { channels, .. } => Some(*channels),
        // Always two (RFC 7587, section 7).
        Codec::Opus { .. } => Some(2),
        Codec::MultiOpus(streams) => Some(streams.mapping.len() as u8),
        _ => None,
    };
    let mut map = RtpMap::new(payload_type, codec.encoding_name(), codec.clock_rate());
    if let Some(channels) = channels {
        map.set_encoding_params(channels);
    }
    map
}

/// What stands in `a=fmtp`.
fn parameters(codec: &Codec) -> Vec<(&'static str, String)> {
    match codec {
        // RFC 6184, section 8.1.
        Codec::H264 { sps, pps } => {
            let mut parameters = vec![("packetization-mode", "1".to_owned())];
            if let Some([_, profile, constraints, level, ..]) = sps.first().map(Vec::as_slice) {
                parameters.push(("profile-level-id", format!("{profile:02X}{constraints:02X}{level:02X}")));
            }
            parameters.extend(units("sprop-parameter-sets", sps.iter().chain(pps)));
            parameters
        }
        // RFC 7798, section 7.1.
        Codec::H265 { vps, sps, pps } => {
            let sets = [("sprop-vps", vps), ("sprop-sps", sps), ("sprop-pps", pps)];
            sets.into_iter().filter_map(|(name, sets)| units(name, sets)).collect()
        }
        // RFC 3640, section 3.3.6.
        Codec::Aac { config, .. } => vec![
            ("streamtype", "5".to_owned()),
            ("profile-level-id", "1".to_owned()),
            ("mode", "AAC-hbr".to_owned()),
            ("sizelength", "13".to_owned()),
            ("indexlength", "3".to_owned()),
            ("indexdeltalength", "3".to_owned()),
            ("config", hexadecimal(config)),
        ],
        Codec::Opus { channels: 2 } => vec![("sprop-stereo", "1".to_owned())],
        Codec::MultiOpus(streams) => vec![
            ("num_streams", streams.streams.to_string()),
            ("coupled_streams", streams.coupled.to_string()),
            ("channel_mapping", streams.mapping.iter().map(u8::to_string).collect::<Vec<_>>().join(",")),
        ],
        // RFC 5215, section 6.
        Codec::Vorbis { configuration, .. } => vec![("configuration", BASE64_STANDARD.encode(configuration))],
        // RFC 9628, section 6.
        Codec::Vp9 { profile } => vec![("profile-id", profile.to_string())],
        // AV1 RTP payload format, section 7.2.
        Codec::Av1 { profile, level, tier } => vec![
            ("profile", profile.to_string()),
            ("level-idx", level.to_string()),
            ("tier", tier.to_string()),
        ],
        // RFC 6416, section 7.1.
        Codec::Mpeg4 { config } => {
            let profile = config.strip_prefix(&[0, 0, 1, 0xB0]).and_then(|rest| rest.first());
            let profile = profile.map(|profile| ("profile-level-id", profile.to_string()));
            let config = (!config.is_empty()).then(|| ("config", hexadecimal(config)));
            profile.into_iter().chain(config).collect()
        }
        Codec::Opus { .. }
        | Codec::Ac3 { .. }
        | Codec::Eac3 { .. }
        | Codec::Pcm { .. }
        | Codec::Vp8
        | Codec::Jpeg
        | Codec::Klv
        | Codec::T140 { .. }
        | Codec::MpegAudio
        | Codec::MpegTransport => vec![],
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn units<'a>(
    name: &'static str,
    units: impl IntoIterator<Item = &'a Vec<u8>>,
) -> Option<(&'static str, String)> {
    let encoded: Vec<_> = units.into_iter().map(|unit| BASE64_STANDARD.encode(unit)).collect();
    (!encoded.is_empty()).then(|| (name, encoded.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::{OpusStreams, PcmValues};
    use crate::range::SECOND_NS;

    fn pcm(values: PcmValues, clock_rate: u32, channels: u8) -> Codec {
        Codec::Pcm { values, clock_rate, channels }
    }

    fn presentation(codecs: Vec<Codec>) -> Presentation {
        let tracks = codecs.into_iter().map(|codec| Track { codec, bits_per_second: Some(1_500_400) });
        Presentation {
            title: "a\r\nfilm".to_owned(),
            version: 7,
            tracks: tracks.collect(),
            duration_ns: Some(12 * SECOND_NS + SECOND_NS / 2),
            recorded_ns: None,
            is_seekable: true,
        }
    }

    #[test]
    fn a_film_is_described_as_players_read_it() {
        let film = presentation(vec![
            Codec::H264 { sps: vec![vec![0x67, 0x64, 0x00, 0x1F, 0xAC]], pps: vec![vec![0x68, 0xEE]] },
            Codec::Aac { config: vec![0x12, 0x10], clock_rate: 44_100, channels: 2 },
        ]);
        let expected = [
            "v=0",
            "o=- 7 7 IN IP4 192.0.2.1",
            "s=afilm",
            "c=IN IP4 0.0.0.0",
            "t=0 0",
            "a=control:*",
            "a=range:npt=0.000000-12.500000",
            "m=video 0 RTP/AVP 96",
            "b=AS:1501",
            "a=rtpmap:96 H264/90000",
            "a=fmtp:96 packetization-mode=1;profile-level-id=64001F;sprop-parameter-sets=Z2QAH6w=,aO4=",
            "a=control:trackID=0",
            "m=audio 0 RTP/AVP 97",
            "b=AS:1501",
            "a=rtpmap:97 mpeg4-generic/44100/2",
            "a=fmtp:97 streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1210",
            "a=control:trackID=1",
            "",
        ];
        let text = String::from_utf8(describe(&film, [192, 0, 2, 1].into())).expect("text");
        assert_eq!(text, expected.join("\r\n"));
    }

    #[test]
    fn tracks_of_recordings_have_the_names_that_onvif_clients_know() {
        let track = || Codec::Opus { channels: 1 };
        let film = presentation(vec![Codec::Vp8, track(), track(), Codec::Klv]);
        let described = |unit| {
            let text = describe_at(&film, [192, 0, 2, 1].into(), None, unit);
            let text = String::from_utf8(text).expect("text");
            let names = text.lines().filter_map(|line| line.strip_prefix("a=x-onvif-track:"));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(described(Unit::Clock), ["VIDEO001", "AUDIO001", "AUDIO002", "META001"]);
        assert!(described(Unit::Npt).is_empty());
    }

    #[test]
    fn each_codec_has_its_map() {
        let all = presentation(vec![
            Codec::H265 { vps: vec![vec![0x40, 1]], sps: vec![vec![0x42, 1]], pps: vec![vec![0x44, 1]] },
            Codec::Opus { channels: 1 },
            Codec::Opus { channels: 2 },
            Codec::MpegAudio,
            Codec::MpegTransport,
            Codec::Vp8,
            Codec::Vp9 { profile: 2 },
            Codec::Av1 { profile: 0, level: 8, tier: 0 },
            Codec::Ac3 { clock_rate: 48_000, channels: 6 },
            Codec::Eac3 { clock_rate: 44_100, channels: 2 },
            pcm(PcmValues::MuLaw, 8_000, 1),
            pcm(PcmValues::ALaw, 16_000, 2),
            pcm(PcmValues::L16, 44_100, 2),
            pcm(PcmValues::L24, 96_000, 8),
            Codec::Mpeg4 { config: vec![0, 0, 1, 0xB0, 0xF5] },
            Codec::Jpeg,
            Codec::Vorbis { configuration: vec![0, 0, 0, 1], clock_rate: 44_100, channels: 2 },
            Codec::MultiOpus(OpusStreams { streams: 4, coupled: 2, mapping: vec![0, 4, 1, 2, 3, 5] }),
            Codec::Klv,
            Codec::T140 { generations: 0 },
            Codec::T140 { generations: 2 },
        ]);
        let host: IpAddr = core::net::Ipv6Addr::LOCALHOST.into();
        let text = String::from_utf8(describe(&all, host)).expect("text");
        for line in [
            "o=- 7 7 IN IP6 ::1",
            "c=IN IP6 ::",
            "a=rtpmap:96 H265/90000",
            "a=fmtp:96 sprop-vps=QAE=;sprop-sps=QgE=;sprop-pps=RAE=",
            "a=rtpmap:97 opus/48000/2",
            "a=rtpmap:98 opus/48000/2",
            "a=fmtp:98 sprop-stereo=1",
            "m=audio 0 RTP/AVP 14",
            "a=rtpmap:14 MPA/90000",
            "m=video 0 RTP/AVP 33",
            "a=rtpmap:33 MP2T/90000",
            "m=video 0 RTP/AVP 101",
            "a=rtpmap:101 VP8/90000",
            "a=rtpmap:102 VP9/90000",
            "a=fmtp:102 profile-id=2",
            "a=rtpmap:103 AV1/90000",
            "a=fmtp:103 profile=0;level-idx=8;tier=0",
            "m=audio 0 RTP/AVP 104",
            "a=rtpmap:104 ac3/48000/6",
            "a=rtpmap:105 eac3/44100/2",
            "m=audio 0 RTP/AVP 0",
            "a=rtpmap:0 PCMU/8000/1",
            "a=rtpmap:107 PCMA/16000/2",
            "m=audio 0 RTP/AVP 10",
            "a=rtpmap:10 L16/44100/2",
            "a=rtpmap:109 L24/96000/8",
            "m=video 0 RTP/AVP 110",
            "a=rtpmap:110 MP4V-ES/90000",
            "a=fmtp:110 profile-level-id=245;config=000001B0F5",
            "m=video 0 RTP/AVP 26",
            "a=rtpmap:26 JPEG/90000",
            "a=rtpmap:112 vorbis/44100/2",
            "a=fmtp:112 configuration=AAAAAQ==",
            "m=audio 0 RTP/AVP 113",
            "a=rtpmap:113 multiopus/48000/6",
            "a=fmtp:113 num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5",
            "m=application 0 RTP/AVP 114",
            "a=rtpmap:114 smpte336m/90000",
            "m=text 0 RTP/AVP 115",
            "a=rtpmap:115 t140/1000",
            "m=text 0 RTP/AVP 116 117",
            "a=rtpmap:116 red/1000",
            "a=fmtp:116 117/117/117",
            "a=rtpmap:117 t140/1000",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        assert!(!text.contains("a=fmtp:97"));
        assert_eq!(Session::parse(text.as_bytes()).expect("a description").medias.len(), 21);
    }
}
