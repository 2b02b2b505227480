//! A file whose samples are being found: the index grows while the file is read, and while the file itself grows.
//!
//! ```text
//!   file     | header | samples .............. | samples that are being written ...
//!   reading  .        go_on: so many bytes     | go_on: to the end of the file, again and again
//!   media    .        so_far: plays already    | so_far: the same, with more samples     end: all of it
//! ```
//!
//! Each [`Media`] of a reading has the tracks and the beginning of the first one, so what plays in one goes on in the next.

use crate::elementary::Begun;
use crate::error::{Error, Result};
use crate::kind::{self, Kind};
use crate::media::{Found, Media, Streams, Track};
use crate::source::{ReadAt, Source};
use crate::{
    adts, annex_b, avi, elementary, first_sample, flv, matroska, mp4, mpeg_audio, ogg, transport, wav,
};

/// After so many bytes, tracks without samples are not waited for.
const EARLY_BYTES: u64 = 64 << 20;

/// At the end of a file that is being written, tracks without samples are not waited for once there is so much of others.
const EARLY_NS: u64 = 5_000_000_000;

/// What is known of a file, and how far it has been read.
pub struct Reading {
    pass: Pass,
    /// The numbers of the tracks, and the beginning, of what was given out first.
    first: Option<(Vec<u64>, i64)>,
    streams: Streams,
    /// Whether all that the file had was read.
    is_at_end: bool,
}

enum Pass {
    /// There is too little to tell what it is: a recording may have only just begun.
    TooEarly,
    Mp4(mp4::Pass),
    Matroska(Box<matroska::Pass>),
    Elementary(Box<elementary::Pass>),
    /// Of a kind that is read at once.
    Whole(Kind),
}

impl Reading {
    /// Finds out what a file is.
    pub fn begin(file: &dyn ReadAt, streams: Streams) -> Result<Self> {
        let pass = Pass::begin(&mut Source::new(file)?, streams, false)?.unwrap_or(Pass::TooEarly);
        Ok(Self { pass, first: None, streams, is_at_end: false })
    }

    /// Whether files of this kind are read part by part, and followed while they grow.
    pub fn is_in_parts(&self) -> bool {
        !matches!(self.pass, Pass::Whole(_))
    }

    /// How far it has been read.
    pub fn at(&self) -> u64 {
        match &self.pass {
            Pass::Mp4(pass) => pass.at(),
            Pass::Matroska(pass) => pass.at(),
            Pass::Elementary(pass) => pass.at(),
            Pass::Whole(_) | Pass::TooEarly => 0,
        }
    }

    /// Whether the file says that all of it has been written.
    pub fn is_closed(&self, file: &dyn ReadAt) -> Result<bool> {
        Ok(match &self.pass {
            Pass::Mp4(pass) => pass.is_closed(),
            Pass::Matroska(pass) => pass.is_closed(&Source::new(file)?),
            Pass::Elementary(_) | Pass::TooEarly => false,
            Pass::Whole(_) => true,
        })
    }

    /// How long all of it is, if the file says so at its beginning or its end.
    pub fn told_ns(&self, file: &dyn ReadAt) -> Result<Option<u64>> {
        match &self.pass {
            Pass::Matroska(pass) => Ok(pass.told_ns()),
            Pass::Elementary(pass) => pass.told_ns(&mut Source::new(file)?),
            Pass::Mp4(_) | Pass::Whole(_) | Pass::TooEarly => Ok(None),
        }
    }

    /// Reads so many bytes more, or a little more than that; returns whether the file has ended before.
    pub fn go_on(&mut self, file: &dyn ReadAt, bytes: u64) -> Result<bool> {
        let mut source = Source::new(file)?;
        if let Pass::TooEarly = self.pass {
            let Some(pass) = Pass::begin(&mut source, self.streams, false)? else { return Ok(true) };
            self.pass = pass;
        }
        let until = self.at().saturating_add(bytes);
        self.is_at_end = match &mut self.pass {
            Pass::Mp4(pass) => pass.go_on(&mut source, until)?,
            Pass::Matroska(pass) => pass.go_on(&mut source, until)?,
            Pass::Elementary(pass) => pass.go_on(&mut source, until, self.first.is_none())?,
            Pass::Whole(_) | Pass::TooEarly => true,
        };
        Ok(self.is_at_end)
    }

    /// What has been found; `None` while some track may have its first sample yet to come.
    pub fn so_far(&mut self, file: &dyn ReadAt) -> Result<Option<Media>> {
        let mut source = Source::new(file)?;
        let found = match &self.pass {
            Pass::Mp4(pass) => pass.found(&source),
            Pass::Matroska(pass) => pass.found(&source),
            Pass::Elementary(pass) if pass.lacks_key_frames() => return Ok(None),
            Pass::Elementary(pass) => pass.found(),
            Pass::Whole(_) | Pass::TooEarly => return Ok(None),
        };
        let found = match found {
            Err(Error::Truncated { .. } | Error::Encrypted) => return Ok(None),
            found => found?,
        };
        let is_early = self.at() < EARLY_BYTES && !(self.is_at_end && found.duration_ns() >= EARLY_NS);
        if self.first.is_none() && (found.tracks.is_empty() || (found.waiting > 0 && is_early)) {
            return Ok(None);
        }
        self.media(&mut source, found).map(Some)
    }

    /// Reads all that is left.
    pub fn end(&mut self, file: &dyn ReadAt) -> Result<Media> {
        let mut source = Source::new(file)?;
        let source = &mut source;
        if let Pass::TooEarly = self.pass {
            self.pass = Pass::begin(source, self.streams, true)?.ok_or(Error::UnknownKind)?;
        }
        let found = match &mut self.pass {
            Pass::TooEarly => Err(Error::UnknownKind),
            Pass::Mp4(pass) => {
                pass.go_on(source, u64::MAX)?;
                pass.end(source)?;
                pass.found(source)
            }
            Pass::Matroska(pass) => {
                pass.go_on(source, u64::MAX)?;
                pass.end()?;
                pass.found(source)
            }
            Pass::Elementary(pass) => {
                while !pass.go_on(source, u64::MAX, self.first.is_none())? {}
                pass.end()?;
                match pass.found()? {
                    found if found.tracks.is_empty() && pass.lacks_pictures() => {
                        let (bytes, missing) = (source.bytes(), "the first picture");
                        Err(Error::Truncated { bytes, missing })
                    }
                    // Nothing in it tells times.
                    found if found.tracks.is_empty() => {
                        let (from, layout) = pass.place();
                        transport::read(source, from, layout)
                    }
                    found => Ok(found),
                }
            }
            Pass::Whole(kind) => whole(source, *kind),
        }?;
        self.media(source, found)
    }

    fn media(&mut self, source: &mut Source, mut found: Found) -> Result<Media> {
        if let Some((numbers, _)) = &self.first {
            found.tracks.retain(|track| numbers.contains(&track.number()));
        }
        first_sample::look_at(source, &mut found)?;
        let begin_ns = self.first.as_ref().map_or(found.begin_ns(), |(_, begin_ns)| *begin_ns);
        let numbers = found.tracks.iter().map(Track::number).collect();
        // They are of no use beyond this.
        found.tracks = found.tracks.into_iter().map(|track| track.numbered(0)).collect();
        let media = Media::begun_at(found, begin_ns)?;
        self.first.get_or_insert((numbers, begin_ns));
        Ok(media)
    }
}

impl Pass {
    /// `None` if there is too little to tell what the file is, and `is_all` does not say that no more is to come.
    fn begin(source: &mut Source, streams: Streams, is_all: bool) -> Result<Option<Self>> {
        match Self::of_kind(source, streams, is_all) {
            Err(Error::UnknownKind) if !is_all && kind::is_open(source)? => Ok(None),
            Err(Error::Truncated { .. }) if !is_all => Ok(None),
            pass => pass,
        }
    }

    fn of_kind(source: &mut Source, streams: Streams, is_all: bool) -> Result<Option<Self>> {
        Ok(Some(match (kind::of(source)?, streams) {
            (Kind::Mp4, _) => Self::Mp4(mp4::Pass::new(source, streams.text())),
            (Kind::Matroska, _) => Self::Matroska(Box::new(matroska::Pass::new(source, streams.text())?)),
            (Kind::Transport { from, layout }, Streams::AsTracks | Streams::WithText { .. }) => {
                match elementary::Pass::begin(source, from, layout, is_all)? {
                    Begun::Tracks(pass) => Self::Elementary(pass),
                    Begun::AsItIs => Self::Whole(Kind::Transport { from, layout }),
                    Begun::TooEarly => return Ok(None),
                }
            }
            (kind, _) => Self::Whole(kind),
        }))
    }
}

/// All of a file of a kind that is read at once.
fn whole(source: &mut Source, kind: Kind) -> Result<Found> {
    match kind {
        Kind::Transport { from, layout } => transport::read(source, from, layout),
        Kind::H264 => annex_b::read_h264(source),
        Kind::H265 => annex_b::read_h265(source),
        Kind::Adts { from } => adts::read(source, from),
        Kind::MpegAudio { from } => mpeg_audio::read(source, from),
        Kind::Avi => avi::read(source),
        Kind::Wav => wav::read(source),
        Kind::Ogg => ogg::read(source),
        Kind::Flv => flv::read(source),
        Kind::Mp4 | Kind::Matroska => Err(Error::UnknownKind),
    }
}
