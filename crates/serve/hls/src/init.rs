//! Initialization segments (ISO/IEC 14496-12): what a decoder has to know before the first segment.

use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;
use mp4_atom::{
    Ac3, Audio, Av01, Av1c, Avc1, Avcc, AvccExt, Dinf, Dops, Dref, DrefEntry, Eac3, Edts, Elst, ElstEntry,
    Encode, Esds, FixedPoint, FourCC, Ftyp, Hdlr, Hvc1, HvcCArray, Hvcc, Mdhd, Mdia, Minf, Moov, Mp4a, Mvex,
    Mvhd, Opus, OpusChannelMapping, Smhd, Stbl, Stco, Stsd, Tkhd, Trak, Trex, Url, Visual, Vmhd, Vp09, VpcC,
};

use mp4_atom::esds;

use crate::film::{Film, FilmTrack};
use crate::fragment::on_clock;
use crate::frames::Frames;
use crate::shape::{H265, Shape, vp9_level};

/// Ticks in a second of the film as a whole.
const TIMESCALE: u32 = 1000;
/// The object type of AAC.
const AAC: u8 = 0x40;
/// Profiles of H.264 whose records tell how colours are sampled (ISO/IEC 14496-15, 5.3.3.1.2).
const HIGH_PROFILES: [u8; 4] = [100, 110, 122, 144];

impl Film {
    /// What comes before the segments of these tracks; `None` if browsers do not play them.
    pub fn init(&self, tracks: &[usize]) -> Option<Vec<u8>> {
        let chosen = self.chosen(tracks)?;
        let brand = |name: &[u8; 4]| FourCC::new(name);
        let ftyp = Ftyp {
            major_brand: brand(b"iso5"),
            minor_version: 512,
            compatible_brands: vec![brand(b"iso5"), brand(b"iso6"), brand(b"mp41")],
        };
        let traks = chosen.iter().enumerate().map(|(place, track)| self.trak(place as u32 + 1, track));
        let trex = (1..=chosen.len() as u32).map(|track_id| Trex {
            track_id,
            default_sample_description_index: 1,
            ..Trex::default()
        });
        let moov = Moov {
            mvhd: Mvhd {
                timescale: TIMESCALE,
                rate: 1.into(),
                volume: 1.into(),
                next_track_id: chosen.len() as u32 + 1,
                ..Mvhd::default()
            },
            meta: None,
            mvex: Some(Mvex { mehd: None, trex: trex.collect() }),
            trak: traks.collect::<Option<Vec<_>>>()?,
            udta: None,
            ainf: None,
        };
        let mut bytes = Vec::new();
        ftyp.encode(&mut bytes).ok()?;
        moov.encode(&mut bytes).ok()?;
        Some(bytes)
    }

    fn trak(&self, track_id: u32, track: &FilmTrack) -> Option<Trak> {
        let media_track = self.media_track(track.number);
        let (codec, clock_rate) = (&media_track.codec, media_track.codec.clock_rate());
        let is_video = track.shape.size.is_some();
        let (width, height) = track.shape.size.unwrap_or_default();
        let lead = on_clock(i64::try_from(self.lead_ns).unwrap_or(i64::MAX), clock_rate);
        let edit =
            ElstEntry { segment_duration: 0, media_time: u64::try_from(lead).ok(), media_rate: 1.into() };
        let handler = if is_video { b"vide" } else { b"soun" };
        let language = track
            .language
            .as_deref()
            .filter(|language| language.len() == 3 && language.bytes().all(|byte| byte.is_ascii_lowercase()));
        let url = DrefEntry::Url(Url { location: String::new() });
        let entry = sample_entry(codec, &media_track.format, &track.shape)?;
        Some(Trak {
            tkhd: Tkhd {
                track_id,
                enabled: true,
                in_movie: true,
                alternate_group: u16::from(!is_video),
                volume: u8::from(!is_video).into(),
                width: width.into(),
                height: height.into(),
                ..Tkhd::default()
            },
            edts: (lead > 0).then(|| Edts { elst: Some(Elst { entries: vec![edit] }) }),
            meta: None,
            mdia: Mdia {
                mdhd: Mdhd {
                    timescale: clock_rate,
                    language: language.unwrap_or("und").to_owned(),
                    ..Mdhd::default()
                },
                hdlr: Hdlr { handler: FourCC::new(handler), name: String::new() },
                minf: Minf {
                    vmhd: is_video.then(Vmhd::default),
                    smhd: (!is_video).then(Smhd::default),
                    dinf: Dinf { dref: Dref { entries: vec![url] } },
                    stbl: Stbl {
                        stsd: Stsd { codecs: vec![entry] },
                        stco: Some(Stco::default()),
                        ..Stbl::default()
                    },
                    ..Minf::default()
                },
            },
            senc: None,
            tref: None,
            udta: None,
        })
    }
}

fn sample_entry(codec: &Codec, format: &Format, shape: &Shape) -> Option<mp4_atom::Codec> {
    use mp4_atom::Codec as Entry;
    let (width, height) = shape.size.unwrap_or_default();
    let visual = Visual { data_reference_index: 1, width, height, ..Visual::default() };
    Some(match codec {
        Codec::H264 { sps, pps } => {
            let avcc = h264(sps, pps, length_bytes(format), shape)?;
            Entry::Avc1(Avc1 {
                visual,
                avcc,
                btrt: None,
                colr: None,
                pasp: None,
                taic: None,
                fiel: None,
                spatial: None,
            })
        }
        Codec::H265 { vps, sps, pps } => {
            let hvcc = h265([vps, sps, pps], length_bytes(format))?;
            Entry::Hvc1(Hvc1 {
                visual,
                hvcc,
                lhvc: None,
                btrt: None,
                colr: None,
                pasp: None,
                taic: None,
                fiel: None,
                ccst: None,
                spatial: None,
            })
        }
        Codec::Av1 { profile, level, tier } => Entry::Av01(Av01 {
            visual,
            av1c: Av1c {
                seq_profile: *profile,
                seq_level_idx_0: *level,
                seq_tier_0: *tier != 0,
                high_bitdepth: shape.depth > 8,
                twelve_bit: shape.depth > 10,
                monochrome: shape.chroma == 0,
                chroma_subsampling_x: shape.chroma < 3,
                chroma_subsampling_y: shape.chroma < 2,
                ..Av1c::default()
            },
            btrt: None,
            ccst: None,
            colr: None,
            pasp: None,
            taic: None,
            spatial: None,
        }),
        Codec::Vp9 { profile } => Entry::Vp09(Vp09 {
            visual,
            vpcc: VpcC {
                profile: *profile,
                level: vp9_level((width, height)),
                bit_depth: shape.depth,
                chroma_subsampling: shape.chroma,
                ..VpcC::default()
            },
            btrt: None,
            colr: None,
            pasp: None,
            spatial: None,
        }),
        Codec::Aac { config, clock_rate, channels } => Entry::Mp4a(Mp4a {
            audio: sound(*channels, *clock_rate),
            esds: esds(AAC, Some(config)),
            btrt: None,
            taic: None,
        }),
        Codec::Opus { channels } => Entry::Opus(Opus {
            audio: sound(*channels, codec.clock_rate()),
            dops: opus(*channels, None),
            btrt: None,
        }),
        Codec::MultiOpus(streams) => {
            let channels = u8::try_from(streams.mapping.len()).ok()?;
            let mapping = OpusChannelMapping {
                family: if channels <= 8 { 1 } else { 255 },
                stream_count: streams.streams,
                coupled_count: streams.coupled,
                channel_mapping: streams.mapping.clone(),
            };
            Entry::Opus(Opus {
                audio: sound(channels, codec.clock_rate()),
                dops: opus(channels, Some(mapping)),
                btrt: None,
            })
        }
        Codec::Ac3 { clock_rate, channels } | Codec::Eac3 { clock_rate, channels } => {
            let audio = sound(*channels, *clock_rate);
            match shape.frames.clone()? {
                Frames::Ac3(dac3) => Entry::Ac3(Ac3 { audio, dac3 }),
                Frames::Eac3(dec3) => Entry::Eac3(Eac3 { audio, dec3 }),
                Frames::Mp3 { .. } => return None,
            }
        }
        Codec::MpegAudio => {
            let Some(Frames::Mp3 { object_type, clock_rate, channels }) = shape.frames else { return None };
            Entry::Mp4a(Mp4a {
                audio: sound(channels, clock_rate),
                esds: esds(object_type, None),
                btrt: None,
                taic: None,
            })
        }
        _ => return None,
    })
}

fn sound(channels: u8, clock_rate: u32) -> Audio {
    Audio {
        data_reference_index: 1,
        channel_count: channels.into(),
        sample_size: 16,
        sample_rate: FixedPoint::new(u16::try_from(clock_rate).unwrap_or_default(), 0),
    }
}

/// How many bytes the length before a NAL unit has in segments.
pub(crate) fn length_bytes(format: &Format) -> u8 {
    match format {
        Format::H264(Framing::Lengths(bytes)) | Format::H265(Framing::Lengths(bytes)) => (*bytes).clamp(1, 4),
        _ => 4,
    }
}

fn h264(sps: &[Vec<u8>], pps: &[Vec<u8>], length_size: u8, shape: &Shape) -> Option<Avcc> {
    let &[_, profile, compatibility, level, ..] = sps.first()?.as_slice() else { return None };
    let ext = AvccExt {
        chroma_format: shape.chroma,
        bit_depth_luma: shape.depth,
        bit_depth_chroma: shape.depth,
        sequence_parameter_sets_ext: Vec::new(),
    };
    Some(Avcc {
        configuration_version: 1,
        avc_profile_indication: profile,
        profile_compatibility: compatibility,
        avc_level_indication: level,
        length_size,
        sequence_parameter_sets: sps.iter().take(31).cloned().collect(),
        picture_parameter_sets: pps.iter().take(255).cloned().collect(),
        ext: HIGH_PROFILES.contains(&profile).then_some(ext),
    })
}

fn h265(sets: [&Vec<Vec<u8>>; 3], length_size: u8) -> Option<Hvcc> {
    const VPS: u8 = 32;
    let set = H265::read(sets[1].first()?)?;
    let [first, c0, c1, c2, c3, i0, i1, i2, i3, i4, i5, level] = set.profile;
    let arrays = sets.into_iter().zip(VPS..).map(|(nalus, nal_unit_type)| HvcCArray {
        completeness: false,
        nal_unit_type,
        nalus: nalus.clone(),
    });
    Some(Hvcc {
        general_profile_space: first >> 6,
        general_tier_flag: first & 0x20 != 0,
        general_profile_idc: first & 0x1F,
        general_profile_compatibility_flags: [c0, c1, c2, c3],
        general_constraint_indicator_flags: [i0, i1, i2, i3, i4, i5],
        general_level_idc: level,
        chroma_format_idc: set.chroma,
        bit_depth_luma_minus8: set.depth - 8,
        bit_depth_chroma_minus8: set.depth_chroma - 8,
        num_temporal_layers: set.sub_layers,
        temporal_id_nested: set.is_nested,
        length_size_minus_one: length_size - 1,
        arrays: arrays.collect(),
        ..Hvcc::new()
    })
}

/// Sound of an object type, with what a decoder has to know before it.
fn esds(object_type_indication: u8, config: Option<&[u8]>) -> Esds {
    const SOUND: u8 = 5;
    let dec_config = esds::DecoderConfig {
        object_type_indication,
        stream_type: SOUND,
        dec_specific: config
            .map(|config| esds::DecoderSpecific { raw: config.to_vec(), ..esds::DecoderSpecific::default() }),
        ..esds::DecoderConfig::default()
    };
    Esds {
        es_desc: esds::EsDescriptor {
            es_id: 1,
            dec_config,
            sl_config: esds::SLConfig {},
            ..esds::EsDescriptor::default()
        },
    }
}

fn opus(channels: u8, channel_mapping: Option<OpusChannelMapping>) -> Dops {
    Dops {
        output_channel_count: channels,
        // What comes before the beginning is not heard anyway.
        pre_skip: 0,
        input_sample_rate: 48_000,
        output_gain: 0,
        channel_mapping,
    }
}
